//! Shape of attention, and the tiles that its kernel takes.

use super::compile::Variant;
use super::kernel::{self, Geometry, to_u32};
use super::kv_store::KvStore;
use crate::layout::{Layout, Selection};
use crate::{Architecture, Result};

/// The sizes attention works with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) heads: usize,
    pub(crate) key_value_heads: usize,
    pub(crate) head_size: usize,
    /// Query rows of a tile at most.
    pub(crate) tile: usize,
}

impl Shape {
    pub(crate) fn of(architecture: &Architecture, variant: Variant) -> Self {
        Self {
            heads: architecture.attention.heads,
            key_value_heads: architecture.attention.key_value_heads,
            head_size: architecture.attention.head_size,
            tile: Geometry::of(variant).tile,
        }
    }
}

/// The tiles of a selection.
pub(crate) fn tiles(layout: &Layout, selection: &Selection, kv_store: &KvStore) -> Result<Vec<kernel::Tile>> {
    let tile = |tile: &crate::layout::Tile| -> Result<kernel::Tile> {
        let span = layout.spans[tile.view];
        Ok(kernel::Tile {
            first: to_u32(tile.first),
            count: to_u32(tile.count),
            key_start: to_u32(span.start),
            key_count: to_u32(if tile.shadow { span.keys() } else { span.length }),
            open_start: to_u32(span.key_start),
            shadow: u32::from(tile.shadow),
            cached: kv_store.seen_by(&span)?,
        })
    };
    selection.tiles.iter().map(tile).collect()
}
