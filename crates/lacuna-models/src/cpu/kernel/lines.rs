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
            let length = length + LINE / size_of::<E>();
            self.values = Vec::new();
            self.values.reserve_exact(length);
            prefer_huge_pages(&mut self.values);
            self.values.resize(length, E::default());
            self.start = self.values.as_ptr().align_offset(LINE);
        }
        self.length = length;
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.values.capacity() * size_of::<E>()
    }
}

/// Asks Linux to back a large buffer that is still empty with huge pages: reading weights then misses fewer translations.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn prefer_huge_pages<E>(values: &mut Vec<E>) {
    const HUGE_PAGE: usize = 2 << 20;
    let room = values.spare_capacity_mut();
    let before = room.as_ptr().cast::<u8>().align_offset(HUGE_PAGE);
    if let Some(bytes) = size_of_val(room).checked_sub(before).filter(|bytes| *bytes >= HUGE_PAGE) {
        let start = room.as_mut_ptr().cast::<u8>().wrapping_add(before);
        // SAFETY: the range is the buffer's own. It is advice: where it cannot be followed nothing changes.
        unsafe { libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn prefer_huge_pages<E>(_: &mut Vec<E>) {}

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
