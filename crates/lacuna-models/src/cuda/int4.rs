//! Weights of four bits in the GPU's memory.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use super::buffer::{Buffer, DeviceSlice};
use super::gpu::Gpu;
use crate::Result;
use crate::checkpoint::Tensor;
use crate::int4::{self, GROUP, Group};

/// Weights of a block: their groups' bytes take as much as a group's values.
const BLOCK: usize = 16 * GROUP;
/// Bytes of a block.
const BLOCK_BYTES: usize = 16 + BLOCK / 2;
/// Weights that are rounded at a time.
const STRETCH: usize = 16 << 20;

/// Rows in int4, each of blocks and with a row_scale.
pub(crate) struct Int4Rows {
    bytes: Buffer<u8>,
    row_scales: Buffer<f32>,
}

/// Borrowed rows in int4.
#[derive(Clone, Copy)]
pub(crate) struct Int4Slice<'a> {
    pub(crate) bytes: DeviceSlice<'a, u8>,
    pub(crate) row_scales: DeviceSlice<'a, f32>,
}

impl Int4Rows {
    pub(crate) fn new(gpu: &Arc<Gpu>, rows: usize, width: usize) -> Result<Self> {
        Ok(Self { bytes: Buffer::new(gpu, rows * row_bytes(width))?, row_scales: Buffer::new(gpu, rows)? })
    }

    /// Rounds a tensor, or takes it as it is stored, and puts it at row `first`.
    pub(crate) fn load(&self, first: usize, tensor: &Tensor<'_>) -> Result<()> {
        let width = tensor.columns();
        let stretch = (STRETCH / width).max(1);
        for start in (0..tensor.rows()).step_by(stretch) {
            let rows = start..tensor.rows().min(start + stretch);
            let round = |scratch: &mut Scratch, row: usize| {
                tensor.read(row * width, scratch.row(width))?;
                Ok(scratch.pack(|groups| tensor.row_groups(row, groups)))
            };
            let packed: Vec<(Vec<u8>, f32)> =
                rows.into_par_iter().map_init(Scratch::default, round).collect::<Result<_>>()?;
            self.write(first + start, &packed)?;
        }
        tensor.release();
        Ok(())
    }

    /// Puts rows of values that are rounded here at row 0.
    pub(crate) fn of(gpu: &Arc<Gpu>, width: usize, values: &[f32]) -> Result<Self> {
        let rows = Self::new(gpu, values.len() / width, width)?;
        let mut scratch = Scratch::default();
        let mut pack = |row: &[f32]| {
            scratch.row(width).copy_from_slice(row);
            scratch.pack(|_| None)
        };
        let packed: Vec<(Vec<u8>, f32)> = values.chunks_exact(width).map(&mut pack).collect();
        rows.write(0, &packed)?;
        Ok(rows)
    }

    fn write(&self, first: usize, packed: &[(Vec<u8>, f32)]) -> Result<()> {
        let bytes: Vec<u8> = packed.iter().flat_map(|(bytes, _)| bytes).copied().collect();
        let row_scales: Vec<f32> = packed.iter().map(|(_, row_scale)| *row_scale).collect();
        self.bytes.write(first * bytes.len() / packed.len().max(1), &bytes)?;
        self.row_scales.write(first, &row_scales)
    }

    /// Some rows of `width` weights.
    pub(crate) fn rows(&self, rows: Range<usize>, width: usize) -> Int4Slice<'_> {
        let bytes = self.bytes.slice(rows.start * row_bytes(width)..rows.end * row_bytes(width));
        Int4Slice { bytes, row_scales: self.row_scales.slice(rows) }
    }
}

impl Int4Slice<'_> {
    /// True if there are `rows` rows of `width` weights.
    pub(crate) fn holds(self, rows: usize, width: usize) -> bool {
        rows * row_bytes(width) <= self.bytes.len() && rows <= self.row_scales.len()
    }
}

/// Bytes of a row.
fn row_bytes(width: usize) -> usize {
    width.div_ceil(BLOCK) * BLOCK_BYTES
}

/// A row on its way into blocks.
#[derive(Default)]
struct Scratch {
    row: Vec<f32>,
    groups: Vec<Group>,
    values: Vec<u8>,
}

impl Scratch {
    /// The place for a row of `width` weights.
    fn row(&mut self, width: usize) -> &mut [f32] {
        self.row.resize(width, 0.0);
        &mut self.row
    }

    /// Bytes of the row, and its row_scale; `stored` gives the groups and the row_scale of one that was rounded before.
    fn pack(&mut self, stored: impl Fn(&mut [Group]) -> Option<f32>) -> (Vec<u8>, f32) {
        let Self { row, groups, values } = self;
        groups.resize(int4::groups(row.len()), Group::default());
        let row_scale = stored(groups).unwrap_or_else(|| int4::choose(row, groups));
        values.clear();
        values.resize(groups.len() * GROUP, 0);
        int4::round(row, row_scale, groups, &mut values[..row.len()]);
        let mut bytes = vec![0; row_bytes(row.len())];
        let groups = groups.iter().zip(values.as_chunks::<GROUP>().0);
        for (index, (group, values)) in groups.enumerate() {
            let block = &mut bytes[index / 16 * BLOCK_BYTES..][..BLOCK_BYTES];
            // The GPU's threads take four groups in turn, and pairs of neighbouring values.
            block[index % 4 * 4 + index % 16 / 4] = group.byte();
            let target = &mut block[16 + index % 16 * GROUP / 2..][..GROUP / 2];
            int4::pack(values, target);
            target.chunks_exact_mut(4).for_each(|four| four.swap(1, 2));
        }
        (bytes, row_scale)
    }
}
