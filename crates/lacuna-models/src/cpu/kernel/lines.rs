//! Memory that begins on a cache line.

use std::ops::{Deref, DerefMut};

const LINE: usize = 64;

/// A buffer that begins on a cache line, so that no vector of it straddles two. It grows when asked to and never shrinks.
#[derive(Default)]
pub(crate) struct Lines<E> {
    values: Vec<E>,
    start: usize,
    length: usize,
}

impl<E: Copy + Default> Lines<E> {
    /// A buffer of `length` default values.
    pub(crate) fn new(length: usize) -> Self {
        let mut lines = Self { values: Vec::new(), start: 0, length: 0 };
        lines.resize(length);
        lines
    }

    /// Makes it `length` long. What stands in it afterwards is unspecified.
    pub(crate) fn resize(&mut self, length: usize) {
        if self.start + length > self.values.len() {
            self.values = Vec::new();
            self.values.resize(length + LINE / size_of::<E>(), E::default());
            self.start = self.values.as_ptr().align_offset(LINE);
        }
        self.length = length;
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.values.capacity() * size_of::<E>()
    }
}

impl<E> Deref for Lines<E> {
    type Target = [E];

    fn deref(&self) -> &[E] {
        &self.values[self.start..self.start + self.length]
    }
}

impl<E> DerefMut for Lines<E> {
    fn deref_mut(&mut self) -> &mut [E] {
        &mut self.values[self.start..self.start + self.length]
    }
}
