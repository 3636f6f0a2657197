//! The right operand of a product.
#![allow(unsafe_code)]

use std::ops::Range;

use rayon::prelude::*;

use super::element::MAX_COLUMNS;
use super::tile::{Ahead, Output};
use super::{Element, Kernel, Lines, magnitude};
use crate::int4::Group;

/// Stretch of `k` that is packed for all columns of a panel before the next, so that the output stays in the L1 cache.
const STRETCH: usize = 64;

/// A matrix that is read to be packed.
pub(crate) trait Source: Sync {
    type Error: Send;

    /// Reads the values of a column from `k = from` on.
    fn read(&self, column: usize, from: usize, values: &mut [f32]) -> Result<(), Self::Error>;

    /// The scale of a column that is stored in int8.
    fn scale(&self, _column: usize) -> Option<f32> {
        None
    }

    /// The groups of a column that is stored in int4, and its scale.
    fn groups(&self, _column: usize, _groups: &mut [Group]) -> Option<f32> {
        None
    }
}

impl<X: Send, F: Fn(usize, usize, &mut [f32]) -> Result<(), X> + Sync> Source for F {
    type Error = X;

    fn read(&self, column: usize, from: usize, values: &mut [f32]) -> Result<(), X> {
        self(column, from, values)
    }
}

/// The right operand of a product, as it is kept.
pub(crate) trait Columns<E: 'static>: Sync {
    /// The kernel that it is laid out for.
    fn kernel(&self) -> &'static Kernel<E>;

    /// Number of columns.
    fn n(&self) -> usize;

    /// Length of a column.
    fn k(&self) -> usize;

    /// The bytes of run `run` of panel `panel`.
    fn stored_run(&self, panel: usize, run: usize) -> &[u8];

    /// Gives `work` that run as the kernel takes it, with its trailer, and how deep it is.
    fn with_run(&self, panel: usize, run: usize, work: impl FnOnce(&[E], usize));

    /// Computes a tile with a run as it is stored, if there is a kernel for that and so many rows. Returns whether it did.
    ///
    /// # Safety
    /// As for [`super::tile::Tile`], with the activations of the run.
    unsafe fn tile_as_stored(&self, _panel: usize, _run: usize, _activations: *const u8, _: Output, _: Ahead) -> bool {
        false
    }
}

/// A matrix of `n` columns and inner dimension `k`, laid out for a kernel once.
pub(crate) struct Panels<E: 'static> {
    kernel: &'static Kernel<E>,
    values: Lines<E>,
    n: usize,
    k: usize,
    /// Elements of a panel.
    panel: usize,
}

impl<E: Element> Panels<E> {
    /// Packs a matrix for the kernel in use. Columns are read in parallel; the error of the lowest panel wins.
    pub(crate) fn pack<S: Source>(n: usize, k: usize, source: S) -> Result<Self, S::Error> {
        Self::pack_for(E::kernel(), n, k, source)
    }

    /// Packs a matrix.
    pub(super) fn pack_for<S: Source>(
        kernel: &'static Kernel<E>,
        n: usize,
        k: usize,
        source: S,
    ) -> Result<Self, S::Error> {
        let columns = kernel.columns;
        let panel = panel_length(kernel, k);
        let mut values = Lines::new(n.div_ceil(columns) * panel);
        let pack = |(index, panel): (usize, &mut [E])| {
            pack_panel(kernel, k, panel, index * columns..n.min((index + 1) * columns), &source)
        };
        let packed: Vec<Result<(), S::Error>> = values.par_chunks_exact_mut(panel).enumerate().map(pack).collect();
        packed.into_iter().collect::<Result<(), S::Error>>()?;
        Ok(Self { kernel, values, n, k, panel })
    }

    /// The run `run` of panel `panel`, with its trailer, and how deep it is.
    fn run(&self, panel: usize, run: usize) -> (&[E], usize) {
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

impl<E: Element> Columns<E> for Panels<E> {
    fn kernel(&self) -> &'static Kernel<E> {
        self.kernel
    }

    fn n(&self) -> usize {
        self.n
    }

    fn k(&self) -> usize {
        self.k
    }

    #[allow(unsafe_code)]
    fn stored_run(&self, panel: usize, run: usize) -> &[u8] {
        let (values, _) = self.run(panel, run);
        // SAFETY: elements are plain numbers.
        unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
    }

    fn with_run(&self, panel: usize, run: usize, work: impl FnOnce(&[E], usize)) {
        let (values, depth) = self.run(panel, run);
        work(values, depth);
    }
}

/// Elements of a panel.
fn panel_length<E: Element>(kernel: &Kernel<E>, k: usize) -> usize {
    k.next_multiple_of(kernel.step) * kernel.columns + k.div_ceil(kernel.depth) * kernel.column_trailer()
}

/// Packs some columns, at most [`Kernel::columns`].
fn pack_panel<E: Element, S: Source>(
    kernel: &Kernel<E>,
    k: usize,
    panel: &mut [E],
    columns: Range<usize>,
    source: &S,
) -> Result<(), S::Error> {
    let &Kernel { columns: width, step, depth, .. } = kernel;
    let (mut wide, mut narrow) = ([0.0; STRETCH], [[E::default(); STRETCH]; MAX_COLUMNS]);
    let mut scales = [E::scale(1.0); MAX_COLUMNS];
    if E::SCALED {
        for (scale, column) in scales.iter_mut().zip(columns.clone()) {
            if let Some(stored) = source.scale(column) {
                *scale = stored;
                continue;
            }
            let mut largest = 0.0;
            for from in (0..k).step_by(STRETCH) {
                let length = STRETCH.min(k - from);
                source.read(column, from, &mut wide[..length])?;
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
                source.read(column, from, &mut wide[..length])?;
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
