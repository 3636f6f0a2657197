//! Matrices and what they are multiplied with, in one of the precisions.

use half::bf16;
use rayon::prelude::*;

use super::NO_FP8;
use super::kernel::{Activations, Panels, multiply};
use crate::checkpoint::Tensor;
use crate::{Precision, Result};

/// A weight matrix.
pub(crate) enum Matrix {
    F32(Panels<f32>),
    Bf16(Panels<bf16>),
    Int8(Panels<i8>),
}

impl Matrix {
    /// Packs tensors of `k` columns, one below the other, into one matrix. `rows` are their numbers of rows.
    pub(crate) fn load(precision: Precision, tensors: &[(Tensor<'_>, usize)], k: usize) -> Result<Self> {
        let n = tensors.iter().map(|(_, rows)| rows).sum();
        let read = |mut column: usize, from: usize, values: &mut [f32]| {
            for (tensor, rows) in tensors {
                if column < *rows {
                    return tensor.read(column * k + from, values);
                }
                column -= rows;
            }
            unreachable!("the columns are the tensors' rows")
        };
        let matrix = match precision {
            Precision::F32 => Self::F32(Panels::pack(n, k, read)?),
            Precision::Bf16 => Self::Bf16(Panels::pack(n, k, read)?),
            Precision::Int8 => Self::Int8(Panels::pack(n, k, read)?),
            Precision::Fp8 => unreachable!("{NO_FP8}"),
        };
        tensors.iter().for_each(|(tensor, _)| tensor.release());
        Ok(matrix)
    }

    /// How many columns its product has.
    pub(crate) fn n(&self) -> usize {
        match self {
            Self::F32(panels) => panels.n(),
            Self::Bf16(panels) => panels.n(),
            Self::Int8(panels) => panels.n(),
        }
    }

    /// `output (+)= input · self`, row-major.
    pub(crate) fn multiply(&self, input: &Input, output: &mut [f32], add: bool) {
        match (self, input) {
            (Self::F32(panels), Input::F32(activations)) => multiply(activations, panels, output, panels.n(), add),
            (Self::Bf16(panels), Input::Bf16(activations)) => multiply(activations, panels, output, panels.n(), add),
            (Self::Int8(panels), Input::Int8(activations)) => multiply(activations, panels, output, panels.n(), add),
            _ => unreachable!("a model has one precision"),
        }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::F32(panels) => panels.bytes(),
            Self::Bf16(panels) => panels.bytes(),
            Self::Int8(panels) => panels.bytes(),
        }
    }
}

/// A matrix and, for some models, a bias.
pub(crate) struct Linear {
    pub(crate) matrix: Matrix,
    pub(crate) bias: Option<Vec<f32>>,
}

impl Linear {
    /// `output = input · matrix + bias`, row-major.
    pub(crate) fn apply(&self, input: &Input, output: &mut [f32]) {
        if let Some(bias) = &self.bias {
            output.par_chunks_exact_mut(bias.len()).with_min_len(16).for_each(|row| row.copy_from_slice(bias));
        }
        self.matrix.multiply(input, output, self.bias.is_some());
    }
}

/// Rows on their way into a product, laid out once for all the matrices they are multiplied with.
pub(crate) enum Input {
    F32(Activations<f32>),
    Bf16(Activations<bf16>),
    Int8(Activations<i8>),
}

impl Input {
    /// No rows.
    pub(crate) fn new(precision: Precision) -> Self {
        match precision {
            Precision::F32 => Self::F32(Activations::new()),
            Precision::Bf16 => Self::Bf16(Activations::new()),
            Precision::Int8 => Self::Int8(Activations::new()),
            Precision::Fp8 => unreachable!("{NO_FP8}"),
        }
    }

    /// How many rows there are.
    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::F32(activations) => activations.rows(),
            Self::Bf16(activations) => activations.rows(),
            Self::Int8(activations) => activations.rows(),
        }
    }

    /// Bytes that `rows` rows of `k` values take.
    pub(crate) fn bytes(&self, rows: usize, k: usize) -> usize {
        match self {
            Self::F32(activations) => activations.bytes(rows, k),
            Self::Bf16(activations) => activations.bytes(rows, k),
            Self::Int8(activations) => activations.bytes(rows, k),
        }
    }

    /// Takes `rows` rows of `k` values that `write(row, values)` writes.
    pub(crate) fn fill(&mut self, rows: usize, k: usize, write: impl Fn(usize, &mut [f32]) + Sync) {
        match self {
            Self::F32(activations) => activations.fill(rows, k, write),
            Self::Bf16(activations) => activations.fill(rows, k, write),
            Self::Int8(activations) => activations.fill(rows, k, write),
        }
    }
}
