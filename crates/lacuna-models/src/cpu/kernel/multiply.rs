//! The product of activations and weights.
#![allow(unsafe_code)]

use rayon::prelude::*;

use super::panels::Columns;
use super::tile::{Ahead, Kernel, Output};
use super::{Activations, Element, WORTH_A_THREAD};

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
    let (m, n, k) = (activations.rows(), weights.n(), weights.k());
    let kernel = weights.kernel();
    assert!(std::ptr::eq(kernel, activations.kernel), "the operands are laid out for different kernels");
    assert_eq!(activations.k(), k, "the inner dimensions differ");
    assert!(n <= stride && m * stride <= output.len(), "the output is too small");

    let all_panels = n.div_ceil(kernel.columns);
    let threads = rayon::current_num_threads();
    let row_tasks = m.div_ceil(kernel.task_rows);
    let task_rows = m.div_ceil(row_tasks.max(1)).next_multiple_of(kernel.rows);
    let group = (all_panels * row_tasks / (8 * threads)).clamp(1, TASK_PANELS);
    let tasks = row_tasks * all_panels.div_ceil(group);
    let runs = k.div_ceil(kernel.depth);

    let output = Shared(output.as_mut_ptr());
    let run_task = |task: usize| {
        let output = &output;
        let rows = task % row_tasks * task_rows..m.min((task % row_tasks + 1) * task_rows);
        let panels = task / row_tasks * group..all_panels.min((task / row_tasks + 1) * group);
        let row_panels = rows.start / kernel.rows..rows.end.div_ceil(kernel.rows);
        let _session = kernel.session();
        for (run, panel) in (0..runs).flat_map(|run| panels.clone().map(move |panel| (run, panel))) {
            let (next_panel, next_run) =
                if panel + 1 < panels.end { (panel + 1, run) } else { (panels.start, run + 1) };
            let next = if next_run < runs { weights.kept(next_panel, next_run) } else { &[] };
            let lines = next.len().div_ceil(LINE).div_ceil(row_panels.len());
            weights.with_run(panel, run, |values, depth| {
                for (index, row_panel) in row_panels.clone().enumerate() {
                    let row = row_panel * kernel.rows;
                    let tile_output = Output {
                        start: output.0.wrapping_add(row * stride + panel * kernel.columns),
                        stride,
                        rows: kernel.rows.min(m - row),
                        columns: kernel.columns.min(n - panel * kernel.columns),
                        add: add || run > 0,
                    };
                    let ahead = Ahead { start: next.as_ptr().wrapping_add(index * lines * LINE), lines };
                    let activations = activations.run(row_panel, run);
                    // SAFETY: both runs are whole; the tile lies in the output, which the assertion above made large enough;
                    // no two tasks have a tile in common; a kernel is only picked where its instructions are; the session
                    // is open.
                    unsafe { (kernel.tile)(activations.as_ptr(), values.as_ptr(), depth, tile_output, ahead) };
                }
            });
        }
    };
    if threads == 1 || m * n * k < WORTH_A_THREAD {
        (0..tasks).for_each(run_task);
    } else {
        (0..tasks).into_par_iter().with_max_len(1).for_each(run_task);
    }
}

/// An output that tasks write disjoint parts of.
struct Shared(*mut f32);

// SAFETY: `multiply` gives every task its own tiles.
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
