//! The keys and values of a text in one block, laid out for the kernels.

use rayon::prelude::*;

use super::attention::Shape;
use super::kernel::{Element, Lines};

/// Keys, transformed, and values of a text, head by head. Rows that were never written are zero.
#[derive(Default)]
pub(crate) struct KeyValues<E> {
    keys: Lines<E>,
    values: Lines<E>,
    /// Number of rows that there is room for.
    room: usize,
}

/// The keys and values of a head. Elements are grouped as kernels take them ([`Element::GROUP`]).
pub(crate) struct Head<K> {
    /// Panels of as many rows as a tile has columns.
    pub(crate) keys: K,
    /// Panels of as many dimensions, each with all rows.
    pub(crate) values: K,
    /// Elements from one panel of values to the next.
    pub(crate) value_panel: usize,
}

impl<E: Element> KeyValues<E> {
    /// Makes room for `rows` rows. What stands there stays.
    pub(crate) fn reserve(&mut self, shape: Shape, rows: usize) {
        if rows <= self.room {
            return;
        }
        let kernel = E::kernel();
        // Texts grow block by block.
        let room = if self.room == 0 { rows } else { rows.max(2 * self.room) };
        let room = room.next_multiple_of(kernel.columns.max(kernel.step));
        let keys = Lines::new(shape.key_value_heads * shape.keys::<E>(room));
        let values = Lines::new(shape.key_value_heads * shape.values::<E>(room));
        let before = std::mem::replace(self, Self { keys, values, room });
        self.copy(shape, &before, before.room);
    }

    /// Copies the first `rows` rows of another text, for which there is room, and perhaps some behind them.
    pub(crate) fn copy(&mut self, shape: Shape, other: &Self, rows: usize) {
        if rows == 0 {
            return;
        }
        let copy = |to: &mut [E], to_length: usize, from: &[E], from_length: usize, length: usize| {
            for (to, from) in to.chunks_exact_mut(to_length).zip(from.chunks_exact(from_length)) {
                to[..length].copy_from_slice(&from[..length]);
            }
        };
        let (to, from) = (self.room, other.room);
        let keys = |rows| shape.keys::<E>(rows);
        copy(&mut self.keys, keys(to), &other.keys, keys(from), keys(rows));
        let values = |rows| shape.value_panel::<E>(rows);
        copy(&mut self.values, values(to), &other.values, values(from), values(rows));
    }

    /// A head to read.
    pub(crate) fn head(&self, shape: Shape, head: usize) -> Head<&[E]> {
        let (keys, values) = (shape.keys::<E>(self.room), shape.values::<E>(self.room));
        Head {
            keys: &self.keys[head * keys..][..keys],
            values: &self.values[head * values..][..values],
            value_panel: shape.value_panel::<E>(self.room),
        }
    }

    /// Gives every head to `write(number, head)`, in parallel if they are worth it.
    pub(crate) fn write(&mut self, shape: Shape, parallel: bool, write: impl Fn(usize, Head<&mut [E]>) + Sync) {
        let value_panel = shape.value_panel::<E>(self.room);
        let write = |(number, (keys, values))| write(number, Head { keys, values, value_panel });
        let (keys, values) = (shape.keys::<E>(self.room), shape.values::<E>(self.room));
        if parallel {
            let heads = self.keys.par_chunks_exact_mut(keys).zip(self.values.par_chunks_exact_mut(values));
            heads.enumerate().for_each(write);
        } else {
            self.keys.chunks_exact_mut(keys).zip(self.values.chunks_exact_mut(values)).enumerate().for_each(write);
        }
    }
}

impl<E: Element> Head<&mut [E]> {
    /// Writes rows of keys and of values from row `first` on, all keys into one panel. `G` is [`Element::GROUP`].
    pub(crate) fn put<const G: usize>(&mut self, size: usize, first: usize, keys: &[E], values: &[E]) {
        let columns = E::kernel().columns;
        let panel = size.next_multiple_of(E::kernel().step) * columns;
        let panel = &mut self.keys[first / columns * panel..][..panel];
        // A head's size is even, so it is whole groups.
        let groups = panel.as_chunks_mut::<G>().0.chunks_exact_mut(columns);
        for (index, groups) in groups.enumerate().take(size / G) {
            for (group, key) in groups[first % columns..].iter_mut().zip(keys.chunks_exact(size)) {
                *group = key.as_chunks::<G>().0[index];
            }
        }
        for (panel, from) in self.values.chunks_exact_mut(self.value_panel).zip((0..size).step_by(columns)) {
            let width = columns.min(size - from);
            let mut rows = values.chunks_exact(size).map(|row| &row[from..][..width]);
            let mut row = first;
            while let Some(value) = rows.next() {
                let groups = &mut panel.as_chunks_mut::<G>().0[row / G * columns..][..width];
                let whole = if G == 2 && row.is_multiple_of(2) { rows.next() } else { None };
                if let Some(next) = whole {
                    for ((group, value), next) in groups.iter_mut().zip(value).zip(next) {
                        (group[0], group[1]) = (*value, *next);
                    }
                    row += 2;
                } else {
                    groups.iter_mut().zip(value).for_each(|(group, value)| group[row % G] = *value);
                    row += 1;
                }
            }
        }
    }

    /// Clears the values of rows from `rows` on, up to a multiple of the kernel's step: they are multiplied by zero, and must be numbers for
    /// that.
    pub(crate) fn clear_behind(&mut self, rows: usize) {
        let kernel = E::kernel();
        let place = |row: usize| row / E::GROUP * E::GROUP * kernel.columns;
        let end = rows.next_multiple_of(kernel.step);
        for panel in self.values.chunks_exact_mut(self.value_panel) {
            for row in rows..end {
                panel[place(row)..][..E::GROUP * kernel.columns]
                    .iter_mut()
                    .skip(row % E::GROUP)
                    .step_by(E::GROUP)
                    .for_each(|value| *value = E::default());
            }
        }
    }
}
