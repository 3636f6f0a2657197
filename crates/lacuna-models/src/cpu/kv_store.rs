//! KV cache: keys and values of earlier forward passes, run by run.

use std::collections::HashMap;

use lacuna::{Borders, Token};

use super::kernel::Lines;
use crate::layout::{Caching, Layout};
use crate::prompts::Prompts;

/// For each run and layer, rows of keys and values before rotary embedding.
#[derive(Default)]
pub(crate) struct KvStore {
    runs: HashMap<u64, Run>,
    /// Keys and values that finished runs leave for reuse.
    pub(crate) prompts: Prompts<Vec<Lines<f32>>>,
    /// Keys and values of a layer, computed and cached ones joined.
    complete: Lines<f32>,
}

#[derive(Default)]
struct Run {
    length: usize,
    /// Length of a position's keys and values in a layer.
    width: usize,
    layers: Vec<Lines<f32>>,
}

impl KvStore {
    /// All keys and values of a layer: the `computed` ones, which are stored where the layout says so, and the cached ones.
    pub(crate) fn complete<'a>(&'a mut self, layout: &Layout, layer: usize, computed: &'a [f32]) -> &'a [f32] {
        if !layout.caches() {
            return computed;
        }
        let Self { runs, complete, .. } = self;
        let width = computed.len() / layout.rows();
        complete.resize(layout.open.len() * width);
        for span in &layout.spans {
            let fresh = &computed[span.start * width..span.end() * width];
            let seen = &mut complete[span.key_start * width..][..span.keys() * width];
            match span.caching {
                Caching::Off => seen.copy_from_slice(fresh),
                Caching::Store => {
                    seen.copy_from_slice(fresh);
                    runs.entry(span.run).or_default().store(span.length, layer, fresh);
                }
                Caching::Update => {
                    let stored = runs.entry(span.run).or_default().reach(span.length, layer, width);
                    let positions = &layout.positions[span.start..span.end()];
                    for (fresh, &position) in fresh.chunks_exact(width).zip(positions) {
                        stored[position * width..][..width].copy_from_slice(fresh);
                    }
                    seen.copy_from_slice(&stored[..seen.len()]);
                }
            }
        }
        complete
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
