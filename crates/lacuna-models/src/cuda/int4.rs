//! Weights of four bits in the GPU's memory, in the order in which its tensor cores take them (kernel/int4.cu tells it).

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use super::buffer::{Buffer, DeviceSlice};
use super::gpu::Gpu;
use crate::Result;
use crate::checkpoint::Tensor;
use crate::int4::{self, GROUP, Group};

/// Rows of a tile, and its weights of a row.
pub(crate) const TILE: usize = 64;
/// Bytes of a tile's values; those of its groups follow.
const VALUE_BYTES: usize = TILE * TILE / 2;
/// Bytes of a tile.
pub(crate) const TILE_BYTES: usize = VALUE_BYTES + TILE * TILE / GROUP;

/// Kernels widen weights to so much less than they are, and row scales are so much larger.
pub(super) const SMALLNESS: f32 = 1024.0;

/// Rows in int4, in tiles, each row with a row scale.
pub(crate) struct Int4Rows {
    bytes: Buffer<u8>,
    row_scales: Buffer<f32>,
}

/// Borrowed rows in int4.
#[derive(Clone, Copy)]
pub(crate) struct Int4Slice<'a> {
    /// All tiles that have one of the rows.
    pub(crate) tiles: DeviceSlice<'a, u8>,
    /// The first of the rows in its tile.
    pub(crate) first: usize,
    pub(crate) row_scales: DeviceSlice<'a, f32>,
}

impl Int4Rows {
    /// Rounds rows of tensors that lie one below the other, or takes them as they are stored: `order` has the rows to take, or zeros for none.
    pub(crate) fn load(gpu: &Arc<Gpu>, tensors: &[Tensor<'_>], order: &[Option<usize>]) -> Result<Self> {
        let width = tensors.first().map_or(0, Tensor::columns);
        let all: Vec<(&Tensor<'_>, usize)> =
            tensors.iter().flat_map(|tensor| (0..tensor.rows()).map(move |row| (tensor, row))).collect();
        let rows = Self::pack(gpu, order.len(), width, |index, row, groups| {
            let Some(index) = order[index] else {
                row.fill(0.0);
                return Ok(None);
            };
            let (tensor, index) = all[index];
            tensor.read(index * width, row)?;
            Ok(tensor.row_groups(index, groups))
        })?;
        tensors.iter().for_each(Tensor::release);
        Ok(rows)
    }

    /// Rounds rows of values.
    pub(crate) fn of(gpu: &Arc<Gpu>, width: usize, values: &[f32]) -> Result<Self> {
        Self::pack(gpu, values.len() / width, width, |index, row, _| {
            row.copy_from_slice(&values[index * width..][..width]);
            Ok(None)
        })
    }

    /// Packs rows that `read` gives, with the groups and the row scale of one that was rounded before.
    fn pack(
        gpu: &Arc<Gpu>,
        rows: usize,
        width: usize,
        read: impl Fn(usize, &mut [f32], &mut [Group]) -> Result<Option<f32>> + Sync,
    ) -> Result<Self> {
        let (mut bytes, mut row_scales) = (vec![0; rows.div_ceil(TILE) * band_bytes(width)], vec![0.0; rows]);
        let bands = bytes.par_chunks_mut(band_bytes(width).max(1)).zip(row_scales.par_chunks_mut(TILE));
        bands.enumerate().try_for_each_init(Scratch::default, |scratch, (band, (bytes, row_scales))| {
            for (index, row_scale) in row_scales.iter_mut().enumerate() {
                scratch.row.resize(width, 0.0);
                scratch.groups.resize(int4::groups(width), Group::default());
                let stored = read(band * TILE + index, &mut scratch.row, &mut scratch.groups)?;
                *row_scale = scratch.put(stored, index, bytes) * SMALLNESS;
            }
            Ok::<_, crate::Error>(())
        })?;
        Ok(Self { bytes: Buffer::of(gpu, &bytes)?, row_scales: Buffer::of(gpu, &row_scales)? })
    }

    /// Some rows of `width` weights.
    pub(crate) fn rows(&self, rows: Range<usize>, width: usize) -> Int4Slice<'_> {
        let (begin, end) = (rows.start / TILE, rows.end.div_ceil(TILE));
        let tiles = self.bytes.slice(begin * band_bytes(width)..end * band_bytes(width));
        Int4Slice { tiles, first: rows.start % TILE, row_scales: self.row_scales.slice(rows) }
    }
}

impl Int4Slice<'_> {
    /// True if there are `rows` rows of `width` weights.
    pub(crate) fn holds(self, rows: usize, width: usize) -> bool {
        let bands = (self.first + rows).div_ceil(TILE);
        bands * band_bytes(width) <= self.tiles.len() && rows <= self.row_scales.len()
    }
}

/// Bytes of the tiles of a row of `width` weights.
fn band_bytes(width: usize) -> usize {
    width.div_ceil(TILE) * TILE_BYTES
}

/// A row on its way into tiles.
#[derive(Default)]
struct Scratch {
    row: Vec<f32>,
    groups: Vec<Group>,
    values: Vec<u8>,
}

impl Scratch {
    /// Rounds the row, unless its groups were stored with their row scale, puts it into tiles as row `index`, and returns its row scale.
    fn put(&mut self, stored: Option<f32>, index: usize, tiles: &mut [u8]) -> f32 {
        let Self { row, groups, values } = self;
        let row_scale = stored.unwrap_or_else(|| int4::choose(row, groups));
        values.resize(row.len(), 0);
        int4::round(row, row_scale, groups, values);
        // Sixteen rows are a warp's; of these, threads take rows eight apart in the lower and the upper halves of bytes.
        let (warp, thread, half) = (index / 16, index % 8, index % 16 / 8 * 4);
        for (k, &value) in values.iter().enumerate() {
            let product = warp * 512 + (thread * 4 + k % 8 / 2) * 16 + k % TILE / 16 * 4;
            tiles[k / TILE * TILE_BYTES + product + k % 2 * 2 + k % 16 / 8] |= value << half;
        }
        for (k, group) in groups.iter().enumerate().map(|(index, group)| (index * GROUP, group)) {
            let at = k / TILE * TILE_BYTES + VALUE_BYTES + (warp * 8 + thread) * 4 + k % TILE / GROUP * 2;
            tiles[at] |= group.zero() << half;
            tiles[at + 1] |= (group.scale() - 1) << half;
        }
        row_scale
    }
}
