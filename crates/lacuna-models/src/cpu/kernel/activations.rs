//! The left operand of a product.

use rayon::prelude::*;

use super::{DEPTH, Element, Lines, ROWS, TOUCH, WORTH_A_THREAD};

/// How many values a layout of `rows` rows of `k` values takes.
pub(crate) fn layout_length(rows: usize, k: usize) -> usize {
    rows.div_ceil(ROWS) * ROWS * k.div_ceil(DEPTH) * DEPTH
}

/// Where row `row` has its run `run`, if rows have `k` values.
pub(crate) fn run_offset(k: usize, row: usize, run: usize) -> usize {
    ((row / ROWS * k.div_ceil(DEPTH) + run) * ROWS + row % ROWS) * DEPTH
}

/// Rows of `k` values, laid out for the kernels.
pub(crate) struct Activations<E> {
    values: Lines<E>,
    rows: usize,
    k: usize,
}

impl<E: Element> Activations<E> {
    /// No rows.
    pub(crate) fn new() -> Self {
        Self { values: Lines::new(0), rows: 0, k: 0 }
    }

    /// Lays out `rows` rows of `k` values that `write(row, values)` writes. The rows are written in parallel.
    pub(crate) fn fill(&mut self, rows: usize, k: usize, write: impl Fn(usize, &mut [f32]) + Sync) {
        let panel = layout_length(ROWS, k);
        self.values.resize(layout_length(rows, k));
        (self.rows, self.k) = (rows, k);
        let fill_panel = |scratch: &mut Vec<f32>, index: usize, panel: &mut [E]| {
            scratch.resize(k, 0.0);
            for row in index * ROWS..rows.min((index + 1) * ROWS) {
                write(row, scratch);
                for (run, values) in scratch.chunks(DEPTH).enumerate() {
                    let target = &mut panel[(run * ROWS + row % ROWS) * DEPTH..][..DEPTH];
                    E::narrow_row(values, &mut target[..values.len()]);
                    if values.len() % E::PAIR != 0 {
                        target[values.len()] = E::default();
                    }
                }
            }
        };
        if rows * k * TOUCH < WORTH_A_THREAD {
            let mut scratch = Vec::new();
            let panels = self.values.chunks_exact_mut(panel).enumerate();
            panels.for_each(|(index, panel)| fill_panel(&mut scratch, index, panel));
        } else {
            let panels = self.values.par_chunks_exact_mut(panel).enumerate();
            panels.for_each_init(Vec::new, |scratch, (index, panel)| fill_panel(scratch, index, panel));
        }
    }

    /// How many rows there are.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// How long a row is.
    pub(crate) fn k(&self) -> usize {
        self.k
    }

    /// The run `run` of the rows from `row`, a multiple of [`ROWS`], on.
    pub(super) fn run(&self, row: usize, run: usize) -> &[E] {
        &self.values[run_offset(self.k, row, run)..][..ROWS * DEPTH]
    }
}
