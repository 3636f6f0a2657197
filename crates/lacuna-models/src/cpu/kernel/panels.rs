//! The right operand of a product.

use std::ops::Range;

use rayon::prelude::*;

use super::{COLUMNS, Element, Lines, magnitude};

/// How many of `k` are packed for all columns of a panel before the next, so that what is written stays in the first cache.
const STRETCH: usize = 64;

/// A matrix of `n` columns and inner dimension `k`, laid out for the kernels once.
pub(crate) struct Panels<E> {
    values: Lines<E>,
    n: usize,
    k: usize,
}

impl<E: Element> Panels<E> {
    /// Packs a matrix: `read(column, from, values)` gives the values of a column from `k = from` on. Columns are read in
    /// parallel; the error of the lowest panel wins.
    pub(crate) fn pack<X: Send>(
        n: usize,
        k: usize,
        read: impl Fn(usize, usize, &mut [f32]) -> Result<(), X> + Sync,
    ) -> Result<Self, X> {
        let mut values = Lines::new(n.div_ceil(COLUMNS) * Self::panel(k));
        let pack_panel = |(index, panel): (usize, &mut [E])| {
            let columns = index * COLUMNS..n.min((index + 1) * COLUMNS);
            pack_panel(k, panel, columns, &read)
        };
        let packed: Vec<Result<(), X>> =
            values.par_chunks_exact_mut(Self::panel(k)).enumerate().map(pack_panel).collect();
        packed.into_iter().collect::<Result<(), X>>()?;
        Ok(Self { values, n, k })
    }

    /// Elements of a panel.
    fn panel(k: usize) -> usize {
        k.next_multiple_of(E::PAIR) * COLUMNS + k.div_ceil(E::DEPTH) * E::COLUMN_TRAILER
    }

    /// How many columns there are.
    pub(crate) fn n(&self) -> usize {
        self.n
    }

    /// How long a column is.
    pub(crate) fn k(&self) -> usize {
        self.k
    }

    /// The run `run` of panel `panel`, with its trailer, and how deep it is.
    pub(super) fn run(&self, panel: usize, run: usize) -> (&[E], usize) {
        let depth = (self.k - run * E::DEPTH).min(E::DEPTH).next_multiple_of(E::PAIR);
        let start = panel * Self::panel(self.k) + run * (E::DEPTH * COLUMNS + E::COLUMN_TRAILER);
        (&self.values[start..][..depth * COLUMNS + E::COLUMN_TRAILER], depth)
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.values.bytes()
    }
}

/// Packs some columns, at most [`COLUMNS`].
fn pack_panel<E: Element, X>(
    k: usize,
    panel: &mut [E],
    columns: Range<usize>,
    read: &impl Fn(usize, usize, &mut [f32]) -> Result<(), X>,
) -> Result<(), X> {
    let (mut wide, mut narrow) = ([0.0; STRETCH], [[E::default(); STRETCH]; COLUMNS]);
    let mut units = [E::unit(1.0); COLUMNS];
    if E::SCALED {
        for (unit, column) in units.iter_mut().zip(columns.clone()) {
            let mut largest = 0.0;
            for from in (0..k).step_by(STRETCH) {
                let length = STRETCH.min(k - from);
                read(column, from, &mut wide[..length])?;
                largest = f32::max(largest, magnitude(&wide[..length]));
            }
            *unit = E::unit(largest);
        }
    }
    let runs = panel.chunks_mut(E::DEPTH * COLUMNS + E::COLUMN_TRAILER);
    for (run, first) in runs.zip((0..k).step_by(E::DEPTH)) {
        let end = k.min(first + E::DEPTH);
        let (values, trailer) = run.split_at_mut((end - first).next_multiple_of(E::PAIR) * COLUMNS);
        for from in (first..end).step_by(STRETCH) {
            let length = STRETCH.min(end - from);
            for ((column, narrow), &unit) in columns.clone().zip(&mut narrow).zip(&units) {
                read(column, from, &mut wide[..length])?;
                E::narrow_column(&wide[..length], unit, &mut narrow[..length]);
                narrow[length..].fill(E::default());
            }
            let depth = length.next_multiple_of(E::PAIR);
            let pairs = values[(from - first) * COLUMNS..][..depth * COLUMNS].chunks_exact_mut(COLUMNS * E::PAIR);
            for (pair, values) in pairs.enumerate() {
                for (column, value) in values.chunks_exact_mut(E::PAIR).enumerate() {
                    value.copy_from_slice(&narrow[column][pair * E::PAIR..][..E::PAIR]);
                }
            }
        }
        E::put_column_units(trailer, values, &units);
    }
    Ok(())
}

/// Where the value `k` of a column stands in a panel.
pub(crate) fn panel_index<E: Element>(k: usize, column: usize) -> usize {
    (k / E::PAIR * COLUMNS + column) * E::PAIR + k % E::PAIR
}
