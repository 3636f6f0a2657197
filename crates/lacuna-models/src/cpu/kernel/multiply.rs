//! The product of activations and weights.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ops::Range;

use rayon::prelude::*;

use super::panels::Columns;
use super::tile::{Ahead, CopyRows, Kernel, Output, Rows};
use super::{Activations, Element, Lines, WORTH_A_THREAD, scalar, silu_times};

/// Most panels of a task.
const TASK_PANELS: usize = 8;
/// Bytes of a cache line.
const LINE: usize = 64;
/// Rows of an output that have at most so many columns do not fall into the same sets of a cache.
const NEAR: usize = 256;
/// Bytes of activations that stay in the second cache from one task to the next.
const KEPT: usize = 1 << 20;

/// `output (+)= activations · weights`, in blocks of `width` columns: of each block row after row. With `width` columns it is row-major.
pub(crate) fn multiply<E: Element>(
    activations: &Activations<E>,
    weights: &impl Columns<E>,
    output: &mut [f32],
    width: usize,
    add: bool,
) {
    let (m, n) = (activations.rows(), weights.n());
    assert!(m * n.next_multiple_of(width) <= output.len(), "the output is too small");
    let output = Target { start: output.as_mut_ptr(), width, rows: m };
    let product = Product { activations, weights, gated: false };
    let kernel = weights.kernel();
    let copy = if width < n && !width.is_multiple_of(kernel.columns) {
        // Blocks end inside a panel.
        Some(kernel.copy.unwrap_or(scalar::copy_rows))
    } else {
        kernel.copy.filter(|_| width > NEAR && weights.k() > kernel.depth)
    };
    match copy {
        Some(copy) => {
            // All kernels for int8 give the same bits, so all begin with what stands there.
            let start = Some((&output, copy)).filter(|_| add && E::SCALED);
            product.compute(start, |piece| {
                // SAFETY: the assertion above made the output large enough, and no two pieces have a row and column in common.
                unsafe { piece.store(&output, copy, add && !E::SCALED) };
            });
        }
        None => product.tasks(|rows, panels| {
            let target = |panel: usize| output.at(rows.start, panel * kernel.columns).start;
            // SAFETY: as above, for tasks.
            unsafe { product.sum(&rows, panels, target, width, add) };
        }),
    }
}

/// The output of a product, in blocks of columns.
struct Target {
    start: *mut f32,
    /// Columns of a block.
    width: usize,
    /// Rows of a block.
    rows: usize,
}

// SAFETY: who reads or writes it sees to it that nobody else does.
unsafe impl Sync for Target {}

impl Target {
    /// The rows from a row and column on, to the end of the column's block.
    fn at(&self, row: usize, column: usize) -> Rows {
        let &Self { start, width, rows } = self;
        Rows { start: start.wrapping_add((column / width * rows + row) * width + column % width), stride: width }
    }

    /// Some columns, cut where blocks end: the first of each part, and how many they are.
    fn cut(&self, columns: Range<usize>) -> impl Iterator<Item = (usize, usize)> {
        let width = self.width;
        let end = move |first: usize| (first + width - first % width).min(columns.end);
        let first = Some(columns.start).filter(|_| !columns.is_empty());
        std::iter::successors(first, move |&first| Some(end(first)).filter(|&end| end < columns.end))
            .map(move |first| (first, end(first) - first))
    }
}

/// `output = silu(activations · gate) · (activations · up)`, row-major, where `weights` are the columns of `gate` and then as
/// many of `up`. The products themselves stay in a near cache.
pub(crate) fn multiply_gated<E: Element>(activations: &Activations<E>, weights: &impl Columns<E>, output: &mut [f32]) {
    let (m, width) = (activations.rows(), weights.n() / 2);
    assert!(can_gate(weights), "gate and up share a panel");
    assert!(m * width <= output.len(), "the output is too small");
    let output = Target { start: output.as_mut_ptr(), width, rows: m };
    let copy = weights.kernel().copy.unwrap_or(scalar::copy_rows);
    // SAFETY: the assertion above made the output large enough, and no two pieces have a row and column in common.
    Product { activations, weights, gated: true }.compute(None, |piece| unsafe { piece.store(&output, copy, false) });
}

/// The same as activations of the next product, if they take it. Returns whether they do.
pub(crate) fn multiply_gated_into<E: Element, F: Element>(
    activations: &Activations<E>,
    weights: &impl Columns<E>,
    next: &mut Activations<F>,
) -> bool {
    if !can_gate(weights) || !next.takes_pieces(weights.kernel().columns) {
        return false;
    }
    let next = next.in_pieces(activations.rows(), weights.n() / 2);
    // SAFETY: no two pieces have a row and column in common.
    Product { activations, weights, gated: true }.compute(None, |piece| unsafe { next.put(&piece) });
    true
}

/// True if [`multiply_gated`] takes these weights: no panel has columns of both halves.
pub(crate) fn can_gate<E: Element>(weights: &impl Columns<E>) -> bool {
    weights.n().is_multiple_of(2 * weights.kernel().columns)
}

/// Some rows of a product in the columns of one panel.
pub(crate) struct Piece<'a> {
    /// The first row.
    pub(crate) row: usize,
    /// The first column.
    pub(crate) column: usize,
    /// Number of columns.
    pub(crate) columns: usize,
    /// Row after row.
    pub(crate) values: &'a [f32],
    /// From row to row.
    pub(crate) stride: usize,
}

impl Piece<'_> {
    /// Writes it to an output, or adds it to what stands there.
    ///
    /// # Safety
    /// All its rows and columns have room there, and nobody else reads or writes them meanwhile. The machine has the instructions of `copy`.
    unsafe fn store(&self, output: &Target, copy: CopyRows, add: bool) {
        let from = Rows { start: self.values.as_ptr().cast_mut(), stride: self.stride };
        for (column, count) in output.cut(self.column..self.column + self.columns) {
            let (from, to) = (from.at(0, column - self.column), output.at(self.row, column));
            // SAFETY: the caller's promise.
            unsafe { copy(from, to, self.values.len() / self.stride, count, add) };
        }
    }
}

/// A product, or two halves of one that are combined.
struct Product<'a, E: 'static, W> {
    activations: &'a Activations<E>,
    weights: &'a W,
    /// The columns are those of a gate and then as many others, and what is wanted is `silu(gate) · other`.
    gated: bool,
}

thread_local! {
    /// Sums of a task.
    static SUMS: RefCell<Lines<f32>> = RefCell::default();
}

impl<E: Element, W: Columns<E>> Product<'_, E, W> {
    /// Computes it, added to `start` if there is one, and gives its pieces to `emit`.
    fn compute(&self, start: Option<(&Target, CopyRows)>, emit: impl Fn(Piece<'_>) + Sync) {
        self.tasks(|rows, panels| SUMS.with_borrow_mut(|sums| self.pieces(rows, panels, start, sums, &emit)));
    }

    /// Cuts it into tasks of some rows times some panels (of a gate, where there is one), in parallel if they are worth it.
    fn tasks(&self, task: impl Fn(Range<usize>, Range<usize>) + Sync) {
        let &Self { activations, weights, gated } = self;
        let (m, n, k) = (activations.rows(), weights.n(), weights.k());
        let kernel = weights.kernel();
        assert!(std::ptr::eq(kernel, activations.kernel), "the operands are laid out for different kernels");
        assert_eq!(activations.k(), k, "the inner dimensions differ");
        let halves = if gated { 2 } else { 1 };
        let panels = n.div_ceil(kernel.columns) / halves;
        let threads = rayon::current_num_threads();
        let row_tasks = m.div_ceil(kernel.task_rows);
        let task_rows = m.div_ceil(row_tasks.max(1)).next_multiple_of(kernel.rows);
        // Fewer tasks for each thread where every task brings the activations into the second cache anew.
        let each = if task_rows / kernel.rows * kernel.panel_bytes(k) > KEPT { 4 } else { 8 };
        let group = (panels * row_tasks / (each * threads)).clamp(1, TASK_PANELS / halves);
        let tasks = row_tasks * panels.div_ceil(group);
        let run = |index: usize| {
            let (row, first) = (index % row_tasks * task_rows, index / row_tasks * group);
            task(row..m.min(row + task_rows), first..panels.min(first + group));
        };
        if threads == 1 || m * n * k < WORTH_A_THREAD {
            (0..tasks).for_each(run);
        } else {
            (0..tasks).into_par_iter().with_max_len(1).for_each(run);
        }
    }

    /// Computes some rows of some panels, in sums that lie side by side.
    fn pieces(
        &self,
        rows: Range<usize>,
        panels: Range<usize>,
        start: Option<(&Target, CopyRows)>,
        sums: &mut Lines<f32>,
        emit: &impl Fn(Piece<'_>),
    ) {
        let &Self { weights, gated, .. } = self;
        let (n, stride) = (weights.n(), weights.kernel().columns);
        let (size, half) = (rows.len() * stride, n / stride / 2);
        let others = if gated { half + panels.start..half + panels.end } else { 0..0 };
        let count = panels.len();
        sums.resize((count + others.len()) * size);
        if let Some((start, copy)) = start {
            for (panel, values) in panels.clone().zip(sums.chunks_exact_mut(size)) {
                let column = panel * stride;
                let to = Rows { start: values.as_mut_ptr(), stride };
                for (first, count) in start.cut(column..n.min(column + stride)) {
                    // SAFETY: the rows are the product's output, of which this task has this part.
                    unsafe { copy(start.at(rows.start, first), to.at(0, first - column), rows.len(), count, false) };
                }
            }
        }
        let place =
            |panel: usize| if panels.contains(&panel) { panel - panels.start } else { panel - others.start + count };
        let first = sums.as_mut_ptr();
        let target = |panel: usize| first.wrapping_add(place(panel) * size);
        // SAFETY: the sums are this thread's, and have room for every panel.
        unsafe { self.sum(&rows, panels.clone().chain(others.clone()), target, stride, start.is_some()) };
        let (firsts, seconds) = sums.split_at_mut(count * size);
        for (index, values) in firsts.chunks_exact_mut(size).enumerate() {
            if gated {
                silu_times(values, &seconds[index * size..][..size]);
            }
            let column = (panels.start + index) * stride;
            emit(Piece { row: rows.start, column, columns: stride.min(n - column), values, stride });
        }
    }

    /// The sums of some rows and panels. `target(panel)` is the first row's place, and rows are `stride` apart.
    ///
    /// Runs of `k` are the outer loop, so that a run of the rows stays in the L2 cache while the panels go by. The next panel's
    /// run is prefetched meanwhile.
    ///
    /// # Safety
    /// All targets have room for the rows, and nobody else reads or writes there.
    unsafe fn sum(
        &self,
        rows: &Range<usize>,
        panels: impl Iterator<Item = usize> + Clone,
        target: impl Fn(usize) -> *mut f32,
        stride: usize,
        add: bool,
    ) {
        let Self { activations, weights, .. } = self;
        let (kernel, n) = (weights.kernel(), weights.n());
        let (all, runs) = (n.div_ceil(kernel.columns), weights.k().div_ceil(kernel.depth));
        let row_panels = rows.start / kernel.rows..rows.end.div_ceil(kernel.rows);
        let _session = kernel.session();
        let mut order = (0..runs).flat_map(|run| panels.clone().map(move |panel| (run, panel))).peekable();
        while let Some((run, panel)) = order.next() {
            // Behind the task's last panel usually another task of this thread begins.
            let &(next_run, next) = order.peek().unwrap_or(&(0, panel + 1));
            let next = if next < all { weights.stored_run(next, next_run) } else { &[] };
            let lines = next.len().div_ceil(LINE).div_ceil(row_panels.len());
            let tile = |index: usize, row_panel: usize| {
                let row = row_panel * kernel.rows;
                let output = Output {
                    start: target(panel).wrapping_add((row - rows.start) * stride),
                    stride,
                    rows: kernel.rows.min(rows.end - row),
                    columns: kernel.columns.min(n - panel * kernel.columns),
                    add: add || run > 0,
                };
                let ahead = Ahead { start: next.as_ptr().wrapping_add(index * lines * LINE), lines };
                (activations.run(row_panel, run).as_ptr(), output, ahead)
            };
            if row_panels.len() == 1 {
                let (activations, output, ahead) = tile(0, row_panels.start);
                // SAFETY: the caller's promise; the run of activations is whole; the session is open.
                if unsafe { weights.tile_as_stored(panel, run, activations, output, ahead) } {
                    continue;
                }
            }
            weights.with_run(panel, run, |values, depth| {
                for (index, row_panel) in row_panels.clone().enumerate() {
                    let (activations, output, ahead) = tile(index, row_panel);
                    // SAFETY: the caller's promise; both runs are whole; a kernel is only picked where its instructions are; the
                    // session is open.
                    unsafe { (kernel.tile)(activations, values.as_ptr(), depth, output, ahead) };
                }
            });
        }
    }
}

/// A product that is small enough for one thread: attention's, for one head and a few rows.
pub(crate) struct Small<'a, E: 'static> {
    pub(crate) activations: &'a Activations<E>,
    /// Panels that may hold more than the activations' inner dimension.
    pub(crate) weights: &'a [E],
    /// From panel to panel.
    pub(crate) panel: usize,
    /// Number of columns to compute.
    pub(crate) n: usize,
}

impl<E: Element> Small<'_, E> {
    /// `output = activations · weights`, with `stride` from row to row.
    pub(crate) fn multiply(&self, output: &mut [f32], stride: usize) {
        let &Self { activations, weights, panel: panel_length, n } = self;
        let kernel = activations.kernel;
        let &Kernel { columns, step, depth, .. } = kernel;
        let (rows, k) = (activations.rows(), activations.k());
        let panels = n.div_ceil(columns);
        assert!(!E::SCALED, "these panels have no trailers");
        assert!(
            k.next_multiple_of(step) * columns <= panel_length && panels * panel_length <= weights.len(),
            "too few weights"
        );
        assert!(n <= stride && (rows == 0 || (rows - 1) * stride + n <= output.len()), "the output is too small");

        let runs = k.div_ceil(depth);
        let _session = kernel.session();
        for panel in 0..panels {
            let column = panel * columns;
            for (row_panel, row) in (0..rows).step_by(kernel.rows).enumerate() {
                for run in 0..runs {
                    let weights = weights[panel * panel_length + run * depth * columns..].as_ptr();
                    let tile_output = Output {
                        start: output.as_mut_ptr().wrapping_add(row * stride + column),
                        stride,
                        rows: kernel.rows.min(rows - row),
                        columns: columns.min(n - column),
                        add: run > 0,
                    };
                    let run_depth = depth.min(k - run * depth).next_multiple_of(step);
                    let ahead = Ahead { start: std::ptr::null(), lines: 0 };
                    let activations = activations.run(row_panel, run).as_ptr();
                    // SAFETY: the assertions above made weights and output long enough, and the activations' runs are whole;
                    // a kernel is only picked where its instructions are; the session is open.
                    unsafe { (kernel.tile)(activations, weights, run_depth, tile_output, ahead) };
                }
            }
        }
    }
}
