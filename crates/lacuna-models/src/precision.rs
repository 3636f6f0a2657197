//! Number formats of matrix products.

use crate::int4;
use crate::weight::Role;

/// A named choice of formats for all matrix products. Sums are in f32 in any case, and so is everything that is not a matrix
/// product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// 32-bit weights and activations.
    F32,
    /// 16-bit weights and activations.
    Bf16,
    /// 8-bit integer weights with a scale for each row, and activations with a scale for each token. An approximation, on the
    /// CPU alone; attention stays in 16 bits.
    Int8,
    /// 4-bit integer weights with a scale and a zero point for each group of 32, and 8-bit activations; 8-bit weights in the
    /// vocabulary projection and the embedding. An approximation; attention stays in 16 bits.
    Int4,
    /// As [`Int8`](Self::Int8) with 8-bit floating point numbers (e4m3), on NVIDIA's Hopper GPUs alone. An approximation; attention and the
    /// vocabulary projection stay in 16 bits.
    Fp8,
}

/// Format of a matrix's weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightFormat {
    /// 32-bit floating point.
    F32,
    /// bfloat16.
    Bf16,
    /// 8-bit integers, and an f32 scale for each row.
    Int8,
    /// 4-bit integers, a byte for each group of 32, and an f32 unit for each row.
    Int4,
    /// 8-bit floating point (e4m3), and an f32 scale for each row.
    Fp8,
}

/// Format of the activations that a matrix is multiplied with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivationFormat {
    /// 32-bit floating point.
    F32,
    /// Rounded to bfloat16.
    Bf16,
    /// 8-bit integers, and an f32 scale for each token.
    Int8,
    /// 8-bit floating point (e4m3), and an f32 scale for each token.
    Fp8,
}

/// The formats of a matrix product's two operands. Which pairs there are is for each predictor to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Of the weights.
    pub weights: WeightFormat,
    /// Of the activations.
    pub activations: ActivationFormat,
}

impl Format {
    pub(crate) const F32: Self = Self { weights: WeightFormat::F32, activations: ActivationFormat::F32 };
    pub(crate) const BF16: Self = Self { weights: WeightFormat::Bf16, activations: ActivationFormat::Bf16 };
    pub(crate) const INT8: Self = Self { weights: WeightFormat::Int8, activations: ActivationFormat::Int8 };
    pub(crate) const INT4: Self = Self { weights: WeightFormat::Int4, activations: ActivationFormat::Int8 };
    pub(crate) const FP8: Self = Self { weights: WeightFormat::Fp8, activations: ActivationFormat::Fp8 };
}

impl WeightFormat {
    /// Bytes of a row of `columns` weights.
    pub(crate) fn row_bytes(self, columns: usize) -> usize {
        match self {
            Self::F32 => 4 * columns,
            Self::Bf16 => 2 * columns,
            Self::Int8 | Self::Fp8 => columns + size_of::<f32>(),
            Self::Int4 => columns.div_ceil(2) + int4::groups(columns) + size_of::<f32>(),
        }
    }
}

impl Precision {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::F32, Self::Bf16, Self::Int8, Self::Int4, Self::Fp8];

    /// Its name, as in messages and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
            Self::Int4 => "int4",
            Self::Fp8 => "fp8",
        }
    }

    /// The formats of a matrix. Routers are in f32: they are small, and an expert chosen otherwise is another answer.
    pub(crate) fn format(self, role: Role) -> Format {
        match (self, role) {
            (Self::F32, _) | (_, Role::Router) => Format::F32,
            (Self::Bf16, _) | (Self::Fp8, Role::Head) => Format::BF16,
            (Self::Int8, _) | (Self::Int4, Role::Head) => Format::INT8,
            (Self::Int4, _) => Format::INT4,
            (Self::Fp8, _) => Format::FP8,
        }
    }

    /// The format of queries, keys, values and attention weights.
    pub(crate) fn attention(self) -> ActivationFormat {
        match self {
            Self::F32 => ActivationFormat::F32,
            Self::Bf16 | Self::Int8 | Self::Int4 | Self::Fp8 => ActivationFormat::Bf16,
        }
    }
}
