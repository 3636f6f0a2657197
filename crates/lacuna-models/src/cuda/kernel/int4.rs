//! Products with weights of four bits.
#![allow(unsafe_code, reason = "launches of kernels")]

use super::super::buffer::DeviceSlice;
use super::super::int4::Int4Slice;
use super::super::matrix::Operand;
use super::product::Factors;
use super::structs::{Element, In, Out, Untyped, c_structs, to_u32};
use super::table::{Grid, Kernels};
use crate::Result;

/// Columns of a block of threads.
const COLUMNS: usize = 128;
/// Columns from which on two chunks of k give enough work.
const MANY_COLUMNS: usize = 8192;
/// Blocks of threads that keep a GPU busy without more chunks.
const MANY_BLOCKS: usize = 128;

c_structs! {
    struct Int4Product {
        /// `[m][k]`.
        input: In<Element>,
        /// `n` rows of blocks.
        weights: In<u8>,
        /// Scale of each row of weights.
        row_scales: In<f32>,
        /// `[m][n]`, f32 if `output_is_f32`, else elements.
        output: Out<Untyped>,
        /// `[pair of chunks][m][n]`, if several blocks of threads share a sum.
        parts: Out<f32>,
        m: u32,
        n: u32,
        k: u32,
        /// Pairs of chunks that k is cut into.
        pairs: u32,
        /// Blocks of threads that share them: one, or one for each pair.
        splits: u32,
        /// Adds to an f32 output instead of replacing it.
        add: u32,
        output_is_f32: u32,
    }
}

/// Pairs of chunks that the sums of a product are cut into. They depend on the weights alone.
fn pairs(n: usize) -> usize {
    if n < MANY_COLUMNS { 4 } else { 1 }
}

/// Rows of a block of threads.
fn rows(m: usize) -> usize {
    match m {
        0..=16 => 16,
        17..=32 => 32,
        _ => 64,
    }
}

/// Blocks of threads that share a sum.
fn splits(m: usize, n: usize) -> usize {
    let blocks = n.div_ceil(COLUMNS) * m.div_ceil(rows(m));
    if rows(m) == 64 && blocks >= MANY_BLOCKS { 1 } else { pairs(n) }
}

/// Sums of parts that a product needs room for.
pub(crate) fn int4_parts(m: usize, n: usize) -> usize {
    if splits(m, n) == 1 { 0 } else { splits(m, n) * m * n }
}

/// Bytes of shared memory of a block of `rows` rows: stages of a run of both chunks.
pub(super) fn shared(rows: usize, bf16: bool) -> usize {
    let stages = if rows > 32 { 2 } else { 4 };
    if bf16 { stages * 2 * rows * 320 } else { 0 }
}

impl Kernels {
    /// Computes a product with weights of four bits; `parts` has room for [`int4_parts`].
    pub(crate) fn product_int4(&self, factors: Factors<'_>, parts: DeviceSlice<'_, f32>) -> Result<()> {
        let Factors { m, n, k, input, weights, output } = factors;
        assert!(factors.fit() && int4_parts(m, n) <= parts.len());
        let (Operand::Elements(input), Operand::Int4(Int4Slice { bytes, row_scales })) = (input, weights) else {
            unreachable!("weights in int4 are multiplied with elements")
        };
        let argument = Int4Product {
            input: input.input(),
            weights: bytes.into(),
            row_scales: row_scales.into(),
            output: Out::at(output.address()),
            parts: parts.into(),
            m: to_u32(m),
            n: to_u32(n),
            k: to_u32(k),
            pairs: to_u32(pairs(n)),
            splits: to_u32(splits(m, n)),
            add: u32::from(output.adds()),
            output_is_f32: u32::from(output.is_f32()),
        };
        let kernel = match rows(m) {
            16 => &self.functions.product_int4_16,
            32 => &self.functions.product_int4_32,
            _ => &self.functions.product_int4_64,
        };
        let blocks = [n.div_ceil(COLUMNS), m.div_ceil(rows(m)) * splits(m, n)];
        let grid = Grid { blocks, threads: 256, shared: shared(rows(m), self.variant.bf16) };
        // SAFETY: the matrices are as large as said.
        unsafe { kernel.launch(&self.gpu, grid, &argument)? };
        if splits(m, n) == 1 {
            return Ok(());
        }
        let grid = Grid::of((m * n).div_ceil(256).min(1024), 256);
        // SAFETY: the parts are as large as said.
        unsafe { self.functions.sum_int4.launch(&self.gpu, grid, &argument) }
    }
}
