//! The left operand of a product.

use std::cell::RefCell;

use rayon::prelude::*;

use super::{Element, Lines, ROWS, TOUCH, WORTH_A_THREAD, magnitude};

/// Elements of one run of a panel of rows.
fn run_length<E: Element>() -> usize {
    ROWS * E::DEPTH + E::ROW_TRAILER
}

/// How many elements a layout of `rows` rows of `k` values takes.
pub(crate) fn layout_length<E: Element>(rows: usize, k: usize) -> usize {
    rows.div_ceil(ROWS) * k.div_ceil(E::DEPTH) * run_length::<E>()
}

/// Where row `row` has its run `run`, if rows have `k` values.
pub(crate) fn run_offset<E: Element>(k: usize, row: usize, run: usize) -> usize {
    (row / ROWS * k.div_ceil(E::DEPTH) + run) * run_length::<E>() + row % ROWS * E::DEPTH
}

/// Rows of `k` values, laid out for the kernels.
pub(crate) struct Activations<E> {
    values: Lines<E>,
    rows: usize,
    k: usize,
}

thread_local! {
    /// A row before it is laid out.
    static ROW: RefCell<Lines<f32>> = RefCell::default();
}

impl<E: Element> Activations<E> {
    /// No rows.
    pub(crate) fn new() -> Self {
        Self { values: Lines::new(0), rows: 0, k: 0 }
    }

    /// Lays out `rows` rows of `k` values that `write(row, values)` writes. The rows are written in parallel.
    pub(crate) fn fill(&mut self, rows: usize, k: usize, write: impl Fn(usize, &mut [f32]) + Sync) {
        let panel = layout_length::<E>(ROWS, k);
        self.values.resize(layout_length::<E>(rows, k));
        (self.rows, self.k) = (rows, k);
        let fill_panel = |(index, panel): (usize, &mut [E])| {
            ROW.with_borrow_mut(|values| {
                values.resize(k);
                for row in index * ROWS..rows.min((index + 1) * ROWS) {
                    write(row, values);
                    lay_out(values, row % ROWS, panel);
                }
            });
        };
        if rows * k * TOUCH < WORTH_A_THREAD {
            self.values.chunks_exact_mut(panel).enumerate().for_each(fill_panel);
        } else {
            self.values.par_chunks_exact_mut(panel).enumerate().for_each(fill_panel);
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
        &self.values[run_offset::<E>(self.k, row, run)..][..run_length::<E>()]
    }
}

/// Lays out the values of row `row` of a panel.
fn lay_out<E: Element>(values: &[f32], row: usize, panel: &mut [E]) {
    let unit = E::unit(if E::SCALED { magnitude(values) } else { 1.0 });
    for (values, run) in values.chunks(E::DEPTH).zip(panel.chunks_exact_mut(run_length::<E>())) {
        let (rows, trailer) = run.split_at_mut(ROWS * E::DEPTH);
        let target = &mut rows[row * E::DEPTH..][..E::DEPTH];
        E::narrow_row(values, unit, &mut target[..values.len()]);
        target[values.len()..values.len().next_multiple_of(E::PAIR)].fill(E::default());
        E::put_row_unit(trailer, row, unit);
    }
}
