//! Attention, full or block-causal.
#![allow(unsafe_code, reason = "launches of kernels")]

use super::super::buffer::DeviceSlice;
use super::super::compile::{HOPPER, Variant};
use super::super::matrix::ElementSlice;
use super::super::staging::Indices;
use super::rows::Rows;
use super::structs::{Element, In, Out, c_structs, to_u32};
use super::table::{Grid, Kernels};
use crate::Result;

c_structs! {
    /// Query rows of a view.
    struct Tile {
        /// The first of the selected rows.
        first: u32,
        count: u32,
        /// Row of the first key, unless keys are cached.
        key_start: u32,
        /// Keys that the rows may see: tokens, and for shadows the shadows behind them.
        key_count: u32,
        /// Number of them that are tokens.
        tokens: u32,
        /// Length of the first block of block-causal attention, and of the others; 0 if rows see all keys.
        first_block: u32,
        block: u32,
        /// Index of the first key in `open`.
        open_start: u32,
        /// 1 if each row is blind to the key at its own position.
        shadow: u32,
        /// Positions of a layer of the cache.
        capacity: u32,
        /// Cached keys and values of a run, `[layer][position]`; null if the pass computes all of them.
        cached: In<Element>,
    }

    struct Attention {
        /// Of the selected rows.
        queries: In<Element>,
        /// Of all rows.
        keys: In<Element>,
        values: In<Element>,
        /// Of the selected rows; null if it is not wanted.
        output: Out<Element>,
        /// `[selected rows][heads]`: attention to unmasked keys; null if it is not wanted.
        mass: Out<f32>,
        tiles: In<Tile>,
        /// The selected rows; null for all.
        rows: In<u32>,
        /// Of all rows.
        positions: In<u32>,
        /// Of all keys: 1 where unmasked, else 0.
        open: In<f32>,
        query_stride: u32,
        key_stride: u32,
        output_stride: u32,
        layer: u32,
        heads: u32,
        key_value_heads: u32,
        /// 1 / sqrt(HEAD_SIZE).
        scale: f32,
    }
}

/// Keys that the bf16 kernel takes at a time.
const KEYS: usize = 64;

/// Launch geometry of the attention kernels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    /// Query rows of a tile at most.
    pub(crate) tile: usize,
    threads: usize,
    /// Bytes of shared memory of a block.
    pub(super) shared: usize,
}

impl Geometry {
    pub(crate) fn of(variant: Variant) -> Self {
        let head_size = variant.head_size;
        if variant.bf16 {
            let teams = match head_size {
                64 if variant.architecture == HOPPER => 4,
                128 if variant.architecture == HOPPER => 3,
                _ => 1,
            };
            // Queries, and of each team two stages of keys and one of values; rows lie an odd number of 16-byte pieces
            // apart, or stages begin at multiples of 1024 bytes, which takes less.
            let stages = 1 + 3 * teams;
            Self { tile: 64, threads: teams * 128, shared: stages * KEYS * ((2 * head_size.div_ceil(16)) | 1) * 16 }
        } else {
            Self { tile: 16, threads: 256, shared: (2 * 32 * (head_size + 1) + 8 * head_size) * 4 }
        }
    }
}

/// Operands of attention.
#[derive(Clone, Copy)]
pub(crate) struct Attend<'a> {
    pub(crate) heads: usize,
    pub(crate) key_value_heads: usize,
    /// Of the selected rows, and elements from one row to the next.
    pub(crate) queries: ElementSlice<'a>,
    pub(crate) query_stride: usize,
    /// Of all rows, and elements from one row to the next.
    pub(crate) keys: ElementSlice<'a>,
    pub(crate) values: ElementSlice<'a>,
    pub(crate) key_stride: usize,
    /// Mixed values of the selected rows, if wanted.
    pub(crate) output: Option<ElementSlice<'a>>,
    /// Attention to unmasked keys for each selected row and head, if wanted.
    pub(crate) mass: Option<DeviceSlice<'a, f32>>,
    pub(crate) tiles: DeviceSlice<'a, Tile>,
    pub(crate) rows: Rows<'a>,
    /// Of all rows.
    pub(crate) positions: Indices<'a>,
    /// 1 for each key that is unmasked, else 0.
    pub(crate) open: DeviceSlice<'a, f32>,
    pub(crate) layer: usize,
}

impl Kernels {
    /// Computes attention.
    ///
    /// # Safety
    /// The tiles lie within the selected rows, their keys within all rows and within `open`; what they say is cached belongs
    /// to a buffer that is alive and has `capacity` positions in layer `layer`.
    pub(crate) unsafe fn attention(&self, call: Attend<'_>) -> Result<()> {
        let head_size = self.variant.head_size;
        let output_stride = call.heads * head_size;
        let count = call.rows.count();
        assert!(count == 0 || (count - 1) * call.query_stride + output_stride <= call.queries.len());
        assert!(call.output.is_none_or(|output| count * output_stride <= output.len()));
        assert!(call.mass.is_none_or(|mass| count * call.heads <= mass.len()));
        assert!(call.rows.bound() <= call.positions.len());
        let argument = Attention {
            queries: call.queries.input(),
            keys: call.keys.input(),
            values: call.values.input(),
            output: call.output.map_or(Out::NULL, |output| output.output()),
            mass: call.mass.into(),
            tiles: call.tiles.into(),
            rows: call.rows.list(),
            positions: call.positions.list().into(),
            open: call.open.into(),
            query_stride: to_u32(call.query_stride),
            key_stride: to_u32(call.key_stride),
            output_stride: to_u32(output_stride),
            layer: to_u32(call.layer),
            heads: to_u32(call.heads),
            key_value_heads: to_u32(call.key_value_heads),
            scale: 1.0 / (head_size as f32).sqrt(),
        };
        let kernel = match call.mass {
            None => &self.functions.attention,
            Some(_) => &self.functions.attention_with_mass,
        };
        let Geometry { threads, shared, .. } = Geometry::of(self.variant);
        let grid = Grid { blocks: [call.tiles.len(), call.heads], threads, shared };
        // SAFETY: rows are where the assertions say; for tiles and keys the caller promises it.
        unsafe { kernel.launch(&self.gpu, grid, &argument) }
    }
}
