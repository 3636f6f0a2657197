//! What matrix products are made of.

/// The numbers of matrix products. Sums are in f32 in any case, and so is everything that is not a matrix product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// 32-bit weights and activations.
    F32,
    /// 16-bit weights, and activations rounded to 16 bits on their way into a product.
    Bf16,
    /// 8-bit weights in units of their row, and activations rounded to 8 bits of their own largest value on their way into a
    /// product. An approximation, on the CPU alone; attention stays in 16 bits.
    Int8,
    /// The same with 8-bit floating point numbers (e4m3), on NVIDIA's Hopper GPUs alone. An approximation; attention and the
    /// vocabulary projection stay in 16 bits.
    Fp8,
}

impl Precision {
    /// Its name, as in messages and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
            Self::Fp8 => "fp8",
        }
    }
}
