//! The left operand of a product.

use std::cell::RefCell;

use rayon::prelude::*;

use super::{Element, Kernel, Lines, TOUCH_COST, WORTH_A_THREAD, magnitude};

/// Rows of `k` values, laid out for a kernel.
pub(crate) struct Activations<E: 'static> {
    pub(super) kernel: &'static Kernel<E>,
    bytes: Lines<u8>,
    rows: usize,
    k: usize,
    /// Bytes of a panel of rows, and of a run of it.
    panel: usize,
    run: usize,
}

thread_local! {
    /// A row before it is laid out.
    static ROW: RefCell<Lines<f32>> = RefCell::default();
}

impl<E: Element> Activations<E> {
    /// No rows, for the kernel in use.
    pub(crate) fn new() -> Self {
        Self::with(E::kernel())
    }

    /// No rows.
    pub(super) fn with(kernel: &'static Kernel<E>) -> Self {
        Self { kernel, bytes: Lines::new(0), rows: 0, k: 0, panel: 0, run: kernel.run_bytes() }
    }

    /// Lays out `rows` rows of `k` values that `write(row, values)` writes. The rows are written in parallel.
    pub(crate) fn fill(&mut self, rows: usize, k: usize, write: impl Fn(usize, &mut [f32]) + Sync) {
        self.resize(rows, k);
        let kernel = self.kernel;
        let fill_panel = |(index, panel): (usize, &mut [u8])| {
            ROW.with_borrow_mut(|values| {
                values.resize(k);
                for row in index * kernel.rows..rows.min((index + 1) * kernel.rows) {
                    write(row, values);
                    lay_out(kernel, values, row % kernel.rows, panel);
                }
            });
        };
        let panel = self.panel;
        if rows * k * TOUCH_COST < WORTH_A_THREAD {
            self.bytes.chunks_exact_mut(panel).enumerate().for_each(fill_panel);
        } else {
            self.bytes.par_chunks_exact_mut(panel).enumerate().for_each(fill_panel);
        }
    }

    /// Makes room for `rows` rows of `k` values, which are then put.
    pub(crate) fn resize(&mut self, rows: usize, k: usize) {
        (self.rows, self.k, self.panel) = (rows, k, self.kernel.panel_bytes(k));
        self.bytes.resize(Self::needed(self.kernel, rows, k));
    }

    /// Puts values of a row from `k = from`, a multiple of [`PIECE`](Self::PIECE), on: up to the next such multiple, or the last ones.
    pub(crate) fn put(&mut self, row: usize, from: usize, values: &[f32]) {
        let kernel = self.kernel;
        assert!(!E::SCALED && row < self.rows && from + values.len() <= self.k, "the values are not of this row");
        let start = row / kernel.rows * self.panel + from / kernel.depth * self.run;
        let run = &mut self.bytes[start..][..self.run];
        kernel.put(run, row % kernel.rows, from % kernel.depth, values, 1.0);
    }

    /// Most values that are put at once. It divides every kernel's depth.
    pub(crate) const PIECE: usize = 256;

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Length of a row.
    pub(crate) fn k(&self) -> usize {
        self.k
    }

    /// Bytes that `rows` rows of `k` values take.
    pub(crate) fn bytes(&self, rows: usize, k: usize) -> usize {
        Self::needed(self.kernel, rows, k)
    }

    fn needed(kernel: &Kernel<E>, rows: usize, k: usize) -> usize {
        rows.div_ceil(kernel.rows) * kernel.panel_bytes(k)
    }

    /// The run `run` of panel `panel`: its rows begin at `panel` · [`Kernel::rows`].
    pub(super) fn run(&self, panel: usize, run: usize) -> &[u8] {
        &self.bytes[panel * self.panel + run * self.run..][..self.run]
    }
}

/// Lays out the values of row `row` of a panel.
fn lay_out<E: Element>(kernel: &Kernel<E>, values: &[f32], row: usize, panel: &mut [u8]) {
    let scale = E::scale(if E::SCALED { magnitude(values) } else { 1.0 });
    for (values, run) in values.chunks(kernel.depth).zip(panel.chunks_exact_mut(kernel.run_bytes())) {
        kernel.put(run, row, 0, values, scale);
        kernel.put_scale(run, row, scale);
    }
}
