//! Matrices and the activations they are multiplied with, each in its own format.

use half::bf16;
use rayon::prelude::*;

use super::NO_FP8;
use super::kernel::{
    Activations, Columns, Element, Lines, Nibbles, Panels, Source, can_gate, multiply, multiply_gated,
    multiply_gated_into, silu_times,
};
use crate::checkpoint::Tensor;
use crate::int4::Group;
use crate::{ActivationFormat, Error, Format, Result};

/// A weight matrix. Each variant is a pair of weight and activation formats that there are kernels for.
pub(crate) enum Matrix {
    F32(Panels<f32>),
    Bf16(Panels<bf16>),
    Int8(Panels<i8>),
    Int4(Nibbles),
}

impl Matrix {
    /// Packs tensors with rows of one length, one below the other.
    pub(crate) fn load(format: Format, tensors: &[Tensor<'_>]) -> Result<Self> {
        let n = tensors.iter().map(Tensor::rows).sum();
        let k = tensors.first().map_or(0, Tensor::columns);
        let matrix = Self::pack(format, n, k, Stack(tensors))?;
        tensors.iter().for_each(Tensor::release);
        Ok(matrix)
    }

    /// Packs a matrix of `n` columns and inner dimension `k`.
    pub(crate) fn pack<S: Source>(
        format: Format,
        n: usize,
        k: usize,
        source: S,
    ) -> std::result::Result<Self, S::Error> {
        Ok(match format {
            Format::F32 => Self::F32(Panels::pack(n, k, source)?),
            Format::BF16 => Self::Bf16(Panels::pack(n, k, source)?),
            Format::INT8 => Self::Int8(Panels::pack(n, k, source)?),
            Format::INT4 => Self::Int4(Nibbles::pack(n, k, source)?),
            other => unreachable!("the CPU has no {other:?}, so its predictor refuses it"),
        })
    }

    /// The format of the activations that it takes.
    pub(crate) fn activations(&self) -> ActivationFormat {
        match self {
            Self::F32(_) => ActivationFormat::F32,
            Self::Bf16(_) => ActivationFormat::Bf16,
            Self::Int8(_) | Self::Int4(_) => ActivationFormat::Int8,
        }
    }

    /// Columns of its product.
    pub(crate) fn n(&self) -> usize {
        match self {
            Self::F32(panels) => panels.n(),
            Self::Bf16(panels) => panels.n(),
            Self::Int8(panels) => panels.n(),
            Self::Int4(panels) => panels.n(),
        }
    }

    /// Inner dimension.
    pub(crate) fn k(&self) -> usize {
        match self {
            Self::F32(panels) => panels.k(),
            Self::Bf16(panels) => panels.k(),
            Self::Int8(panels) => panels.k(),
            Self::Int4(panels) => panels.k(),
        }
    }

    /// `output (+)= input · self`, row-major. The input must have been filled in this matrix's activation format.
    pub(crate) fn multiply(&self, input: &Input, output: &mut [f32], add: bool) {
        self.multiply_in_blocks(input, output, self.n(), add);
    }

    /// The same in blocks of `width` columns: of each block row after row.
    fn multiply_in_blocks(&self, input: &Input, output: &mut [f32], width: usize, add: bool) {
        assert_eq!(input.format, self.activations(), "the input was filled for another matrix");
        match self {
            Self::F32(panels) => multiply(&input.f32, panels, output, width, add),
            Self::Bf16(panels) => multiply(&input.bf16, panels, output, width, add),
            Self::Int8(panels) => multiply(&input.int8, panels, output, width, add),
            Self::Int4(panels) => multiply(&input.int8, panels, output, width, add),
        }
    }

    /// `output = silu(input · gate) · (input · up)` as the input of `next`, where `gate` is the first half of this matrix's columns and
    /// `up` the other.
    pub(crate) fn multiply_gated(&self, input: &Input, next: &Self, output: &mut Gated) {
        match self {
            Self::F32(panels) => self.gate(input, &input.f32, panels, next, output),
            Self::Bf16(panels) => self.gate(input, &input.bf16, panels, next, output),
            Self::Int8(panels) => self.gate(input, &input.int8, panels, next, output),
            Self::Int4(panels) => self.gate(input, &input.int8, panels, next, output),
        }
    }

    fn gate<E: Element>(
        &self,
        input: &Input,
        activations: &Activations<E>,
        panels: &impl Columns<E>,
        next: &Self,
        output: &mut Gated,
    ) {
        let Gated { rows, input: output } = output;
        output.format = next.activations();
        let done = match next {
            Self::F32(_) => multiply_gated_into(activations, panels, &mut output.f32),
            Self::Bf16(_) => multiply_gated_into(activations, panels, &mut output.bf16),
            Self::Int8(_) | Self::Int4(_) => false,
        };
        if done {
            return;
        }
        let (count, width) = (input.rows(), self.n() / 2);
        if can_gate(panels) {
            rows.resize(count * width);
            multiply_gated(activations, panels, rows);
            output.copy(next, rows);
        } else {
            rows.resize(count * 2 * width);
            self.multiply(input, rows, false);
            output.fill(next, count, |row, values| {
                let (gate, up) = rows[2 * row * width..][..2 * width].split_at(width);
                values.copy_from_slice(gate);
                silu_times(values, up);
            });
        }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::F32(panels) => panels.bytes(),
            Self::Bf16(panels) => panels.bytes(),
            Self::Int8(panels) => panels.bytes(),
            Self::Int4(panels) => panels.bytes(),
        }
    }
}

/// Tensors one below the other. Their rows are the columns of products.
struct Stack<'a>(&'a [Tensor<'a>]);

impl Stack<'_> {
    /// The tensor of a column, and its row there.
    fn find(&self, column: usize) -> (&Tensor<'_>, usize) {
        let mut row = column;
        for tensor in self.0 {
            if row < tensor.rows() {
                return (tensor, row);
            }
            row -= tensor.rows();
        }
        unreachable!("the columns are the tensors' rows")
    }
}

impl Source for Stack<'_> {
    type Error = Error;

    fn read(&self, column: usize, from: usize, values: &mut [f32]) -> Result<()> {
        let (tensor, row) = self.find(column);
        tensor.read(row * tensor.columns() + from, values)
    }

    fn scale(&self, column: usize) -> Option<f32> {
        let (tensor, row) = self.find(column);
        tensor.row_scale(row)
    }

    fn groups(&self, column: usize, groups: &mut [Group]) -> Option<f32> {
        let (tensor, row) = self.find(column);
        tensor.row_groups(row, groups)
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
        self.apply_by_heads(input, output, self.matrix.n());
    }

    /// The same head by head: of each head of `size` columns row after row.
    pub(crate) fn apply_by_heads(&self, input: &Input, output: &mut [f32], size: usize) {
        if let Some(bias) = &self.bias {
            let heads = output.par_chunks_exact_mut((input.rows() * size).max(1)).zip(bias.par_chunks_exact(size));
            heads.for_each(|(head, bias)| {
                head.par_chunks_exact_mut(size).with_min_len(16).for_each(|row| row.copy_from_slice(bias));
            });
        }
        self.matrix.multiply_in_blocks(input, output, size, self.bias.is_some());
    }

    /// `output += input · matrix + bias`, row-major.
    pub(crate) fn add(&self, input: &Input, output: &mut [f32]) {
        if let Some(bias) = &self.bias {
            let add = |row: &mut [f32]| row.iter_mut().zip(bias).for_each(|(value, bias)| *value += bias);
            output.par_chunks_exact_mut(bias.len()).with_min_len(16).for_each(add);
        }
        self.matrix.multiply(input, output, true);
    }
}

/// Gated rows on their way into the last product of a feed-forward network.
#[derive(Default)]
pub(crate) struct Gated {
    /// The rows, where they cannot be laid out before they are whole.
    rows: Lines<f32>,
    pub(crate) input: Input,
}

/// Rows on their way into a product, laid out once for all the matrices they are multiplied with.
pub(crate) struct Input {
    /// The format they were filled in last.
    format: ActivationFormat,
    f32: Activations<f32>,
    bf16: Activations<bf16>,
    int8: Activations<i8>,
}

impl Default for Input {
    fn default() -> Self {
        Self::new()
    }
}

impl Input {
    /// No rows.
    pub(crate) fn new() -> Self {
        let (f32, bf16, int8) = (Activations::new(), Activations::new(), Activations::new());
        Self { format: ActivationFormat::F32, f32, bf16, int8 }
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        match self.format {
            ActivationFormat::F32 => self.f32.rows(),
            ActivationFormat::Bf16 => self.bf16.rows(),
            ActivationFormat::Int8 => self.int8.rows(),
            ActivationFormat::Fp8 => unreachable!("{NO_FP8}"),
        }
    }

    /// Bytes that `rows` rows of `k` values take.
    pub(crate) fn bytes(&self, format: ActivationFormat, rows: usize, k: usize) -> usize {
        match format {
            ActivationFormat::F32 => self.f32.bytes(rows, k),
            ActivationFormat::Bf16 => self.bf16.bytes(rows, k),
            ActivationFormat::Int8 => self.int8.bytes(rows, k),
            ActivationFormat::Fp8 => unreachable!("{NO_FP8}"),
        }
    }

    /// Takes the input of a product with `matrix`: rows that stand one after the other.
    pub(crate) fn copy(&mut self, matrix: &Matrix, rows: &[f32]) {
        self.format = matrix.activations();
        match matrix {
            Matrix::F32(panels) => self.f32.copy(rows, panels.k()),
            Matrix::Bf16(panels) => self.bf16.copy(rows, panels.k()),
            Matrix::Int8(panels) => self.int8.copy(rows, panels.k()),
            Matrix::Int4(panels) => self.int8.copy(rows, panels.k()),
        }
    }

    /// Takes the input of a product with `matrix`: `rows` rows that `write(row, values)` writes.
    pub(crate) fn fill(&mut self, matrix: &Matrix, rows: usize, write: impl Fn(usize, &mut [f32]) + Sync) {
        self.format = matrix.activations();
        match matrix {
            Matrix::F32(panels) => self.f32.fill(rows, panels.k(), write),
            Matrix::Bf16(panels) => self.bf16.fill(rows, panels.k(), write),
            Matrix::Int8(panels) => self.int8.fill(rows, panels.k(), write),
            Matrix::Int4(panels) => self.int8.fill(rows, panels.k(), write),
        }
    }
}
