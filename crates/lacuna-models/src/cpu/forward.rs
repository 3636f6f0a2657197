//! The forward pass: all blocks but the last for all rows, the rest for the rows that are asked for.

use lacuna::{Observation, View};
use rayon::prelude::*;

use super::attention::{Attended, Shape, Want, tile_rows};
use super::kept::Kept;
use super::kernel::{Lines, rms_norm, silu_times};
use super::key_values::Context;
use super::matrix::Input;
use super::weights::{Block, Weights};
use crate::layout::{Layout, Selection};
use crate::rope::Rope;
use crate::{Architecture, Precision};

/// A model with its weights, and the buffers it computes in. They grow when a forward pass needs more and are kept.
pub(crate) struct Forward {
    pub(crate) weights: Weights,
    shape: Shape,
    sizes: Sizes,
    rope: Rope,
    /// The residual stream of all rows before the last block.
    hidden: Lines<f32>,
    /// The keys and values of the last block, after a forward pass.
    context: Context,
    /// Keys and values of earlier forward passes.
    pub(crate) kept: Kept,
    /// All rows.
    all: Selection,
    /// The masked rows of views that ask for the last block's scores.
    masked: Selection,
    work: Work,
}

/// Widths of rows.
#[derive(Clone, Copy)]
struct Sizes {
    hidden: usize,
    mlp: usize,
    epsilon: f32,
}

/// What is used and overwritten in every block.
struct Work {
    input: Input,
    query: Lines<f32>,
    key_value: Lines<f32>,
    attended: Attended,
    gate_up: Lines<f32>,
}

impl Forward {
    pub(crate) fn new(architecture: &Architecture, weights: Weights, precision: Precision) -> Self {
        let shape = Shape::of(architecture);
        let work = Work {
            input: Input::new(precision),
            query: Lines::new(0),
            key_value: Lines::new(0),
            attended: Attended::new(shape),
            gate_up: Lines::new(0),
        };
        Self {
            weights,
            shape,
            sizes: Sizes { hidden: architecture.hidden, mlp: architecture.mlp, epsilon: architecture.epsilon as f32 },
            rope: Rope::new(shape.head_size, architecture.rope_theta),
            hidden: Lines::new(0),
            context: Context::new(precision),
            kept: Kept::default(),
            all: Selection::default(),
            masked: Selection::default(),
            work,
        }
    }

    /// Runs everything that all rows need, and tells the dependency scores asked for.
    pub(crate) fn observe(&mut self, layout: &Layout, views: &[View<'_>]) -> Vec<Observation> {
        let Self { weights, shape, sizes, rope, hidden, context, kept, all, masked, work } = self;
        let scores = |view: &View<'_>| vec![vec![0.0; view.tokens.len()]; view.attention.len()];
        let mut seen: Vec<Observation> = views.iter().map(|view| Observation { dependency: scores(view) }).collect();

        rope.extend(layout.spans.iter().map(|span| span.length).max().unwrap_or(0));
        hidden.resize(layout.rows() * sizes.hidden);
        let embed = |(row, token): (&mut [f32], &u32)| weights.embedding.look_up(*token, row);
        hidden.par_chunks_exact_mut(sizes.hidden).zip(&layout.tokens).with_min_len(16).for_each(embed);

        all.select(layout, 0..layout.rows(), tile_rows());
        let last = weights.blocks.len() - 1;
        for (layer, block) in weights.blocks.iter().enumerate() {
            work.enter(*sizes, block, hidden, None);
            work.key_value.resize(layout.rows() * block.key_value.matrix.n());
            let Work { input, query, key_value, .. } = work;
            let mut fill = || {
                block.key_value.apply(input, key_value);
                let seen = kept.complete(layout, layer, key_value);
                context.fill(*shape, layout, rope, seen);
            };
            if layer < last {
                query.resize(layout.rows() * block.query.matrix.n());
                // Together, so that no thread waits at the end of the one for the other to begin.
                rayon::join(fill, || block.query.apply(input, query));
                work.finish(*sizes, block, layout, all, rope, context, hidden);
                collect(&work.attended, layout, all, views, layer, &mut seen);
                continue;
            }
            fill();
            if views.iter().any(|view| asks(view, layer)) {
                masked.select(layout, masked_rows(layout, views, layer), tile_rows());
                work.enter(*sizes, block, hidden, Some(masked));
                work.ask(block);
                work.attended.compute(layout, masked, rope, &work.query, context, Want::Mass);
                collect(&work.attended, layout, masked, views, layer, &mut seen);
            }
        }
        seen
    }

    /// The output of the last block for a selection of rows.
    pub(crate) fn finish(&mut self, layout: &Layout, selection: &Selection, output: &mut Lines<f32>) {
        let Self { weights, sizes, rope, hidden, context, work, .. } = self;
        let block = weights.blocks.last().expect("a model has a block");
        output.resize(selection.len() * sizes.hidden);
        for (row, &source) in output.chunks_exact_mut(sizes.hidden).zip(&selection.rows) {
            row.copy_from_slice(&hidden[source * sizes.hidden..][..sizes.hidden]);
        }
        work.enter(*sizes, block, output, None);
        work.ask(block);
        work.finish(*sizes, block, layout, selection, rope, context, output);
    }

    /// The logits of some rows of what [`finish`](Self::finish) gave.
    pub(crate) fn project(&mut self, finished: &[f32], rows: &[usize], logits: &mut Lines<f32>) {
        let Self { weights, sizes, work, .. } = self;
        let Sizes { hidden, epsilon, .. } = *sizes;
        work.input.fill(rows.len(), hidden, |index, values| {
            rms_norm(&finished[rows[index] * hidden..][..hidden], &weights.final_norm, epsilon, values);
        });
        logits.resize(rows.len() * weights.head.n());
        weights.head.multiply(&work.input, logits, false);
    }

    /// Bytes that a forward pass over `rows` rows needs beyond the weights.
    pub(crate) fn buffer_bytes(&self, rows: usize) -> usize {
        let block = &self.weights.blocks[0];
        let Sizes { hidden, mlp, .. } = self.sizes;
        // The residual stream, queries, and rows being read; keys and values; the MLP's halves.
        let widths = 3 * hidden + block.key_value.matrix.n() + block.gate_up.n();
        rows * widths * size_of::<f32>()
            + self.work.input.bytes(rows, hidden.max(mlp))
            + self.context.bytes(self.shape, rows)
            + self.shape.attended_bytes(rows)
    }
}

impl Work {
    /// Normalizes rows on their way into a block: those of a selection, or all.
    fn enter(&mut self, sizes: Sizes, block: &Block, hidden: &[f32], selection: Option<&Selection>) {
        let width = sizes.hidden;
        let rows = selection.map_or(hidden.len() / width, Selection::len);
        self.input.fill(rows, width, |index, values| {
            let row = selection.map_or(index, |selection| selection.rows[index]);
            rms_norm(&hidden[row * width..][..width], &block.attention_norm, sizes.epsilon, values);
        });
    }

    /// The queries of the rows that entered.
    fn ask(&mut self, block: &Block) {
        self.query.resize(self.input.rows() * block.query.matrix.n());
        block.query.apply(&self.input, &mut self.query);
    }

    /// Everything after queries, keys and values: `hidden`, the rows of the selection, becomes the block's output.
    #[allow(clippy::too_many_arguments, reason = "the parts of one forward pass, borrowed apart")]
    fn finish(
        &mut self,
        sizes: Sizes,
        block: &Block,
        layout: &Layout,
        selection: &Selection,
        rope: &Rope,
        context: &Context,
        hidden: &mut [f32],
    ) {
        let Sizes { hidden: width, mlp, epsilon } = sizes;
        let rows = selection.len();
        let Self { input, query, attended, gate_up, .. } = self;
        attended.compute(layout, selection, rope, query, context, Want::All);
        input.fill(rows, width, |index, values| attended.write_row(selection, index, values));
        block.output.multiply(input, hidden, true);

        let source = &*hidden;
        input.fill(rows, width, |index, values| {
            rms_norm(&source[index * width..][..width], &block.mlp_norm, epsilon, values);
        });
        gate_up.resize(rows * 2 * mlp);
        block.gate_up.multiply(input, gate_up, false);
        input.fill(rows, mlp, |index, values| {
            let (gate, up) = gate_up[index * 2 * mlp..][..2 * mlp].split_at(mlp);
            silu_times(gate, up, values);
        });
        block.down.multiply(input, hidden, true);
    }
}

fn asks(view: &View<'_>, layer: usize) -> bool {
    view.attention.iter().any(|source| source.layer == layer)
}

/// The masked rows, without shadows, of the views that ask for a layer's scores.
fn masked_rows(layout: &Layout, views: &[View<'_>], layer: usize) -> impl Iterator<Item = usize> {
    let asking = layout.spans.iter().zip(views).filter(move |(_, view)| asks(view, layer));
    let rows = asking.flat_map(|(span, _)| span.start..span.start + span.tokens);
    rows.filter(|&row| layout.is_masked(row))
}

/// Puts a layer's mass where it was asked for.
fn collect(
    attended: &Attended,
    layout: &Layout,
    selection: &Selection,
    views: &[View<'_>],
    layer: usize,
    seen: &mut [Observation],
) {
    for (index, tile) in selection.tiles.iter().enumerate().filter(|(_, tile)| !tile.shadow) {
        let wanted = views[tile.view].attention.iter().zip(&mut seen[tile.view].dependency);
        for (source, scores) in wanted.filter(|(source, _)| source.layer == layer) {
            for in_tile in 0..tile.count {
                let row = selection.rows[tile.first + in_tile];
                if layout.is_masked(row) {
                    scores[layout.positions[row]] = attended.mass(index, in_tile, &source.heads);
                }
            }
        }
    }
}
