//! The vocabulary projection, and beliefs from its tiles.
#![allow(unsafe_code, reason = "launches of kernels")]

use super::super::int8::Int8Slice;
use super::super::matrix::ElementSlice;
use super::belief::{Reading, STRETCH};
use super::structs::{Element, In, Untyped, c_structs, to_u32};
use super::table::{Grid, Kernels};
use crate::Result;

/// Rows of a tile.
pub(super) const TILE: usize = 64;

/// Threads of a block.
const THREADS: usize = 256;

c_structs! {
    struct Projection {
        /// `[row][k]`.
        input: In<Element>,
        /// `[token][k]`, or tiles of int8.
        weights: In<Untyped>,
        /// Scale of each token in int8.
        row_scales: In<f32>,
        reading: Reading,
        k: u32,
    }
}

/// The weights of the vocabulary projection, a row for each token.
#[derive(Clone, Copy)]
pub(crate) enum TokenWeights<'a> {
    Elements(ElementSlice<'a>),
    Int8(Int8Slice<'a>),
}

/// Bytes of shared memory of a block.
pub(super) fn shared(bf16: bool) -> usize {
    if bf16 {
        // Four stages of slices of 64 columns of both factors, which begin at a multiple of 1024 bytes.
        4 * (STRETCH + TILE) * 64 * 2 + 1024
    } else {
        // The logits.
        TILE * (STRETCH + 5) * 4
    }
}

impl Kernels {
    /// Projects the rows of a reading onto the vocabulary, and sums up each stretch of their logits.
    ///
    /// # Safety
    /// `reading` has as many specs, draws and parts as rows, and an outcome for each row that is wanted. What its specs name
    /// is there: logits and history with room for the vocabulary, tokens in the list, guides among the rows, reads.
    pub(crate) unsafe fn project(
        &self,
        input: ElementSlice<'_>,
        weights: TokenWeights<'_>,
        k: usize,
        reading: &Reading,
    ) -> Result<()> {
        let (rows, vocabulary) = (reading.rows as usize, reading.vocabulary as usize);
        assert!(rows * k <= input.len());
        let (kernel, weights, row_scales) = match weights {
            TokenWeights::Elements(elements) => {
                assert!(vocabulary * k <= elements.len());
                (&self.functions.project, elements.address(), In::NULL)
            }
            TokenWeights::Int8(int8) => {
                assert!(int8.holds(vocabulary, k));
                (&self.functions.project_int8, int8.tiles.address(), int8.row_scales.into())
            }
        };
        let weights = In::at(weights);
        let argument = Projection { input: input.input(), weights, row_scales, reading: *reading, k: to_u32(k) };
        let grid = Grid {
            blocks: [rows.div_ceil(TILE), reading.stretches as usize],
            threads: THREADS,
            shared: shared(self.variant.bf16),
        };
        // SAFETY: both factors are as large as said; the rest is the caller's promise.
        unsafe { kernel.launch(&self.gpu, grid, &argument) }
    }
}
