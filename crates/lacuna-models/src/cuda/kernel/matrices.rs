//! Whole attention matrices.
#![allow(unsafe_code, reason = "launches of kernels")]

use super::super::buffer::DeviceSlice;
use super::super::matrix::ElementSlice;
use super::structs::{Element, In, Out, c_structs, to_u32};
use super::table::{Grid, Kernels};
use crate::Result;

c_structs! {
    /// The matrix of a view in one layer: what its rows pay to all positions.
    struct MatrixTask {
        /// Index of its first entry.
        output: u64,
        /// The keys of the view's cache, if it attends to what is cached, else null; as in [`Tile`](super::Tile).
        cached: In<Element>,
        /// Positions that the cache has room for.
        capacity: u32,
        /// The view's first row, its rows, and its positions.
        start: u32,
        rows: u32,
        length: u32,
        /// Length of the first block of block-causal attention, and of the others; 0 if rows see all keys.
        first_block: u32,
        block: u32,
        /// 1 if it replaces what is there, 0 if it is added.
        first: u32,
        /// Factor of the sum over all heads.
        factor: f32,
    }

    struct Matrices {
        queries: In<Element>,
        keys: In<Element>,
        /// Of all rows.
        positions: In<u32>,
        tasks: In<MatrixTask>,
        output: Out<f32>,
        query_stride: u32,
        key_stride: u32,
        heads: u32,
        key_value_heads: u32,
        layer: u32,
        /// 1 / sqrt(HEAD_SIZE).
        scale: f32,
    }
}

/// Threads of a block.
const THREADS: usize = 256;
/// Shared memory that needs no permission.
const ALWAYS_ALLOWED: usize = 40 << 10;

/// Operands of attention matrices.
#[derive(Clone, Copy)]
pub(crate) struct MatricesCall<'a> {
    pub(crate) heads: usize,
    pub(crate) key_value_heads: usize,
    /// Of all rows, and elements from one row to the next.
    pub(crate) queries: ElementSlice<'a>,
    pub(crate) query_stride: usize,
    pub(crate) keys: ElementSlice<'a>,
    pub(crate) key_stride: usize,
    /// Of all rows.
    pub(crate) positions: DeviceSlice<'a, u32>,
    pub(crate) tasks: DeviceSlice<'a, MatrixTask>,
    pub(crate) output: DeviceSlice<'a, f32>,
    /// Positions of the longest view of a task.
    pub(crate) longest: usize,
    pub(crate) layer: usize,
}

impl Kernels {
    /// Adds the attention of a layer to the matrices that it was asked for.
    ///
    /// # Safety
    /// Each task names rows that there are queries and positions of, positions that there are keys of, at most `longest`, and entries that are inside the
    /// output.
    pub(crate) unsafe fn add_attention(&self, call: MatricesCall<'_>) -> Result<()> {
        let argument = Matrices {
            queries: call.queries.input(),
            keys: call.keys.input(),
            positions: call.positions.into(),
            tasks: call.tasks.into(),
            output: call.output.into(),
            query_stride: to_u32(call.query_stride),
            key_stride: to_u32(call.key_stride),
            heads: to_u32(call.heads),
            key_value_heads: to_u32(call.key_value_heads),
            layer: to_u32(call.layer),
            scale: 1.0 / (self.variant.head_size as f32).sqrt(),
        };
        let shared = 2 * call.longest * size_of::<f32>();
        if shared > ALWAYS_ALLOWED {
            self.functions.add_attention.allow_shared(shared)?;
        }
        let grid = Grid { blocks: [call.longest, call.tasks.len()], threads: THREADS, shared };
        // SAFETY: the caller's promise; shared memory holds two lines of the longest matrix.
        unsafe { self.functions.add_attention.launch(&self.gpu, grid, &argument) }
    }
}
