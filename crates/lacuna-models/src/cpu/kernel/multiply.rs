//! The product of activations and weights.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ops::Range;

use rayon::prelude::*;

use super::panels::Columns;
use super::tile::{Ahead, Kernel, Output};
use super::{Activations, Element, Lines, WORTH_A_THREAD, silu_times};

/// Most panels of a task.
const TASK_PANELS: usize = 8;
/// Bytes of a cache line.
const LINE: usize = 64;

/// `output (+)= activations · weights`, row-major with `stride` from row to row, the columns of `weights` first in each.
pub(crate) fn multiply<E: Element>(
    activations: &Activations<E>,
    weights: &impl Columns<E>,
    output: &mut [f32],
    stride: usize,
    add: bool,
) {
    let (m, n) = (activations.rows(), weights.n());
    let columns = weights.kernel().columns;
    assert!(n <= stride && m * stride <= output.len(), "the output is too small");
    let output = Shared(output.as_mut_ptr());
    let tasks = Tasks { activations, weights, panels: n.div_ceil(columns), most: TASK_PANELS };
    tasks.run(|part| {
        let output = &output;
        let first = output.0.wrapping_add(part.rows.start * stride);
        // SAFETY: the assertion above made the output large enough, and no two tasks have a tile in common.
        unsafe { part.multiply(part.panels.clone(), |panel| first.wrapping_add(panel * columns), stride, add) };
    });
}

thread_local! {
    /// Sums of the gate and up columns of a task.
    static GATED: RefCell<Lines<f32>> = RefCell::default();
}

/// `output = silu(activations · gate) · (activations · up)`, row-major, where `weights` are the columns of `gate` and then as
/// many of `up`. The products themselves stay in a near cache.
pub(crate) fn multiply_gated<E: Element>(activations: &Activations<E>, weights: &impl Columns<E>, output: &mut [f32]) {
    let (m, width) = (activations.rows(), weights.n() / 2);
    let columns = weights.kernel().columns;
    assert!(can_gate(weights), "gate and up share a panel");
    assert!(m * width <= output.len(), "the output is too small");
    let half = width / columns;
    let output = Shared(output.as_mut_ptr());
    let tasks = Tasks { activations, weights, panels: half, most: TASK_PANELS / 2 };
    tasks.run(|part| {
        let output = &output;
        let (rows, panels) = (part.rows.len(), part.panels.clone());
        let (first, count, size) = (panels.start, panels.len(), rows * columns);
        GATED.with_borrow_mut(|sums| {
            sums.resize(2 * count * size);
            let start = sums.as_mut_ptr();
            let place = |panel: usize| if panel < half { panel - first } else { panel - half - first + count };
            let both = panels.clone().chain(half + first..half + panels.end);
            // SAFETY: the sums have room for every panel.
            unsafe { part.multiply(both, |panel| start.wrapping_add(place(panel) * size), columns, false) };
            let (gate, up) = sums.split_at(count * size);
            let pairs = gate.chunks_exact(size).zip(up.chunks_exact(size));
            for (panel, (gate, up)) in panels.zip(pairs) {
                let pairs = gate.chunks_exact(columns).zip(up.chunks_exact(columns));
                for (row, (gate, up)) in part.rows.clone().zip(pairs) {
                    let start = output.0.wrapping_add(row * width + panel * columns);
                    // SAFETY: the assertion above made the output large enough, and no two tasks have a panel and row in common.
                    silu_times(gate, up, unsafe { std::slice::from_raw_parts_mut(start, columns) });
                }
            }
        });
    });
}

/// True if [`multiply_gated`] takes these weights: no panel has columns of both halves.
pub(crate) fn can_gate<E: Element>(weights: &impl Columns<E>) -> bool {
    weights.n().is_multiple_of(2 * weights.kernel().columns)
}

/// A product cut into tasks: some rows times some of the panels.
struct Tasks<'a, E: 'static, W> {
    activations: &'a Activations<E>,
    weights: &'a W,
    /// Number of panels that are divided among tasks.
    panels: usize,
    /// Most panels of a task.
    most: usize,
}

/// One task.
struct Part<'a, E: 'static, W> {
    activations: &'a Activations<E>,
    weights: &'a W,
    rows: Range<usize>,
    panels: Range<usize>,
}

impl<E: Element, W: Columns<E>> Tasks<'_, E, W> {
    /// Runs all tasks, in parallel if they are worth it.
    fn run(&self, task: impl Fn(&Part<'_, E, W>) + Sync) {
        let &Self { activations, weights, panels, most } = self;
        let (m, n, k) = (activations.rows(), weights.n(), weights.k());
        let kernel = weights.kernel();
        assert!(std::ptr::eq(kernel, activations.kernel), "the operands are laid out for different kernels");
        assert_eq!(activations.k(), k, "the inner dimensions differ");
        let threads = rayon::current_num_threads();
        let row_tasks = m.div_ceil(kernel.task_rows);
        let task_rows = m.div_ceil(row_tasks.max(1)).next_multiple_of(kernel.rows);
        let group = (panels * row_tasks / (8 * threads)).clamp(1, most);
        let tasks = row_tasks * panels.div_ceil(group);
        let run = |index: usize| {
            let (rows, first) = (index % row_tasks * task_rows, index / row_tasks * group);
            let (rows, panels) = (rows..m.min(rows + task_rows), first..panels.min(first + group));
            let _session = kernel.session();
            task(&Part { activations, weights, rows, panels });
        };
        if threads == 1 || m * n * k < WORTH_A_THREAD {
            (0..tasks).for_each(run);
        } else {
            (0..tasks).into_par_iter().with_max_len(1).for_each(run);
        }
    }
}

impl<E: Element, W: Columns<E>> Part<'_, E, W> {
    /// The product of the task's rows and some panels. `target(panel)` is the first row's place, and rows are `stride` apart.
    ///
    /// Runs of `k` are the outer loop, so that a run of the rows stays in the L2 cache while the panels go by. The next panel's
    /// run is prefetched meanwhile.
    ///
    /// # Safety
    /// All targets have room for the rows, and nobody else writes or reads there. The kernel's session is open.
    unsafe fn multiply(
        &self,
        panels: impl Iterator<Item = usize> + Clone,
        target: impl Fn(usize) -> *mut f32,
        stride: usize,
        add: bool,
    ) {
        let Self { activations, weights, rows, .. } = self;
        let (kernel, n) = (weights.kernel(), weights.n());
        let (all, runs) = (n.div_ceil(kernel.columns), weights.k().div_ceil(kernel.depth));
        let row_panels = rows.start / kernel.rows..rows.end.div_ceil(kernel.rows);
        let mut order = (0..runs).flat_map(|run| panels.clone().map(move |panel| (run, panel))).peekable();
        while let Some((run, panel)) = order.next() {
            // Behind the task's last panel usually another task of this thread begins.
            let &(next_run, next) = order.peek().unwrap_or(&(0, panel + 1));
            let next = if next < all { weights.stored_run(next, next_run) } else { &[] };
            let lines = next.len().div_ceil(LINE).div_ceil(row_panels.len());
            weights.with_run(panel, run, |values, depth| {
                for (index, row_panel) in row_panels.clone().enumerate() {
                    let row = row_panel * kernel.rows;
                    let output = Output {
                        start: target(panel).wrapping_add((row - rows.start) * stride),
                        stride,
                        rows: kernel.rows.min(rows.end - row),
                        columns: kernel.columns.min(n - panel * kernel.columns),
                        add: add || run > 0,
                    };
                    let ahead = Ahead { start: next.as_ptr().wrapping_add(index * lines * LINE), lines };
                    let activations = activations.run(row_panel, run);
                    // SAFETY: the caller's promise; both runs are whole; a kernel is only picked where its instructions are.
                    unsafe { (kernel.tile)(activations.as_ptr(), values.as_ptr(), depth, output, ahead) };
                }
            });
        }
    }
}

/// An output that tasks write disjoint parts of.
struct Shared(*mut f32);

// SAFETY: every task has its own rows and panels.
unsafe impl Sync for Shared {}

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
