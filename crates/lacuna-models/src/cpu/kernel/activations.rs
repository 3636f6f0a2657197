//! The left operand of a product.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::marker::PhantomData;

use rayon::prelude::*;

use super::tile::Blocks;
use super::{Element, Kernel, Lines, Piece, TOUCH_COST, WORTH_A_THREAD, magnitude};

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
        self.lay_out(rows, k, |kernel, row, panel| {
            ROW.with_borrow_mut(|values| {
                values.resize(k);
                write(row, values);
                lay_out(kernel, values, row % kernel.rows, panel);
            });
        });
    }

    /// Lays out rows of `k` values that stand one after the other.
    pub(crate) fn copy(&mut self, rows: &[f32], k: usize) {
        self.lay_out(rows.len() / k, k, |kernel, row, panel| {
            lay_out(kernel, &rows[row * k..][..k], row % kernel.rows, panel);
        });
    }

    /// Lays out rows in parallel: `each(kernel, row, panel)` one of them.
    fn lay_out(&mut self, rows: usize, k: usize, each: impl Fn(&Kernel<E>, usize, &mut [u8]) + Sync) {
        self.resize(rows, k);
        let kernel = self.kernel;
        let fill_panel = |(index, panel): (usize, &mut [u8])| {
            (index * kernel.rows..rows.min((index + 1) * kernel.rows)).for_each(|row| each(kernel, row, panel));
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

    /// True if they can be put in pieces of `columns` columns: the rows of a panel stand together in blocks of as many.
    pub(super) fn takes_pieces(&self, columns: usize) -> bool {
        !E::SCALED && self.kernel.block == columns
    }

    /// Makes room for `rows` rows of `k` values, which several threads then put piece by piece.
    pub(super) fn in_pieces(&mut self, rows: usize, k: usize) -> InPieces<'_, E> {
        self.resize(rows, k);
        InPieces { kernel: self.kernel, start: self.bytes.as_mut_ptr(), panel: self.panel, activations: PhantomData }
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

/// Activations that are being put piece by piece.
pub(super) struct InPieces<'a, E: 'static> {
    kernel: &'static Kernel<E>,
    start: *mut u8,
    /// Bytes of a panel of rows.
    panel: usize,
    activations: PhantomData<&'a mut Activations<E>>,
}

// SAFETY: threads put different pieces.
unsafe impl<E> Sync for InPieces<'_, E> {}

impl<E: Element> InPieces<'_, E> {
    /// Puts a piece.
    ///
    /// # Safety
    /// Its rows and columns are among the activations', and no other thread puts any of them.
    pub(super) unsafe fn put(&self, piece: &Piece<'_>) {
        let &Kernel { rows, depth, block, size, narrow, .. } = self.kernel;
        assert!(piece.columns == block && piece.stride == block, "a piece is a column of blocks");
        let mut row = piece.row;
        let mut values = piece.values;
        while !values.is_empty() {
            // The rows of a panel stand one after the other, as they do in the piece.
            let count = values.len().min((rows - row % rows) * block);
            let (these, rest) = values.split_at(count);
            let run = row / rows * self.panel + piece.column / depth * self.kernel.run_bytes();
            let place = (piece.column % depth * rows + row % rows * block) * size;
            // SAFETY: the caller's promise.
            let bytes = unsafe { std::slice::from_raw_parts_mut(self.start.add(run + place), count * size) };
            narrow(these, 1.0, Blocks { bytes, block: count, stride: count * size });
            (row, values) = (row + count / block, rest);
        }
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
