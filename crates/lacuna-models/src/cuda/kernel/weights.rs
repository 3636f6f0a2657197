//! Weights on their way into the GPU's memory.
#![allow(unsafe_code, reason = "launches of kernels")]

use super::super::buffer::DeviceSlice;
use super::super::matrix::Target;
use super::structs::{In, Out, Untyped, c_structs};
use super::table::{Grid, Kernels};
use crate::Result;

c_structs! {
    struct Conversion {
        source: In<Untyped>,
        /// f32 if `target_is_f32`, else elements.
        target: Out<Untyped>,
        /// Gets the lowest index of a value that is not finite.
        not_finite: Out<u64>,
        /// Index in the tensor of the first value of the source.
        first: u64,
        length: u64,
        /// 0 for f32, 1 for f16, 2 for bf16.
        source_dtype: u32,
        target_is_f32: u32,
    }

    struct Noise {
        target: Out<Untyped>,
        length: u64,
        seed: u32,
        mean: f32,
        step: f32,
        target_is_f32: u32,
    }
}

/// Values of a tensor as a file has them.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) bytes: DeviceSlice<'a, u8>,
    /// 0 for f32, 1 for f16, 2 for bf16.
    pub(crate) dtype: u32,
    /// Index in the tensor of the first of them.
    pub(crate) first: usize,
    pub(crate) length: usize,
}

/// Values that look random.
#[derive(Clone, Copy)]
pub(crate) struct NoiseCall {
    pub(crate) seed: u32,
    pub(crate) mean: f32,
    pub(crate) step: f32,
}

impl Kernels {
    /// Converts values of a tensor, and notes the lowest index of one that is not finite.
    pub(crate) fn convert(
        &self,
        source: Source<'_>,
        target: Target<'_>,
        not_finite: DeviceSlice<'_, u64>,
    ) -> Result<()> {
        let Source { bytes, dtype, first, length } = source;
        let size = if dtype == 0 { 4 } else { 2 };
        assert!(length * size <= bytes.len() && length <= target.len() && not_finite.len() > 0);
        let argument = Conversion {
            source: In::at(bytes.address()),
            target: target.untyped_out(),
            not_finite: not_finite.into(),
            first: first as u64,
            length: length as u64,
            source_dtype: dtype,
            target_is_f32: u32::from(target.is_f32()),
        };
        // SAFETY: both sides have that many values.
        unsafe { self.functions.convert.launch(&self.gpu, Grid::of(1024, 256), &argument) }
    }

    /// Fills a tensor with noise.
    pub(crate) fn noise(&self, noise: NoiseCall, target: Target<'_>) -> Result<()> {
        let NoiseCall { seed, mean, step } = noise;
        let argument = Noise {
            target: target.untyped_out(),
            length: target.len() as u64,
            seed,
            mean,
            step,
            target_is_f32: u32::from(target.is_f32()),
        };
        // SAFETY: the target has that many values.
        unsafe { self.functions.noise.launch(&self.gpu, Grid::of(4096, 256), &argument) }
    }
}
