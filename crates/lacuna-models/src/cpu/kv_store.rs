//! KV cache: keys and values of earlier forward passes, run by run.

use std::collections::HashMap;

use lacuna::{Borders, Token};

use super::kernel::Lines;
use crate::layout::{Caching, Layout, Span};
use crate::prompts::Prompts;

/// For each run and layer, rows of keys and values before rotary embedding.
#[derive(Default)]
pub(crate) struct KvStore {
    runs: HashMap<u64, Run>,
    /// Keys and values that finished runs leave for reuse.
    pub(crate) prompts: Prompts<Vec<Lines<f32>>>,
}

#[derive(Default)]
struct Run {
    length: usize,
    /// Length of a position's keys and values in a layer.
    width: usize,
    layers: Vec<Lines<f32>>,
}

impl KvStore {
    /// All keys and values of a layer, by view: the `computed` ones, which are stored where the layout says so, and the cached ones.
    pub(crate) fn complete<'a>(
        &'a mut self,
        layout: &Layout,
        layer: usize,
        computed: &'a [f32],
    ) -> impl Fn(&Span) -> &'a [f32] + Sync + use<'a> {
        let width = computed.len().checked_div(layout.rows()).unwrap_or_default();
        let fresh = move |span: &Span| &computed[span.start * width..span.end() * width];
        for span in &layout.spans {
            match span.caching {
                Caching::Off => (),
                Caching::Store => self.runs.entry(span.run).or_default().store(span.length, layer, fresh(span)),
                Caching::Update => {
                    let stored = self.runs.entry(span.run).or_default().reach(span.length, layer, width);
                    let positions = &layout.positions[span.start..span.end()];
                    for (fresh, &position) in fresh(span).chunks_exact(width).zip(positions) {
                        stored[position * width..][..width].copy_from_slice(fresh);
                    }
                }
            }
        }
        let runs = &self.runs;
        move |span| match span.caching {
            Caching::Update => &runs[&span.run].layers[layer][..span.keys() * width],
            Caching::Off | Caching::Store => fresh(span),
        }
    }

    /// Number of leading positions stored for a run.
    pub(crate) fn length(&self, run: u64) -> Option<usize> {
        self.runs.get(&run).map(|canvas| canvas.length)
    }

    /// Stores the keys and values of a run's leading blocks for reuse by other runs.
    pub(crate) fn store_prefix(&mut self, run: u64, tokens: &[Token], blocks: Borders) {
        if let Some(Run { width, layers, .. }) = self.runs.get(&run) {
            let size = tokens.len() * width;
            let copy = |rows: &Lines<f32>| {
                let mut copy = Lines::new(size);
                copy.copy_from_slice(&rows[..size]);
                copy
            };
            let bytes = layers.len() * size * size_of::<f32>();
            self.prompts.store(tokens, blocks, bytes, || Some(layers.iter().map(copy).collect()));
        }
    }

    /// Copies the longest stored prefix of a text to a run. Returns its length.
    pub(crate) fn reuse_prefix(&mut self, run: u64, tokens: &[Token], blocks: Borders) -> usize {
        let Some((length, stored, layers)) = self.prompts.find(tokens, blocks) else { return 0 };
        let canvas = self.runs.entry(run).or_default();
        for (layer, rows) in layers.iter().enumerate() {
            let width = rows.len() / stored;
            canvas.reach(length, layer, width)[..length * width].copy_from_slice(&rows[..length * width]);
        }
        length
    }

    pub(crate) fn forget(&mut self, run: u64) {
        self.runs.remove(&run);
    }
}

impl Run {
    /// The rows of a layer, grown to at least `length` positions.
    fn reach(&mut self, length: usize, layer: usize, width: usize) -> &mut [f32] {
        self.length = self.length.max(length);
        self.width = width;
        if self.layers.len() <= layer {
            self.layers.resize_with(layer + 1, || Lines::new(0));
        }
        let rows = &mut self.layers[layer];
        if rows.len() < length * width {
            let mut more = Lines::new((length * width).max(2 * rows.len()));
            more[..rows.len()].copy_from_slice(rows);
            *rows = more;
        }
        rows
    }

    fn store(&mut self, length: usize, layer: usize, fresh: &[f32]) {
        self.length = length;
        if self.layers.len() <= layer {
            self.layers.resize_with(layer + 1, || Lines::new(0));
        }
        self.layers[layer].resize(fresh.len());
        self.layers[layer].copy_from_slice(fresh);
    }
}
