//! Shape of attention, and the tiles that its kernel takes.

use super::compile::Variant;
use super::kernel::{self, Geometry, to_u32};
use super::kv_store::KvStore;
use crate::layout::{Layout, Selection};
use crate::{Architecture, Attention, Result};

/// The sizes attention works with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) heads: usize,
    pub(crate) key_value_heads: usize,
    /// Leading values of a head that the rotary embedding turns.
    pub(crate) rotary: usize,
    /// Query rows of a tile at most.
    pub(crate) tile: usize,
}

impl Shape {
    pub(crate) fn of(architecture: &Architecture, variant: Variant) -> Self {
        let Attention { heads, key_value_heads, rotary, .. } = architecture.attention;
        Self { heads, key_value_heads, rotary, tile: Geometry::of(variant).tile }
    }
}

/// The tiles of a selection.
pub(crate) fn tiles(layout: &Layout, selection: &Selection, kv_store: &KvStore) -> Result<Vec<kernel::Tile>> {
    let tile = |tile: &crate::layout::Tile| -> Result<kernel::Tile> {
        let span = layout.spans[tile.view];
        let (cached, capacity) = kv_store.seen_by(&span)?;
        let (first_block, block) = span.block_lengths();
        Ok(kernel::Tile {
            first: to_u32(tile.first),
            count: to_u32(tile.count),
            key_start: to_u32(span.start),
            key_count: to_u32(if tile.shadow { span.keys() } else { span.length }),
            tokens: to_u32(span.length),
            first_block: to_u32(first_block),
            block: to_u32(block),
            open_start: to_u32(span.key_start),
            shadow: u32::from(tile.shadow),
            capacity: to_u32(capacity),
            cached,
        })
    };
    selection.tiles.iter().map(tile).collect()
}
