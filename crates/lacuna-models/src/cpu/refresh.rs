//! A forward pass in which every layer computes some rows and gives the others what it gave them before (dLLM-Cache).

use std::collections::HashMap;

use lacuna::{Observation, Refresh, View};
use rayon::prelude::*;

use super::attention::tile_rows;
use super::forward::{Forward, collect};
use super::heads::{HeadRows, HeadTransform};
use super::kernel::{Lines, rms_norm};
use super::kv_store::KvStore;
use crate::layout::{Layout, Selection};

/// For each run, what the layers gave its rows.
pub(crate) struct Refreshed {
    runs: HashMap<u64, LayerOutputs>,
    /// The keys and values of a layer, apart from those of the views that are computed together, which reading still needs.
    kv_store: KvStore,
    /// The output of a layer's half for the rows that it computes.
    output: Lines<f32>,
}

#[derive(Default)]
struct LayerOutputs {
    layers: Vec<Layer>,
    dependency: Vec<Vec<f32>>,
    /// The rows behind the last layer.
    hidden: Lines<f32>,
}

/// Outputs of a layer for all rows.
#[derive(Default)]
struct Layer {
    /// Keys and values, before rotation.
    key_value: Vec<f32>,
    attended: Vec<f32>,
    fed: Vec<f32>,
}

impl Refreshed {
    pub(crate) fn new(kv_store: KvStore) -> Self {
        Self { runs: HashMap::new(), kv_store, output: Lines::new(0) }
    }

    /// Copies rows behind the last layer.
    pub(crate) fn copy(&self, run: u64, selection: &Selection, width: usize, output: &mut Lines<f32>) {
        let hidden = &self.runs[&run].hidden;
        output.resize(selection.len() * width);
        for (output, &row) in output.chunks_exact_mut(width).zip(&selection.rows) {
            output.copy_from_slice(&hidden[row * width..][..width]);
        }
    }

    pub(crate) fn forget(&mut self, run: u64) {
        self.runs.remove(&run);
    }
}

impl Forward {
    /// The pass of one view, which is all of the layout.
    pub(crate) fn refresh(&mut self, layout: &Layout, view: &View<'_>, asked: Refresh) -> Observation {
        let Self { weights, shape, sizes, rope, refreshed, masked: selection, work, .. } = self;
        let (length, width) = (view.tokens.len(), sizes.hidden);
        let Refreshed { runs, kv_store, output } = refreshed;
        let given = runs.entry(view.run).or_default();
        let first = given.hidden.len() != length * width || given.dependency.len() != view.attention.len();
        if first {
            given.dependency = vec![vec![0.0; length]; view.attention.len()];
            given.layers = weights.blocks.iter().map(|_| Layer::default()).collect();
        }
        let LayerOutputs { layers, dependency, hidden } = given;
        let mut seen = Observation { dependency: dependency.clone(), ..Observation::default() };
        for scores in &mut seen.dependency {
            scores
                .iter_mut()
                .enumerate()
                .filter(|(row, _)| !layout.is_masked(*row))
                .for_each(|(_, score)| *score = 0.0);
        }
        rope.extend(length);
        hidden.resize(length * width);
        let embed = |(row, token): (&mut [f32], &u32)| weights.embedding.look_up(*token, row);
        hidden.par_chunks_exact_mut(width).zip(&layout.tokens).with_min_len(16).for_each(embed);

        let everything = Refresh { anew: true, changed: Some(length), ..asked };
        for (number, (block, layer)) in weights.blocks.iter().zip(layers).enumerate() {
            let Refresh { prompt, anew, changed } = if first || number == 0 { everything } else { asked };
            let behind = if changed.is_some() { prompt } else { length };
            selection.select(layout, (0..if anew { prompt } else { 0 }).chain(behind..length), tile_rows());
            work.normalize(*sizes, block, hidden, Some(selection));
            let both = block.key_value.matrix.n();
            work.key_value.resize(selection.len() * both);
            block.key_value.apply(&work.input, &mut work.key_value);
            let fresh = layer.update(selection, &work.key_value, length, prompt, changed.unwrap_or(0));

            let transform = HeadTransform { norm: block.key_norm.as_deref(), epsilon: sizes.epsilon, rope };
            let computed = HeadRows::by_rows(&layer.key_value, length, shape.head_size);
            kv_store.fill(layout, number, transform, computed);
            selection.select(layout, fresh.into_iter(), tile_rows());
            output.resize(selection.len() * width);
            if selection.len() > 0 {
                work.normalize(*sizes, block, hidden, Some(selection));
                work.project_queries(block);
                work.attend(*sizes, block, layout, selection, rope, kv_store);
                collect(
                    &work.attended,
                    layout,
                    selection,
                    std::slice::from_ref(view),
                    number,
                    std::slice::from_mut(&mut seen),
                );
                block.output.apply(&work.input, output);
            }
            update_and_add(hidden, &mut layer.attended, selection, output, width);
            if selection.len() > 0 {
                let rows = |index: usize, values: &mut [f32]| {
                    let row = &hidden[selection.rows[index] * width..][..width];
                    rms_norm(row, &block.feed_forward_norm, sizes.epsilon, values);
                };
                work.feed_forward(*sizes, block, selection.len(), rows);
                output.fill(0.0);
                work.add_feed_forward(block, output);
            }
            update_and_add(hidden, &mut layer.fed, selection, output, width);
        }
        dependency.clone_from(&seen.dependency);
        seen
    }
}

impl Layer {
    /// Replaces keys and values of a selection, and tells which rows are to be computed: those of the prompt that are selected,
    /// and `changed` of those behind it, whose values are least like before. Keys of the others stay.
    fn update(
        &mut self,
        selection: &Selection,
        computed: &[f32],
        length: usize,
        prompt: usize,
        changed: usize,
    ) -> Vec<usize> {
        let both = if selection.len() > 0 { computed.len() / selection.len() } else { 0 };
        if self.key_value.is_empty() {
            self.key_value.resize(length * both, 0.0);
        }
        let of = |index: usize| &computed[index * both..][..both];
        let (mut fresh, behind): (Vec<usize>, Vec<usize>) =
            (0..selection.len()).partition(|&index| selection.rows[index] < prompt);
        if changed < behind.len() {
            let likeness = |&index: &usize| {
                let old = &self.key_value[selection.rows[index] * both..][both / 2..both];
                (index, cosine(&of(index)[both / 2..], old))
            };
            let mut likeness: Vec<(usize, f64)> = behind.par_iter().map(likeness).collect();
            likeness.sort_by(|(_, a), (_, b)| a.total_cmp(b));
            fresh.extend(likeness[..changed].iter().map(|(index, _)| index));
            fresh.sort_unstable();
        } else {
            fresh.extend(&behind);
        }
        let mut whole = fresh.iter().peekable();
        for (index, &row) in selection.rows.iter().enumerate() {
            let from = if whole.next_if_eq(&&index).is_some() { 0 } else { both / 2 };
            self.key_value[row * both..][from..both].copy_from_slice(&of(index)[from..]);
        }
        fresh.into_iter().map(|index| selection.rows[index]).collect()
    }
}

/// Cosine of the angle between two vectors.
fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt().max(1e-8)
}

/// Replaces what the rows of a selection are given, and gives all rows theirs.
fn update_and_add(hidden: &mut [f32], given: &mut Vec<f32>, selection: &Selection, output: &[f32], width: usize) {
    given.resize(hidden.len(), 0.0);
    for (output, &row) in output.chunks_exact(width).zip(&selection.rows) {
        given[row * width..][..width].copy_from_slice(output);
    }
    hidden.par_iter_mut().zip(given).with_min_len(1 << 14).for_each(|(hidden, given)| *hidden += *given);
}
