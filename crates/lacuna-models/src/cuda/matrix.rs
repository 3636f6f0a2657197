//! Matrices in the GPU's memory.

use std::ops::Range;
use std::sync::Arc;

use super::buffer::{Buffer, DeviceSlice};
use super::fp8::{Fp8Rows, Fp8Slice};
use super::gpu::Gpu;
use super::int4::{Int4Rows, Int4Slice};
use super::kernel::{Element, In, Out, Untyped};
use crate::{Precision, Result};

/// Values of the dtype that attention and all products but fp8's are computed in.
pub(crate) struct Elements {
    bytes: Buffer<u8>,
    size: usize,
}

/// Bytes of such a value.
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

    /// Makes room. If they have to move, all values are lost.
    pub(crate) fn reserve(&mut self, length: usize) -> Result<()> {
        self.bytes.reserve(length * self.size)
    }

    /// All values.
    pub(crate) fn all(&self) -> ElementSlice<'_> {
        ElementSlice { bytes: self.bytes.all(), size: self.size }
    }

    /// The values from index `first` on.
    pub(crate) fn from(&self, first: usize) -> ElementSlice<'_> {
        let all = self.all();
        all.slice(first..all.len())
    }
}

/// A borrowed part of [`Elements`].
#[derive(Clone, Copy)]
pub(crate) struct ElementSlice<'a> {
    bytes: DeviceSlice<'a, u8>,
    size: usize,
}

impl<'a> ElementSlice<'a> {
    /// Bytes as bf16 or f32.
    pub(crate) fn new(bytes: DeviceSlice<'a, u8>, bf16: bool) -> Self {
        Self { bytes, size: if bf16 { 2 } else { 4 } }
    }

    pub(crate) fn len(self) -> usize {
        self.bytes.len() / self.size
    }

    pub(crate) fn address(self) -> u64 {
        self.bytes.address()
    }

    pub(crate) fn slice(self, range: Range<usize>) -> Self {
        Self { bytes: self.bytes.slice(range.start * self.size..range.end * self.size), ..self }
    }

    /// Copies as many elements here, after all work launched before.
    pub(crate) fn copy_from(self, gpu: &Gpu, source: ElementSlice<'_>) -> Result<()> {
        self.bytes.copy_from(gpu, source.bytes)
    }

    pub(crate) fn input(self) -> In<Element> {
        In::at(self.address())
    }

    pub(crate) fn output(self) -> Out<Element> {
        Out::at(self.address())
    }

    pub(crate) fn untyped_out(self) -> Out<Untyped> {
        Out::at(self.address())
    }
}

/// Rows that a product takes.
#[derive(Clone, Copy)]
pub(crate) enum Operand<'a> {
    Elements(ElementSlice<'a>),
    Fp8(Fp8Slice<'a>),
    /// Weights alone.
    Int4(Int4Slice<'a>),
}

impl Operand<'_> {
    /// True if there is room for `rows` rows of `width` values.
    pub(crate) fn holds(self, rows: usize, width: usize) -> bool {
        match self {
            Self::Elements(elements) => rows * width <= elements.len(),
            Self::Fp8(Fp8Slice { values, scales }) => rows * width <= values.len() && rows <= scales.len(),
            Self::Int4(slice) => slice.holds(rows, width),
        }
    }
}

/// The place of a tensor that is being loaded.
#[derive(Clone, Copy)]
pub(crate) enum Target<'a> {
    Elements(ElementSlice<'a>),
    F32(DeviceSlice<'a, f32>),
}

impl Target<'_> {
    pub(crate) fn len(self) -> usize {
        match self {
            Self::Elements(elements) => elements.len(),
            Self::F32(values) => values.len(),
        }
    }

    pub(crate) fn is_f32(self) -> bool {
        matches!(self, Self::F32(_))
    }

    pub(crate) fn untyped_out(self) -> Out<Untyped> {
        match self {
            Self::Elements(elements) => elements.untyped_out(),
            Self::F32(values) => Out::at(values.address()),
        }
    }

    /// The values in `range`.
    pub(crate) fn slice(self, range: Range<usize>) -> Self {
        match self {
            Self::Elements(elements) => Self::Elements(elements.slice(range)),
            Self::F32(values) => Self::F32(values.slice(range)),
        }
    }
}

/// A weight matrix: `n` rows of `k` values.
pub(crate) struct Matrix {
    pub(crate) contents: Contents,
    pub(crate) n: usize,
    pub(crate) k: usize,
}

/// The values of a matrix.
pub(crate) enum Contents {
    Elements(Elements),
    Fp8(Fp8Rows),
    Int4(Int4Rows),
}

/// Some rows of a weight matrix.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) rows: Operand<'a>,
    pub(crate) n: usize,
    pub(crate) k: usize,
}

impl Matrix {
    pub(crate) fn all(&self) -> Part<'_> {
        self.part(0, self.n)
    }

    /// `n` rows from row `first` on.
    pub(crate) fn part(&self, first: usize, n: usize) -> Part<'_> {
        let k = self.k;
        let rows = match &self.contents {
            Contents::Elements(elements) => Operand::Elements(elements.all().slice(first * k..(first + n) * k)),
            Contents::Fp8(rows) => Operand::Fp8(rows.rows(first..first + n, k)),
            Contents::Int4(rows) => Operand::Int4(rows.rows(first..first + n, k)),
        };
        Part { rows, n, k }
    }
}
