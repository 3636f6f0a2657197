//! Weights of eight bits in the GPU's memory, in the order in which its tensor cores take them (kernel/projection.cu tells it).

use std::sync::Arc;

use rayon::prelude::*;

use super::buffer::{Buffer, DeviceSlice};
use super::gpu::Gpu;
use super::int4::SMALLNESS;
use crate::Result;
use crate::int8::Rows;

/// Rows of a tile, and its weights of a row.
const TILE: usize = 64;
/// Bytes of a tile.
const TILE_BYTES: usize = TILE * TILE;
/// There are tiles for a multiple of so many rows.
const STRETCH: usize = super::kernel::STRETCH;
/// The byte of a weight that is zero.
const ZERO: u8 = 128;

/// Rows in int8, in tiles, each row with a row scale.
pub(crate) struct Int8Rows {
    bytes: Buffer<u8>,
    row_scales: Buffer<f32>,
}

/// Borrowed rows in int8.
#[derive(Clone, Copy)]
pub(crate) struct Int8Slice<'a> {
    pub(crate) tiles: DeviceSlice<'a, u8>,
    pub(crate) row_scales: DeviceSlice<'a, f32>,
}

impl Int8Rows {
    pub(crate) fn new(gpu: &Arc<Gpu>, rows: &Rows) -> Result<Self> {
        let width = rows.columns();
        let mut bytes = vec![ZERO; tile_bytes(rows.scales.len(), width)];
        let bands =
            bytes.par_chunks_exact_mut(width.div_ceil(TILE) * TILE_BYTES).zip(rows.values.par_chunks(TILE * width));
        bands.for_each(|(band, values)| {
            for (index, row) in values.chunks_exact(width).enumerate() {
                let (thread, word) = (index / 16 * 32 + index % 8 * 4, index % 16 / 8);
                for (k, &value) in row.iter().enumerate() {
                    let half = k / TILE * TILE_BYTES + k % TILE / 32 * (TILE_BYTES / 2);
                    let at = (thread + k % 8 / 2) * 16 + (k % 32 / 16 * 2 + word) * 4 + k % 2 * 2 + k % 16 / 8;
                    band[half + at] = (value as u8).wrapping_add(ZERO);
                }
            }
        });
        let row_scales: Vec<f32> = rows.scales.iter().map(|scale| scale * SMALLNESS).collect();
        Ok(Self { bytes: Buffer::of(gpu, &bytes)?, row_scales: Buffer::of(gpu, &row_scales)? })
    }

    /// All rows.
    pub(crate) fn all(&self) -> Int8Slice<'_> {
        Int8Slice { tiles: self.bytes.all(), row_scales: self.row_scales.all() }
    }
}

impl Int8Slice<'_> {
    /// True if there are `rows` rows of `width` weights.
    pub(crate) fn holds(self, rows: usize, width: usize) -> bool {
        tile_bytes(rows, width) <= self.tiles.len() && rows <= self.row_scales.len()
    }
}

/// Bytes of the tiles of `rows` rows of `width` weights.
fn tile_bytes(rows: usize, width: usize) -> usize {
    rows.next_multiple_of(STRETCH) / TILE * width.div_ceil(TILE) * TILE_BYTES
}
