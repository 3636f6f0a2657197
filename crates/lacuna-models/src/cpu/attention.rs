//! Bidirectional attention, and with it the attention mass on unmasked positions that the dependency score is made of.
//!
//! Work is cut into (tile of query rows) × (head). A task keeps the scores of its tile in a buffer of its thread; nothing of
//! the size length × length × heads exists. The mass is one more column of the values: 1 where a position is unmasked.

use std::cell::RefCell;

use rayon::prelude::*;

use super::kernel::{
    COLUMNS, DEPTH, Lines, Small, TOUCH, Target, WORTH_A_THREAD, exponentials, largest, layout_length, panel_index,
    rotate, run_offset, scale,
};
use super::layout::{Layout, Selection, Span, TILE, Tile};
use super::rope::Rope;
use crate::Architecture;

/// The sizes attention works with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) heads: usize,
    pub(crate) key_value_heads: usize,
    pub(crate) head_size: usize,
}

impl Shape {
    pub(crate) fn of(architecture: &Architecture) -> Self {
        Self {
            heads: architecture.heads,
            key_value_heads: architecture.key_value_heads,
            head_size: architecture.head_size(),
        }
    }

    /// Values that the keys of `rows` rows take for one head.
    fn keys(&self, rows: usize) -> usize {
        rows.next_multiple_of(COLUMNS) * self.head_size
    }

    /// Values that the values of `rows` rows take for one head.
    fn values(&self, rows: usize) -> usize {
        rows * self.head_size.next_multiple_of(COLUMNS)
    }
}

/// The keys and values of one block for all views, laid out for the kernels.
pub(crate) struct KeyValues {
    keys: Lines<f32>,
    values: Lines<f32>,
    /// Where each view begins in both.
    starts: Vec<(usize, usize)>,
}

impl KeyValues {
    pub(crate) fn new() -> Self {
        Self { keys: Lines::new(0), values: Lines::new(0), starts: Vec::new() }
    }

    /// Takes rows of keys and values, one after the other in each row; the keys are rotated on the way.
    pub(crate) fn fill(&mut self, shape: Shape, layout: &Layout, rope: &Rope, rows: &[f32]) {
        let heads = shape.key_value_heads;
        self.starts.clear();
        let mut end = (0, 0);
        for span in &layout.spans {
            self.starts.push(end);
            end = (end.0 + heads * shape.keys(span.rows()), end.1 + heads * shape.values(span.rows()));
        }
        self.keys.resize(end.0);
        self.values.resize(end.1);

        let (mut keys, mut values) = (&mut self.keys[..], &mut self.values[..]);
        let mut tasks = Vec::new();
        for span in &layout.spans {
            for head in 0..heads {
                let task_keys = keys.split_off_mut(..shape.keys(span.rows())).expect("resized to fit");
                let task_values = values.split_off_mut(..shape.values(span.rows())).expect("resized to fit");
                tasks.push((span, head, task_keys, task_values));
            }
        }
        let (size, width) = (shape.head_size, 2 * heads * shape.head_size);
        let fill = |(span, head, keys, values): (&Span, usize, &mut [f32], &mut [f32])| {
            let mut rotated = vec![0.0; size];
            for index in 0..span.rows() {
                let row = &rows[(span.start + index) * width..][..width];
                let (cosines, sines) = rope.at(layout.positions[span.start + index]);
                rotate(&row[head * size..][..size], cosines, sines, 1.0, &mut rotated);
                let panel = &mut keys[index / COLUMNS * COLUMNS * size..];
                for (k, &value) in rotated.iter().enumerate() {
                    panel[panel_index::<f32>(k, index % COLUMNS)] = value;
                }
                for (part, value) in row[(heads + head) * size..][..size].chunks(COLUMNS).enumerate() {
                    values[(part * span.rows() + index) * COLUMNS..][..value.len()].copy_from_slice(value);
                }
            }
        };
        if rows.len() * TOUCH < WORTH_A_THREAD {
            tasks.into_iter().for_each(fill);
        } else {
            tasks.into_par_iter().for_each(fill);
        }
    }

    fn keys_of(&self, shape: Shape, view: usize, rows: usize, head: usize) -> &[f32] {
        &self.keys[self.starts[view].0 + head * shape.keys(rows)..][..shape.keys(rows)]
    }

    fn values_of(&self, shape: Shape, view: usize, rows: usize, head: usize) -> &[f32] {
        &self.values[self.starts[view].1 + head * shape.values(rows)..][..shape.values(rows)]
    }
}

/// What attention gives: for each tile and head, the mixed values and the mass of each row of the tile.
pub(crate) struct Attended {
    shape: Shape,
    mixed: Lines<f32>,
    mass: Lines<f32>,
}

/// What of it is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// Mixed values and mass.
    All,
    /// The mass alone.
    Mass,
}

impl Attended {
    pub(crate) fn new(shape: Shape) -> Self {
        Self { shape, mixed: Lines::new(0), mass: Lines::new(0) }
    }

    /// Computes it for the rows of a selection, whose queries (before rotation) are `queries`.
    pub(crate) fn compute(
        &mut self,
        layout: &Layout,
        selection: &Selection,
        rope: &Rope,
        queries: &[f32],
        key_values: &KeyValues,
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
                rope,
                key_values,
            };
            SCRATCH.with_borrow_mut(|scratch| task.run(scratch, queries, want, mixed, mass));
        };
        let (mixed, mass) = (&mut self.mixed[..], &mut self.mass[..]);
        let keys: usize = selection.tiles.iter().map(|tile| tile.count * layout.spans[tile.view].rows()).sum();
        if 2 * keys * shape.heads * shape.head_size < WORTH_A_THREAD {
            mixed.chunks_exact_mut(TILE * shape.head_size).zip(mass.chunks_exact_mut(TILE)).enumerate().for_each(run);
        } else {
            let tasks = mixed.par_chunks_exact_mut(TILE * shape.head_size).zip(mass.par_chunks_exact_mut(TILE));
            tasks.enumerate().with_max_len(1).for_each(run);
        }
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

/// A thread's buffers.
#[derive(Default)]
struct Scratch {
    /// One query, rotated.
    rotated: Lines<f32>,
    /// The tile's queries, laid out as activations.
    queries: Lines<f32>,
    /// The tile's scores and then probabilities, laid out as activations.
    probabilities: Lines<f32>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// One tile and head.
struct Task<'a> {
    shape: Shape,
    tile: Tile,
    head: usize,
    layout: &'a Layout,
    selection: &'a Selection,
    rope: &'a Rope,
    key_values: &'a KeyValues,
}

impl Task<'_> {
    fn run(&self, scratch: &mut Scratch, queries: &[f32], want: Want, mixed: &mut [f32], mass: &mut [f32]) {
        let Shape { heads, key_value_heads, head_size } = self.shape;
        let Tile { view, shadow, first, count } = self.tile;
        let span = self.layout.spans[view];
        let visible = if shadow { span.rows() } else { span.tokens };
        let key_head = self.head * key_value_heads / heads;
        let Scratch { rotated, queries: tile_queries, probabilities } = scratch;

        tile_queries.resize(layout_length(count, head_size));
        let factor = 1.0 / (head_size as f32).sqrt();
        rotated.resize(head_size);
        for index in 0..count {
            let query = &queries[((first + index) * heads + self.head) * head_size..][..head_size];
            let (cosines, sines) = self.rope.at(self.position(index));
            rotate(query, cosines, sines, factor, rotated);
            for (run, values) in rotated.chunks(DEPTH).enumerate() {
                tile_queries[run_offset(head_size, index, run)..][..values.len()].copy_from_slice(values);
            }
        }
        probabilities.resize(layout_length(count, visible));
        let scores = Small {
            activations: tile_queries,
            rows: count,
            k: head_size,
            weights: self.key_values.keys_of(self.shape, view, span.rows(), key_head),
            panel: COLUMNS * head_size,
            n: visible,
        };
        scores.multiply(probabilities, Target::Activations);

        let mut totals = [0.0; TILE];
        for index in 0..count {
            if shadow {
                let hidden = self.position(index);
                probabilities[run_offset(visible, index, hidden / DEPTH) + hidden % DEPTH] = f32::NEG_INFINITY;
            }
            let [total, open] = soften(probabilities, visible, index, &self.layout.open[span.start..]);
            totals[index] = total;
            mass[index] = (open / total) as f32;
        }
        if want == Want::Mass {
            return;
        }
        let mix = Small {
            activations: probabilities,
            rows: count,
            k: visible,
            weights: self.key_values.values_of(self.shape, view, span.rows(), key_head),
            panel: COLUMNS * span.rows(),
            n: head_size,
        };
        mix.multiply(mixed, Target::Rows { stride: head_size });
        for (row, total) in mixed.chunks_exact_mut(head_size).zip(&totals[..count]) {
            scale(row, (1.0 / total) as f32);
        }
    }

    fn position(&self, index: usize) -> usize {
        self.layout.positions[self.selection.rows[self.tile.first + index]]
    }
}

/// Turns the scores of a row into exponentials; gives their sum, and the sum over open keys.
fn soften(scores: &mut [f32], visible: usize, row: usize, open: &[f32]) -> [f64; 2] {
    let run = |run: usize| {
        let start = run_offset(visible, row, run);
        start..start + DEPTH.min(visible - run * DEPTH)
    };
    let runs = visible.div_ceil(DEPTH);
    let top = (0..runs).map(|index| largest(&scores[run(index)])).fold(f32::NEG_INFINITY, f32::max);
    let mut sums = [0.0, 0.0];
    for index in 0..runs {
        let [total, part] = exponentials(&mut scores[run(index)], top, &open[index * DEPTH..]);
        sums = [sums[0] + total, sums[1] + part];
    }
    sums
}
