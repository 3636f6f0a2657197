//! Kernels that bring rows to fp8.
#![allow(unsafe_code, reason = "launches of kernels")]

use super::super::fp8::{Fp8Slice, THREADS};
use super::super::matrix::ElementSlice;
use super::structs::{Element, In, Out, c_structs, to_u32};
use super::table::{Grid, Kernels};
use crate::Result;

c_structs! {
    struct Quantization {
        source: In<Element>,
        output: Out<u8>,
        /// A scale for each row.
        scales: Out<f32>,
        width: u32,
    }
}

impl Kernels {
    /// Brings rows of `width` elements to fp8, as many as the output has scales.
    pub(crate) fn quantize(&self, source: ElementSlice<'_>, width: usize, output: Fp8Slice<'_>) -> Result<()> {
        let Fp8Slice { values, scales } = output;
        let rows = scales.len();
        assert!(width.is_multiple_of(4), "rows in fp8 are written four values at a time");
        assert!(rows * width <= source.len().min(values.len()));
        let argument =
            Quantization { source: source.input(), output: values.into(), scales: scales.into(), width: to_u32(width) };
        // SAFETY: a block reads and writes its own row, which the assertion made sure of.
        unsafe { self.functions.quantize.launch(&self.gpu, Grid::of(rows, THREADS), &argument) }
    }
}
