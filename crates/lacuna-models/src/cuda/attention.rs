//! Bidirectional attention: which rows see which keys, in tiles as the kernel takes them.

use super::forward::Machine;
use super::kept::Kept;
use super::kernel;
use crate::layout::{Layout, Selection};
use crate::{Architecture, Precision, Result};

/// The sizes attention works with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) heads: usize,
    pub(crate) key_value_heads: usize,
    pub(crate) head_size: usize,
    precision: Precision,
}

/// What attention looks at, and where what it gives goes.
#[derive(Clone, Copy)]
pub(crate) struct Operands {
    /// The queries of the selected rows, and from one row to the next.
    pub(crate) queries: (u64, usize),
    /// Keys and values of all rows, and from one row to the next.
    pub(crate) keys: u64,
    pub(crate) values: u64,
    pub(crate) key_stride: usize,
    /// The mixed values of the selected rows; 0 if they are not wanted.
    pub(crate) output: u64,
    /// The mass on unmasked keys for each selected row and head; 0 if it is not wanted.
    pub(crate) mass: u64,
    /// The tiles, and how many.
    pub(crate) tiles: (u64, usize),
    /// The selected rows; 0 if all are.
    pub(crate) rows: u64,
    pub(crate) positions: u64,
    pub(crate) open: u64,
    pub(crate) layer: usize,
}

/// Keys that the kernel takes at a time.
const KEYS: usize = 64;

impl Shape {
    pub(crate) fn of(architecture: &Architecture, precision: Precision) -> Self {
        Self {
            heads: architecture.attention.heads,
            key_value_heads: architecture.attention.key_value_heads,
            head_size: architecture.attention.head_size,
            precision,
        }
    }

    /// Query rows of a tile.
    pub(crate) fn tile(&self) -> usize {
        match self.precision {
            Precision::F32 => 16,
            _ => 64,
        }
    }

    /// Threads of a block.
    fn threads(&self) -> usize {
        match self.precision {
            Precision::F32 => 256,
            _ => 128,
        }
    }

    /// Bytes of shared memory that a block needs.
    pub(crate) fn shared(&self) -> usize {
        match self.precision {
            Precision::F32 => (2 * 32 * (self.head_size + 1) + 8 * self.head_size) * 4,
            // Queries, two stages of keys, and values; rows lie an odd number of 16-byte pieces apart.
            _ => 4 * KEYS * ((2 * self.head_size.div_ceil(16)) | 1) * 16,
        }
    }

    /// The tiles of a selection.
    pub(crate) fn tiles(&self, layout: &Layout, selection: &Selection, kept: &Kept) -> Vec<kernel::Tile> {
        let tile = |tile: &crate::layout::Tile| {
            let span = layout.spans[tile.view];
            kernel::Tile {
                first: tile.first as u32,
                count: tile.count as u32,
                key_start: span.start as u32,
                key_count: if tile.shadow { span.keys() } else { span.length } as u32,
                open_start: span.key_start as u32,
                shadow: u32::from(tile.shadow),
                kept: kept.seen_by(&span),
            }
        };
        selection.tiles.iter().map(tile).collect()
    }

    /// Computes attention.
    pub(crate) fn attend(&self, machine: &Machine, operands: Operands) -> Result<()> {
        let Operands { queries, keys, values, key_stride, output, mass, tiles, rows, positions, open, layer } =
            operands;
        let arguments = kernel::Attention {
            queries: queries.0,
            keys,
            values,
            output,
            mass,
            tiles: tiles.0,
            rows,
            positions,
            open,
            query_stride: queries.1 as u32,
            key_stride: key_stride as u32,
            output_stride: (self.heads * self.head_size) as u32,
            layer: layer as u32,
            heads: self.heads as u32,
            key_value_heads: self.key_value_heads as u32,
            scale: 1.0 / (self.head_size as f32).sqrt(),
        };
        let kernels = &machine.kernels;
        let kernel = if mass == kernel::NONE { &kernels.attention } else { &kernels.attention_with_mass };
        machine.gpu.launch(kernel, [tiles.1, self.heads], self.threads(), self.shared(), &arguments)
    }
}
