//! Matrices in the GPU's memory.

use std::sync::Arc;

use super::buffer::Buffer;
use super::fp8::Quantized;
use super::gpu::Gpu;
use crate::{Precision, Result};

/// Numbers of the kind that attention and all products but fp8's are made of.
pub(crate) struct Elements {
    bytes: Buffer<u8>,
    size: usize,
}

/// Bytes of such a number.
pub(crate) fn element_size(precision: Precision) -> usize {
    match precision {
        Precision::F32 => 4,
        _ => 2,
    }
}

impl Elements {
    pub(crate) fn new(gpu: &Arc<Gpu>, precision: Precision, length: usize) -> Result<Self> {
        let size = element_size(precision);
        Ok(Self { bytes: Buffer::new(gpu, length * size)?, size })
    }

    /// Makes room. Returns whether the numbers moved.
    pub(crate) fn reserve(&mut self, length: usize) -> Result<bool> {
        self.bytes.reserve(length * self.size)
    }

    /// Where a number lies.
    pub(crate) fn at(&self, index: usize) -> u64 {
        self.bytes.at(index * self.size)
    }
}

/// A weight matrix: `n` rows of `k` numbers.
pub(crate) struct Matrix {
    pub(crate) contents: Contents,
    pub(crate) n: usize,
    pub(crate) k: usize,
}

/// What a matrix is made of.
pub(crate) enum Contents {
    Elements(Elements),
    Fp8(Quantized),
}

/// Some rows of a weight matrix.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub(crate) address: u64,
    /// Where the units of the rows lie, in fp8.
    pub(crate) units: Option<u64>,
    pub(crate) n: usize,
    pub(crate) k: usize,
}

impl Matrix {
    pub(crate) fn all(&self) -> Part {
        self.part(0, self.n)
    }

    /// `n` rows from row `first` on.
    pub(crate) fn part(&self, first: usize, n: usize) -> Part {
        let k = self.k;
        let (address, units) = match &self.contents {
            Contents::Elements(elements) => (elements.at(first * k), None),
            Contents::Fp8(rows) => (rows.numbers.at(first * k), Some(rows.units.at(first))),
        };
        Part { address, units, n, k }
    }
}
