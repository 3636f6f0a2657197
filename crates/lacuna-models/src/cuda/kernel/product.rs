//! The matrix product for f32 and for sizes that cublasLt declines, and two kernels that measure.
#![allow(unsafe_code, reason = "launches of kernels")]

use super::super::buffer::DeviceSlice;
use super::super::matrix::{ElementSlice, Operand};
use super::structs::{Element, In, Out, Untyped, c_structs, to_u32};
use super::table::{Grid, Kernels};
use crate::Result;

/// Rows and columns of a tile of the product.
pub(super) const TILE: usize = 64;

c_structs! {
    struct Product {
        /// `[m][k]`.
        input: In<Element>,
        /// `[n][k]`.
        weights: In<Element>,
        /// `[m][n]`, f32 if `output_is_f32`, else elements.
        output: Out<Untyped>,
        m: u32,
        n: u32,
        k: u32,
        /// Adds to the output instead of replacing it.
        add: u32,
        output_is_f32: u32,
    }

    struct Comparison {
        one: In<u32>,
        other: In<u32>,
        /// Gets the number of words that differ added.
        different: Out<u32>,
        words: u64,
    }

    struct Ceiling {
        output: Out<f32>,
    }
}

/// A product: `output (+)= input · weightsᵀ`, all row-major.
#[derive(Clone, Copy)]
pub(crate) struct Factors<'a> {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    /// `[m][k]`.
    pub(crate) input: Operand<'a>,
    /// `[n][k]`.
    pub(crate) weights: Operand<'a>,
    /// `[m][n]`.
    pub(crate) output: Output<'a>,
}

/// Output of a product.
#[derive(Clone, Copy)]
pub(crate) enum Output<'a> {
    Elements(ElementSlice<'a>),
    F32 {
        values: DeviceSlice<'a, f32>,
        /// Adds to the output instead of replacing it.
        add: bool,
    },
}

impl Output<'_> {
    pub(crate) fn is_f32(self) -> bool {
        matches!(self, Self::F32 { .. })
    }

    pub(crate) fn adds(self) -> bool {
        matches!(self, Self::F32 { add: true, .. })
    }

    pub(crate) fn address(self) -> u64 {
        match self {
            Self::Elements(elements) => elements.address(),
            Self::F32 { values, .. } => values.address(),
        }
    }

    fn len(self) -> usize {
        match self {
            Self::Elements(elements) => elements.len(),
            Self::F32 { values, .. } => values.len(),
        }
    }
}

impl Factors<'_> {
    /// True if all three matrices are as large as they are said to be.
    pub(crate) fn fit(&self) -> bool {
        let &Self { m, n, k, input, weights, output } = self;
        input.holds(m, k) && weights.holds(n, k) && m * n <= output.len()
    }
}

impl Kernels {
    /// Computes a product of elements; sums run over k in order.
    pub(crate) fn product(&self, factors: Factors<'_>) -> Result<()> {
        let Factors { m, n, k, input, weights, output } = factors;
        assert!(factors.fit());
        let (Operand::Elements(input), Operand::Elements(weights)) = (input, weights) else {
            unreachable!("fp8 products are cublasLt's")
        };
        let argument = Product {
            input: input.input(),
            weights: weights.input(),
            output: Out::at(output.address()),
            m: to_u32(m),
            n: to_u32(n),
            k: to_u32(k),
            add: u32::from(output.adds()),
            output_is_f32: u32::from(output.is_f32()),
        };
        let grid = Grid { blocks: [n.div_ceil(TILE), m.div_ceil(TILE)], threads: 256, shared: 0 };
        // SAFETY: the matrices are as large as said.
        unsafe { self.functions.product.launch(&self.gpu, grid, &argument) }
    }

    /// Counts the words that differ, and adds their number to `different`.
    pub(crate) fn compare(
        &self,
        one: DeviceSlice<'_, u32>,
        other: DeviceSlice<'_, u32>,
        different: DeviceSlice<'_, u32>,
    ) -> Result<()> {
        assert!(one.len() == other.len() && different.len() > 0);
        let words = one.len() as u64;
        let argument = Comparison { one: one.into(), other: other.into(), different: different.into(), words };
        // SAFETY: both lists have that many words.
        unsafe { self.functions.compare.launch(&self.gpu, Grid::of(1024, 256), &argument) }
    }

    /// Multiplies and adds in registers: 65,536 multiply-adds for each of 256 threads of a block.
    pub(crate) fn ceiling(&self, blocks: usize, output: DeviceSlice<'_, f32>) -> Result<()> {
        assert!(output.len() > 0);
        // SAFETY: at most one value is written.
        unsafe { self.functions.ceiling.launch(&self.gpu, Grid::of(blocks, 256), &Ceiling { output: output.into() }) }
    }
}
