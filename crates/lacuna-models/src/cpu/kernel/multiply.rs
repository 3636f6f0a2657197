//! The product of activations and weights.
#![allow(unsafe_code)]

use rayon::prelude::*;

use super::{Activations, COLUMNS, Element, Isa, Output, Panels, ROWS, WORTH_A_THREAD, layout_length, run_offset};

/// Most rows of a task: with a run of [`Element::DEPTH`] they fill a tenth of the second cache.
const TASK_ROWS: usize = 16 * ROWS;
/// Most panels of a task.
const TASK_PANELS: usize = 8;

/// `output (+)= activations · weights`, row-major with `stride` from row to row, the columns of `weights` first in each.
pub(crate) fn multiply<E: Element>(
    activations: &Activations<E>,
    weights: &Panels<E>,
    output: &mut [f32],
    stride: usize,
    add: bool,
) {
    multiply_with(Isa::best(), activations, weights, output, stride, add);
}

pub(super) fn multiply_with<E: Element>(
    isa: Isa,
    activations: &Activations<E>,
    weights: &Panels<E>,
    output: &mut [f32],
    stride: usize,
    add: bool,
) {
    let (m, n, k) = (activations.rows(), weights.n(), weights.k());
    assert_eq!(activations.k(), k, "the inner dimensions differ");
    assert!(n <= stride && m * stride <= output.len(), "the output is too small");
    assert!(isa <= Isa::best());

    let panels = n.div_ceil(COLUMNS);
    let threads = rayon::current_num_threads();
    let row_tasks = m.div_ceil(TASK_ROWS);
    let task_rows = m.div_ceil(row_tasks.max(1)).next_multiple_of(ROWS);
    let group = (panels * row_tasks / (8 * threads)).clamp(1, TASK_PANELS);
    let tasks = row_tasks * panels.div_ceil(group);

    let tile = E::tile(isa);
    let output = Shared(output.as_mut_ptr());
    let run_task = |task: usize| {
        let output = &output;
        let rows = task % row_tasks * task_rows..m.min((task % row_tasks + 1) * task_rows);
        let panels = task / row_tasks * group..panels.min((task / row_tasks + 1) * group);
        for run in 0..k.div_ceil(E::DEPTH) {
            for panel in panels.clone() {
                let (weights, depth) = weights.run(panel, run);
                for row in rows.clone().step_by(ROWS) {
                    let tile_output = Output {
                        start: output.0.wrapping_add(row * stride + panel * COLUMNS),
                        stride,
                        rows: ROWS.min(m - row),
                        columns: COLUMNS.min(n - panel * COLUMNS),
                        add: add || run > 0,
                    };
                    let activations = activations.run(row, run);
                    // SAFETY: both runs are whole; the tile lies in the output, which the assertion above made large enough;
                    // no two tasks have a tile in common; the instructions are no more than the best of this machine.
                    unsafe { tile(activations.as_ptr(), weights.as_ptr(), depth, tile_output) };
                }
            }
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

// SAFETY: `multiply_with` gives every task its own tiles.
unsafe impl Sync for Shared {}

/// Where [`Small::multiply`] puts its rows.
pub(crate) enum Target {
    /// Row after row.
    Rows {
        /// From row to row.
        stride: usize,
    },
    /// Laid out as activations of the next product, in f32.
    Activations,
}

/// A product that is small enough for one thread: attention's, for one head and a few rows.
pub(crate) struct Small<'a, E> {
    /// `rows` rows of `k` values, laid out as activations.
    pub(crate) activations: &'a [E],
    pub(crate) rows: usize,
    pub(crate) k: usize,
    /// Panels that may hold more than `k`.
    pub(crate) weights: &'a [E],
    /// From panel to panel.
    pub(crate) panel: usize,
    /// How many columns to compute.
    pub(crate) n: usize,
}

impl<E: Element> Small<'_, E> {
    /// `output = activations · weights`.
    pub(crate) fn multiply(&self, output: &mut [f32], target: Target) {
        let &Self { activations, rows, k, weights, panel: panel_length, n } = self;
        let (stride, needed) = match target {
            Target::Rows { stride } => (stride, if rows == 0 { 0 } else { (rows - 1) * stride + n }),
            Target::Activations => (f32::DEPTH, layout_length::<f32>(rows, n)),
        };
        let panels = n.div_ceil(COLUMNS);
        assert!(!E::SCALED, "these panels have no trailers");
        assert!(activations.len() >= layout_length::<E>(rows, k), "too few activations");
        assert!(
            k.next_multiple_of(E::PAIR) * COLUMNS <= panel_length && panels * panel_length <= weights.len(),
            "too few weights"
        );
        assert!(
            needed <= output.len() && (n <= stride || matches!(target, Target::Activations)),
            "the output is too small"
        );

        let tile = E::tile(Isa::best());
        for panel in 0..panels {
            let column = panel * COLUMNS;
            for row in (0..rows).step_by(ROWS) {
                let start = match target {
                    Target::Rows { stride } => row * stride + column,
                    Target::Activations => run_offset::<f32>(n, row, column / f32::DEPTH) + column % f32::DEPTH,
                };
                for run in 0..k.div_ceil(E::DEPTH) {
                    let weights = weights[panel * panel_length + run * E::DEPTH * COLUMNS..].as_ptr();
                    let activations = activations[run_offset::<E>(k, row, run)..].as_ptr();
                    let tile_output = Output {
                        start: output.as_mut_ptr().wrapping_add(start),
                        stride,
                        rows: ROWS.min(rows - row),
                        columns: COLUMNS.min(n - column),
                        add: run > 0,
                    };
                    let depth = E::DEPTH.min(k - run * E::DEPTH).next_multiple_of(E::PAIR);
                    // SAFETY: the assertions above made all three long enough; `best` is what the machine has.
                    unsafe { tile(activations, weights, depth, tile_output) };
                }
            }
        }
    }
}
