//! The right operand of a product.

use rayon::prelude::*;

use super::{COLUMNS, DEPTH, Element, Lines};

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
        let pack_panel = |index: usize, panel: &mut [E]| {
            let (mut wide, mut narrow) = ([0.0; STRETCH], [[E::default(); STRETCH]; COLUMNS]);
            let columns = COLUMNS.min(n - index * COLUMNS);
            for from in (0..k).step_by(STRETCH) {
                let length = STRETCH.min(k - from);
                for (column, narrow) in narrow[..columns].iter_mut().enumerate() {
                    read(index * COLUMNS + column, from, &mut wide[..length])?;
                    E::narrow_row(&wide[..length], &mut narrow[..length]);
                    narrow[length..].fill(E::default());
                }
                let depth = length.next_multiple_of(E::PAIR);
                let pairs = panel[from * COLUMNS..][..depth * COLUMNS].chunks_exact_mut(COLUMNS * E::PAIR);
                for (pair, values) in pairs.enumerate() {
                    for (column, value) in values.chunks_exact_mut(E::PAIR).enumerate() {
                        value.copy_from_slice(&narrow[column][pair * E::PAIR..][..E::PAIR]);
                    }
                }
            }
            Ok(())
        };
        let packed: Vec<Result<(), X>> = values
            .par_chunks_exact_mut(Self::panel(k))
            .enumerate()
            .map(|(index, panel)| pack_panel(index, panel))
            .collect();
        packed.into_iter().collect::<Result<(), X>>()?;
        Ok(Self { values, n, k })
    }

    fn panel(k: usize) -> usize {
        k.next_multiple_of(E::PAIR) * COLUMNS
    }

    /// How many columns there are.
    pub(crate) fn n(&self) -> usize {
        self.n
    }

    /// How long a column is.
    pub(crate) fn k(&self) -> usize {
        self.k
    }

    /// The run `run` of panel `panel`.
    pub(super) fn run(&self, panel: usize, run: usize) -> &[E] {
        let depth = (self.k - run * DEPTH).min(DEPTH).next_multiple_of(E::PAIR);
        &self.values[panel * Self::panel(self.k) + run * DEPTH * COLUMNS..][..depth * COLUMNS]
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.values.bytes()
    }
}

/// Where the value `k` of a column stands in a panel.
pub(crate) fn panel_index<E: Element>(k: usize, column: usize) -> usize {
    (k / E::PAIR * COLUMNS + column) * E::PAIR + k % E::PAIR
}
