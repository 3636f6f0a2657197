//! Attention, full or block-causal, and with it the attention mass on unmasked positions that the dependency score is made of.
//!
//! Work is cut into (tile of query rows) × (head). A task keeps the scores of its tile in a buffer of its thread; nothing of
//! the size length × length × heads exists. The mass is one more column of the values: 1 where a position is unmasked.

use half::bf16;
use rayon::prelude::*;

use super::heads::{HeadRows, HeadTransform};
use super::kernel::{Activations, Element, Lines, Small, WORTH_A_THREAD, exponentials, largest, scale};
use super::key_values::Head;
use super::kv_store::{KvStore, Texts};
use super::scratch::{Scratch, Scratched};
use crate::Attention;
use crate::layout::{Layout, Selection, Tile};

/// Most query rows that are computed together.
const TILE: usize = 32;

/// Query rows that are computed together: whole tiles of the kernel for bf16.
pub(crate) fn tile_rows() -> usize {
    let rows = bf16::kernel().rows;
    TILE / rows * rows
}

/// Floats of a cache line.
const LINE: usize = 16;

/// The sizes attention works with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) heads: usize,
    pub(crate) key_value_heads: usize,
    pub(crate) head_size: usize,
}

impl Shape {
    pub(crate) fn of(attention: &Attention) -> Self {
        let &Attention { heads, key_value_heads, head_size, .. } = attention;
        Self { heads, key_value_heads, head_size }
    }

    /// Elements of a panel of keys.
    pub(crate) fn key_panel<E: Element>(&self) -> usize {
        let kernel = E::kernel();
        self.head_size.next_multiple_of(kernel.step) * kernel.columns
    }

    /// Elements of a panel of the values of `rows` rows.
    pub(crate) fn value_panel<E: Element>(&self, rows: usize) -> usize {
        let kernel = E::kernel();
        rows.next_multiple_of(kernel.step) * kernel.columns
    }

    /// Elements that the keys of `rows` rows take for one head.
    pub(crate) fn keys<E: Element>(&self, rows: usize) -> usize {
        rows.div_ceil(E::kernel().columns) * self.key_panel::<E>()
    }

    /// Elements that the values of `rows` rows take for one head.
    pub(crate) fn values<E: Element>(&self, rows: usize) -> usize {
        self.head_size.div_ceil(E::kernel().columns) * self.value_panel::<E>(rows)
    }

    /// Bytes that the keys and values of `rows` rows take.
    pub(crate) fn key_value_bytes<E: Element>(&self, rows: usize) -> usize {
        self.key_value_heads * (self.keys::<E>(rows) + self.values::<E>(rows)) * size_of::<E>()
    }

    /// Bytes of what attention gives for `rows` rows.
    pub(crate) fn attended_bytes(&self, rows: usize) -> usize {
        rows.div_ceil(TILE) * TILE * self.heads * (self.head_size + 1) * size_of::<f32>()
    }
}

/// Output of attention: for each tile and head, the mixed values and the mass of each row of the tile.
pub(crate) struct AttentionOutput {
    pub(super) shape: Shape,
    mixed: Lines<f32>,
    mass: Lines<f32>,
}

/// Requested parts of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// Mixed values and mass.
    All,
    /// The mass alone.
    Mass,
}

impl AttentionOutput {
    pub(crate) fn new(shape: Shape) -> Self {
        Self { shape, mixed: Lines::new(0), mass: Lines::new(0) }
    }

    /// Computes it for the rows of a selection, whose queries (before rotation) are `queries`.
    pub(crate) fn compute(
        &mut self,
        layout: &Layout,
        selection: &Selection,
        transform: HeadTransform<'_>,
        queries: HeadRows<'_>,
        kv_store: &KvStore,
        want: Want,
    ) {
        match kv_store {
            KvStore::F32(texts) => self.compute_with(layout, selection, transform, queries, texts, want),
            KvStore::Bf16(texts) => self.compute_with(layout, selection, transform, queries, texts, want),
        }
    }

    fn compute_with<E: Scratched>(
        &mut self,
        layout: &Layout,
        selection: &Selection,
        transform: HeadTransform<'_>,
        queries: HeadRows<'_>,
        texts: &Texts<E>,
        want: Want,
    ) {
        let shape = self.shape;
        let tasks = selection.tiles.len() * shape.heads;
        self.mixed.resize(tasks * TILE * shape.head_size);
        self.mass.resize(tasks * TILE);
        let run = |(task, (mixed, mass)): (usize, (&mut [f32], &mut [f32]))| {
            let task = Task {
                shape,
                tile: selection.tiles[task / shape.heads],
                head: task % shape.heads,
                layout,
                selection,
                transform,
                texts,
            };
            E::with_scratch(|scratch| task.run(scratch, queries, want, mixed, mass));
        };
        let (mixed, mass) = (&mut self.mixed[..], &mut self.mass[..]);
        let keys: usize = selection.tiles.iter().map(|tile| tile.count * layout.spans[tile.view].keys()).sum();
        if 2 * keys * shape.heads * shape.head_size < WORTH_A_THREAD {
            mixed.chunks_exact_mut(TILE * shape.head_size).zip(mass.chunks_exact_mut(TILE)).enumerate().for_each(run);
        } else {
            let tasks = mixed.par_chunks_exact_mut(TILE * shape.head_size).zip(mass.par_chunks_exact_mut(TILE));
            tasks.enumerate().with_max_len(1).for_each(run);
        }
    }

    /// The attention weights of the tokens of a view in a selection, whose queries (before rotation) are `queries`, to every key
    /// of the view, row by row: the mean over `heads`, or over all if there are none.
    #[allow(clippy::too_many_arguments, reason = "the parts of one forward pass, borrowed apart")]
    pub(crate) fn weights(
        &self,
        layout: &Layout,
        selection: &Selection,
        view: usize,
        transform: HeadTransform<'_>,
        queries: HeadRows<'_>,
        kv_store: &KvStore,
        heads: &[usize],
    ) -> Vec<f32> {
        match kv_store {
            KvStore::F32(texts) => self.weights_with(layout, selection, view, transform, queries, texts, heads),
            KvStore::Bf16(texts) => self.weights_with(layout, selection, view, transform, queries, texts, heads),
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of one forward pass, borrowed apart")]
    fn weights_with<E: Scratched>(
        &self,
        layout: &Layout,
        selection: &Selection,
        view: usize,
        transform: HeadTransform<'_>,
        queries: HeadRows<'_>,
        texts: &Texts<E>,
        heads: &[usize],
    ) -> Vec<f32> {
        let (shape, length) = (self.shape, layout.spans[view].length);
        let all: Vec<usize> = (0..shape.heads).collect();
        let heads = if heads.is_empty() { &all } else { heads };
        let tokens = |tile: &Tile| tile.view == view && !tile.shadow;
        let tiles: Vec<Tile> = selection.tiles.iter().copied().filter(tokens).collect();
        let mut means = vec![0.0; tiles.iter().map(|tile| tile.count).sum::<usize>() * length];
        let add = |means: &mut [f32], tile: Tile, head: usize, scratch: &mut Scratch<E>| {
            let task = Task { shape, tile, head, layout, selection, transform, texts };
            let visible = task.visible();
            let totals = task.exponentials(scratch, queries, &mut [0.0; TILE]);
            let stride = row_stride(visible);
            for (index, means) in means.chunks_exact_mut(length).enumerate() {
                let total = totals[index] * heads.len() as f64;
                for (mean, &weight) in means[..visible].iter_mut().zip(&scratch.scores[index * stride..]) {
                    *mean += (f64::from(weight) / total) as f32;
                }
            }
        };
        // Every tile but the last is full.
        means.par_chunks_mut(tile_rows() * length).zip(tiles).for_each(|(means, tile)| {
            E::with_scratch(|scratch| heads.iter().for_each(|&head| add(means, tile, head, scratch)));
        });
        means
    }

    /// Writes the mixed values of all heads of a row of the selection.
    pub(crate) fn write_row(&self, selection: &Selection, index: usize, output: &mut [f32]) {
        let size = self.shape.head_size;
        let tile = selection.tiles.partition_point(|tile| tile.first + tile.count <= index);
        let in_tile = index - selection.tiles[tile].first;
        for (head, output) in output.chunks_exact_mut(size).enumerate() {
            let start = ((tile * self.shape.heads + head) * TILE + in_tile) * size;
            output.copy_from_slice(&self.mixed[start..start + size]);
        }
    }

    /// The mass of a row of a tile, averaged over `heads`, or over all if there are none.
    pub(crate) fn mass(&self, tile: usize, in_tile: usize, heads: &[usize]) -> f32 {
        let mass = |head: usize| f64::from(self.mass[(tile * self.shape.heads + head) * TILE + in_tile]);
        if heads.is_empty() {
            ((0..self.shape.heads).map(mass).sum::<f64>() / self.shape.heads as f64) as f32
        } else {
            (heads.iter().map(|&head| mass(head)).sum::<f64>() / heads.len() as f64) as f32
        }
    }
}

/// One tile and head.
struct Task<'a, E> {
    shape: Shape,
    tile: Tile,
    head: usize,
    layout: &'a Layout,
    selection: &'a Selection,
    transform: HeadTransform<'a>,
    texts: &'a Texts<E>,
}

impl<E: Scratched> Task<'_, E> {
    fn run(&self, scratch: &mut Scratch<E>, queries: HeadRows<'_>, want: Want, mixed: &mut [f32], mass: &mut [f32]) {
        let totals = self.exponentials(scratch, queries, mass);
        if want == Want::Mass {
            return;
        }
        let Shape { heads, key_value_heads, head_size, .. } = self.shape;
        let Tile { view, count, .. } = self.tile;
        let Head { values, value_panel, .. } = self.texts.head(view, self.head * key_value_heads / heads);
        let mix = Small { activations: &scratch.probabilities, weights: values, panel: value_panel, n: head_size };
        mix.multiply(mixed, head_size);
        for (row, total) in mixed.chunks_exact_mut(head_size).zip(&totals[..count]) {
            scale(row, (1.0 / total) as f32);
        }
    }

    /// Leaves the exponentials of the tile's scores in the scratch, and each row's mass in `mass`; gives each row's sum.
    fn exponentials(&self, scratch: &mut Scratch<E>, queries: HeadRows<'_>, mass: &mut [f32]) -> [f64; TILE] {
        let Shape { heads, key_value_heads, head_size, .. } = self.shape;
        let Tile { view, first, count, .. } = self.tile;
        let span = self.layout.spans[view];
        let visible = self.visible();
        let key_head = self.head * key_value_heads / heads;
        let Scratch { normed, rotated, queries: tile_queries, scores, probabilities, .. } = scratch;

        tile_queries.resize(count, head_size);
        let factor = 1.0 / (head_size as f32).sqrt();
        normed.resize(head_size);
        rotated.resize(head_size);
        for index in 0..count {
            let query = queries.get(first + index, self.head);
            self.transform.apply(query, self.position(index), factor, normed, rotated);
            for (piece, values) in rotated.chunks(PIECE).enumerate() {
                tile_queries.put(index, piece * PIECE, values);
            }
        }
        let stride = row_stride(visible);
        scores.resize(count * stride);
        let score = Small {
            activations: &*tile_queries,
            weights: self.texts.head(view, key_head).keys,
            panel: self.shape.key_panel::<E>(),
            n: visible,
        };
        score.multiply(scores, stride);

        probabilities.resize(count, visible);
        let mut totals = [0.0; TILE];
        let open = &self.layout.open[span.key_start..];
        for (index, scores) in scores.chunks_exact_mut(stride).enumerate() {
            let scores = &mut scores[..visible];
            self.hide(index, scores);
            let [total, unmasked] = softmax_row(scores, index, open, probabilities);
            totals[index] = total;
            mass[index] = (unmasked / total) as f32;
        }
        totals
    }

    /// Number of keys that the tile's rows see.
    fn visible(&self) -> usize {
        let span = self.layout.spans[self.tile.view];
        // Positions ascend, so that the last row sees most.
        let last = self.position(self.tile.count - 1);
        if self.tile.shadow { span.keys() } else { span.prefix(last) }
    }

    /// Sets the scores of keys that a row of the tile does not see to −∞. What they then add to any sum is zero.
    fn hide(&self, index: usize, scores: &mut [f32]) {
        let span = self.layout.spans[self.tile.view];
        let position = self.position(index);
        let prefix = span.prefix(position);
        let (positions, shadows) = scores.split_at_mut(span.length.min(scores.len()));
        positions[prefix..].fill(f32::NEG_INFINITY);
        if self.tile.shadow {
            // A shadow stands in for its position, and sees the shadows of what it sees.
            positions[position] = f32::NEG_INFINITY;
            let places = &self.layout.key_positions[span.key_start + span.length..];
            let hidden = shadows.iter_mut().zip(places).filter(|&(_, &place)| place >= prefix);
            hidden.for_each(|(score, _)| *score = f32::NEG_INFINITY);
        }
    }

    fn position(&self, index: usize) -> usize {
        self.layout.positions[self.selection.rows[self.tile.first + index]]
    }
}

/// Scores that are made into exponentials at a time, while they are in the first cache.
const PIECE: usize = Activations::<f32>::PIECE;

/// Distance between rows of scores: an odd number of cache lines, so that rows below each other do not compete for the same places
/// of a cache.
fn row_stride(visible: usize) -> usize {
    visible.div_ceil(LINE) / 2 * 2 * LINE + LINE
}

/// The softmax of a row of scores before division: its exponentials, as activations of the next product. Returns their sum, and
/// their sum over unmasked keys.
fn softmax_row<E: Element>(
    scores: &mut [f32],
    row: usize,
    open: &[f32],
    probabilities: &mut Activations<E>,
) -> [f64; 2] {
    let top = largest(scores);
    let mut sums = [0.0, 0.0];
    for (piece, scores) in scores.chunks_mut(PIECE).enumerate() {
        let [total, part] = exponentials(scores, top, &open[piece * PIECE..]);
        sums = [sums[0] + total, sums[1] + part];
        probabilities.put(row, piece * PIECE, scores);
    }
    sums
}
