//! The right operand of a product.

use std::ops::Range;

use rayon::prelude::*;

use super::element::MOST_COLUMNS;
use super::{Element, Kernel, Lines, magnitude};

/// Stretch of `k` that is packed for all columns of a panel before the next, so that the output stays in the L1 cache.
const STRETCH: usize = 64;

/// A matrix of `n` columns and inner dimension `k`, laid out for a kernel once.
pub(crate) struct Panels<E: 'static> {
    pub(super) kernel: &'static Kernel<E>,
    values: Lines<E>,
    n: usize,
    k: usize,
    /// Elements of a panel.
    panel: usize,
}

impl<E: Element> Panels<E> {
    /// Packs a matrix for the kernel in use: `read(column, from, values)` gives the values of a column from `k = from` on.
    /// Columns are read in parallel; the error of the lowest panel wins.
    pub(crate) fn pack<X: Send>(
        n: usize,
        k: usize,
        read: impl Fn(usize, usize, &mut [f32]) -> Result<(), X> + Sync,
    ) -> Result<Self, X> {
        Self::pack_for(E::kernel(), n, k, read)
    }

    /// Packs a matrix.
    pub(super) fn pack_for<X: Send>(
        kernel: &'static Kernel<E>,
        n: usize,
        k: usize,
        read: impl Fn(usize, usize, &mut [f32]) -> Result<(), X> + Sync,
    ) -> Result<Self, X> {
        let columns = kernel.columns;
        let panel = panel_length(kernel, k);
        let mut values = Lines::new(n.div_ceil(columns) * panel);
        let pack = |(index, panel): (usize, &mut [E])| {
            pack_panel(kernel, k, panel, index * columns..n.min((index + 1) * columns), &read)
        };
        let packed: Vec<Result<(), X>> = values.par_chunks_exact_mut(panel).enumerate().map(pack).collect();
        packed.into_iter().collect::<Result<(), X>>()?;
        Ok(Self { kernel, values, n, k, panel })
    }

    /// Number of columns.
    pub(crate) fn n(&self) -> usize {
        self.n
    }

    /// Length of a column.
    pub(crate) fn k(&self) -> usize {
        self.k
    }

    /// The run `run` of panel `panel`, with its trailer, and how deep it is.
    pub(super) fn run(&self, panel: usize, run: usize) -> (&[E], usize) {
        let &Kernel { columns, step, depth, .. } = self.kernel;
        let trailer = self.kernel.column_trailer();
        let start = panel * self.panel + run * (depth * columns + trailer);
        let depth = (self.k - run * depth).min(depth).next_multiple_of(step);
        (&self.values[start..][..depth * columns + trailer], depth)
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.values.bytes()
    }
}

/// Elements of a panel.
fn panel_length<E: Element>(kernel: &Kernel<E>, k: usize) -> usize {
    k.next_multiple_of(kernel.step) * kernel.columns + k.div_ceil(kernel.depth) * kernel.column_trailer()
}

/// Packs some columns, at most [`Kernel::columns`].
fn pack_panel<E: Element, X>(
    kernel: &Kernel<E>,
    k: usize,
    panel: &mut [E],
    columns: Range<usize>,
    read: &impl Fn(usize, usize, &mut [f32]) -> Result<(), X>,
) -> Result<(), X> {
    let &Kernel { columns: width, step, depth, .. } = kernel;
    let (mut wide, mut narrow) = ([0.0; STRETCH], [[E::default(); STRETCH]; MOST_COLUMNS]);
    let mut scales = [E::scale(1.0); MOST_COLUMNS];
    if E::SCALED {
        for (scale, column) in scales.iter_mut().zip(columns.clone()) {
            let mut largest = 0.0;
            for from in (0..k).step_by(STRETCH) {
                let length = STRETCH.min(k - from);
                read(column, from, &mut wide[..length])?;
                largest = f32::max(largest, magnitude(&wide[..length]));
            }
            *scale = E::scale(largest);
        }
    }
    let runs = panel.chunks_mut(depth * width + kernel.column_trailer());
    for (run, first) in runs.zip((0..k).step_by(depth)) {
        let end = k.min(first + depth);
        let (values, trailer) = run.split_at_mut((end - first).next_multiple_of(step) * width);
        for from in (first..end).step_by(STRETCH) {
            let length = STRETCH.min(end - from);
            for ((column, narrow), &scale) in columns.clone().zip(&mut narrow).zip(&scales) {
                read(column, from, &mut wide[..length])?;
                E::narrow(&wide[..length], scale, &mut narrow[..length]);
                narrow[length..].fill(E::default());
            }
            let padded = length.next_multiple_of(step);
            let groups = values[(from - first) * width..][..padded * width].chunks_exact_mut(width * E::GROUP);
            for (index, values) in groups.enumerate() {
                for (column, value) in values.chunks_exact_mut(E::GROUP).enumerate() {
                    value.copy_from_slice(&narrow[column][index * E::GROUP..][..E::GROUP]);
                }
            }
        }
        E::put_column_scales(trailer, values, &scales[..width]);
    }
    Ok(())
}
