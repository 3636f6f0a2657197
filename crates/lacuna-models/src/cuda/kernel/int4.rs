//! Products with weights of four bits.
#![allow(unsafe_code, reason = "launches of kernels")]

use super::super::int4::Int4Slice;
use super::super::matrix::Operand;
use super::product::Factors;
use super::structs::{Element, In, Out, Untyped, c_structs, to_u32};
use super::table::{Grid, Kernels};
use crate::Result;

/// Rows and columns of a tile.
pub(super) const TILE: usize = 64;

c_structs! {
    struct Int4Product {
        /// `[m][k]`.
        input: In<Element>,
        /// `n` rows of blocks.
        weights: In<u8>,
        /// Scale of each row of weights.
        units: In<f32>,
        /// `[m][n]`, f32 if `output_is_f32`, else elements.
        output: Out<Untyped>,
        m: u32,
        n: u32,
        k: u32,
        /// Adds to an f32 output instead of replacing it.
        add: u32,
        output_is_f32: u32,
    }
}

/// Bytes of shared memory of a block.
pub(super) fn shared(bf16: bool) -> usize {
    // Six stages of 64 columns of both factors, a slice of weights in bf16, groups.
    let stage = TILE * 64 * 2 + TILE * 32;
    if bf16 { 6 * stage + TILE * 64 * 2 + 2 * TILE * 16 } else { 0 }
}

impl Kernels {
    /// Computes a product with weights of four bits; sums run over k in order.
    pub(crate) fn product_int4(&self, factors: Factors<'_>) -> Result<()> {
        let Factors { m, n, k, input, weights, output } = factors;
        assert!(factors.fit());
        let (Operand::Elements(input), Operand::Int4(Int4Slice { bytes, units })) = (input, weights) else {
            unreachable!("weights in int4 are multiplied with elements")
        };
        let argument = Int4Product {
            input: input.input(),
            weights: bytes.into(),
            units: units.into(),
            output: Out::at(output.address()),
            m: to_u32(m),
            n: to_u32(n),
            k: to_u32(k),
            add: u32::from(output.adds()),
            output_is_f32: u32::from(output.is_f32()),
        };
        let blocks = [n.div_ceil(TILE), m.div_ceil(TILE)];
        let grid = Grid { blocks, threads: 256, shared: shared(self.variant.bf16) };
        // SAFETY: the matrices are as large as said.
        unsafe { self.functions.product_int4.launch(&self.gpu, grid, &argument) }
    }
}
