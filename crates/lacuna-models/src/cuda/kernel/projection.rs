//! The vocabulary projection, and beliefs from its tiles.
#![allow(unsafe_code, reason = "launches of kernels")]

use super::super::matrix::ElementSlice;
use super::belief::{Reading, STRETCH};
use super::structs::{Element, In, c_structs, to_u32};
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
        /// `[token][k]`.
        weights: In<Element>,
        reading: Reading,
        k: u32,
    }
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
        weights: ElementSlice<'_>,
        k: usize,
        reading: &Reading,
    ) -> Result<()> {
        let (rows, vocabulary) = (reading.rows as usize, reading.vocabulary as usize);
        assert!(rows * k <= input.len() && vocabulary * k <= weights.len());
        let argument = Projection { input: input.input(), weights: weights.input(), reading: *reading, k: to_u32(k) };
        let grid = Grid {
            blocks: [rows.div_ceil(TILE), reading.stretches as usize],
            threads: THREADS,
            shared: shared(self.variant.bf16),
        };
        // SAFETY: both factors are as large as said; the rest is the caller's promise.
        unsafe { self.functions.project.launch(&self.gpu, grid, &argument) }
    }
}
