//! Inputs of a forward pass, sent to the GPU in one copy.

use std::ops::Range;
use std::sync::Arc;

use lacuna::View;

use super::buffer::DeviceSlice;
use super::gpu::Gpu;
use super::kernel::{CacheSlot, MatrixTask, ScoreTask, Tile, to_u32};
use super::kv_store::KvStore;
use super::staging::{Indices, Sent, SentIndices, Staging};
use crate::layout::Layout;
use crate::{Error, Result};

/// The inputs of the last pass.
pub(crate) struct PassInputs {
    staging: Staging,
    sent: Option<SentInputs>,
}

#[derive(Clone, Copy)]
struct SentInputs {
    tokens: SentIndices,
    positions: SentIndices,
    present: Sent<u32>,
    open: Sent<f32>,
    tiles: Sent<Tile>,
    cache_slots: Sent<CacheSlot>,
    matrix_tasks: Sent<MatrixTask>,
    score_tasks: Sent<ScoreTask>,
    heads: Sent<u32>,
}

/// The inputs of a pass on the GPU.
#[derive(Clone, Copy)]
pub(crate) struct DeviceInputs<'a> {
    /// Tokens of all rows, below the vocabulary size.
    pub(crate) tokens: Indices<'a>,
    /// Positions of all rows, below the length of the rotary table.
    pub(crate) positions: Indices<'a>,
    /// One number: how many of the rows are there; the others fill up.
    pub(crate) present: DeviceSlice<'a, u32>,
    /// 1 for each key that is unmasked, else 0.
    pub(crate) open: DeviceSlice<'a, f32>,
    /// Tiles of all rows.
    pub(crate) tiles: DeviceSlice<'a, Tile>,
    /// The KV cache slot of each row; empty if nothing is cached.
    pub(crate) cache_slots: DeviceSlice<'a, CacheSlot>,
    pub(crate) matrix_tasks: DeviceSlice<'a, MatrixTask>,
    pub(crate) score_tasks: DeviceSlice<'a, ScoreTask>,
    /// Heads that the tasks name.
    pub(crate) heads: DeviceSlice<'a, u32>,
}

impl DeviceInputs<'_> {
    /// Addresses that a recorded pass depends on.
    pub(crate) fn addresses(&self) -> [u64; 7] {
        [
            self.tokens.list().address(),
            self.positions.list().address(),
            self.present.address(),
            self.open.address(),
            self.tiles.address(),
            self.cache_slots.address(),
            self.matrix_tasks.address(),
        ]
    }
}

/// Upper bounds that the inputs are checked against.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    /// Rows, padded.
    pub(crate) rows: usize,
    pub(crate) vocabulary: usize,
    /// Positions of the rotary table.
    pub(crate) positions: usize,
}

impl PassInputs {
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Result<Self> {
        Ok(Self { staging: Staging::new(gpu)?, sent: None })
    }

    /// Sends the inputs of a pass. Lists of rows are padded: tokens and positions with 0, slots with none.
    pub(crate) fn send(
        &mut self,
        layout: &Layout,
        bounds: Bounds,
        tiles: &[Tile],
        mut cache_slots: Vec<CacheSlot>,
        scores: &ScoreTasks,
        matrices: &MatrixTasks,
    ) -> Result<()> {
        let Bounds { rows, vocabulary, positions } = bounds;
        let pad = |values: &mut dyn Iterator<Item = u32>| -> Vec<u32> {
            let mut values: Vec<u32> = values.collect();
            values.resize(rows, 0);
            values
        };
        let tokens = pad(&mut layout.tokens.iter().copied());
        let row_positions = pad(&mut layout.positions.iter().map(|&position| to_u32(position)));
        cache_slots.resize(if cache_slots.is_empty() { 0 } else { rows }, CacheSlot::default());
        self.sent = None;
        let mut batch = self.staging.begin()?;
        // The lists whose length depends on the shape of the pass alone come first. So a pass of the same shape finds them,
        // and `open` behind them, at the same addresses, and its recording can be launched again.
        let sent = SentInputs {
            tokens: batch.push_indices(&tokens, vocabulary)?,
            positions: batch.push_indices(&row_positions, positions)?,
            present: batch.push(&[to_u32(layout.rows())])?,
            tiles: batch.push(tiles)?,
            cache_slots: batch.push(&cache_slots)?,
            matrix_tasks: batch.push(&matrices.tasks)?,
            open: batch.push(&layout.open)?,
            score_tasks: batch.push(&scores.tasks)?,
            heads: batch.push(&scores.heads)?,
        };
        batch.send()?;
        self.sent = Some(sent);
        Ok(())
    }

    /// Forgets the inputs that were sent last.
    pub(crate) fn clear(&mut self) {
        self.sent = None;
    }

    /// The inputs that were sent last.
    pub(crate) fn on_device(&self) -> Result<DeviceInputs<'_>> {
        let none = || Error::Request("nothing was observed that could be read; observe again".to_string());
        let sent = self.sent.ok_or_else(none)?;
        Ok(DeviceInputs {
            tokens: self.staging.indices(sent.tokens),
            positions: self.staging.indices(sent.positions),
            present: self.staging.list(sent.present),
            open: self.staging.list(sent.open),
            tiles: self.staging.list(sent.tiles),
            cache_slots: self.staging.list(sent.cache_slots),
            matrix_tasks: self.staging.list(sent.matrix_tasks),
            score_tasks: self.staging.list(sent.score_tasks),
            heads: self.staging.list(sent.heads),
        })
    }
}

/// The dependency scores that all views ask for.
pub(crate) struct ScoreTasks {
    tasks: Vec<ScoreTask>,
    heads: Vec<u32>,
    /// Number of scores.
    pub(crate) scores: usize,
}

impl ScoreTasks {
    /// `layers` are the layers whose mass is kept, ascending.
    pub(crate) fn of(layout: &Layout, views: &[View<'_>], layers: &[usize]) -> Self {
        let mut all = Self { tasks: Vec::new(), heads: Vec::new(), scores: 0 };
        for (span, view) in layout.spans.iter().zip(views) {
            for source in view.attention {
                let layer = layers.binary_search(&source.layer).expect("every layer asked for is among them");
                all.tasks.push(ScoreTask {
                    layer: to_u32(layer),
                    heads: to_u32(all.heads.len()),
                    head_count: to_u32(source.heads.len()),
                    start: to_u32(span.start),
                    tokens: to_u32(span.tokens),
                    length: to_u32(span.canvas),
                    output: to_u32(all.scores),
                });
                all.heads.extend(source.heads.iter().map(|&head| to_u32(head)));
                all.scores += span.canvas;
            }
        }
        all
    }
}

/// The attention matrices that all views ask for, or that their rollout takes.
pub(crate) struct MatrixTasks {
    tasks: Vec<MatrixTask>,
    /// Layers, ascending, each with its tasks.
    pub(crate) layers: Vec<(usize, Range<usize>)>,
    /// Entries of all matrices.
    pub(crate) entries: usize,
    /// Positions of the longest canvas of them.
    pub(crate) longest: usize,
}

impl MatrixTasks {
    /// `heads` is the number of heads, whose mean a matrix is. A view's mean over layers comes first, then each of `all_layers` if its rollout
    /// is asked for.
    pub(crate) fn of(
        layout: &Layout,
        views: &[View<'_>],
        kv_store: &KvStore,
        heads: usize,
        all_layers: usize,
    ) -> Result<Self> {
        let mut all = Self { tasks: Vec::new(), layers: Vec::new(), entries: 0, longest: 0 };
        let mut asking = Vec::new();
        for (span, view) in layout.spans.iter().zip(views).filter(|(_, view)| !view.matrix.is_empty() || view.rollout) {
            let (cached, capacity) = kv_store.seen_by(span)?;
            let (first_block, block) = span.block_lengths();
            let task = MatrixTask {
                cached,
                capacity: to_u32(capacity),
                start: to_u32(span.start),
                rows: to_u32(span.tokens),
                length: to_u32(span.length),
                first_block: to_u32(first_block),
                block: to_u32(block),
                ..MatrixTask::default()
            };
            let (size, mean) = (span.tokens * span.length, all.entries);
            all.entries += if view.matrix.is_empty() { 0 } else { size };
            asking.push((view, task, mean, all.entries, size));
            all.entries += if view.rollout { all_layers * size } else { 0 };
            all.longest = all.longest.max(span.length);
        }
        for layer in 0..all_layers {
            let begin = all.tasks.len();
            for &(view, task, mean, rollout, size) in &asking {
                if view.matrix.contains(&layer) {
                    let first = u32::from(view.matrix.iter().min() == Some(&layer));
                    let factor = 1.0 / (heads * view.matrix.len()) as f32;
                    all.tasks.push(MatrixTask { output: mean as u64, first, factor, ..task });
                }
                if view.rollout {
                    let output = (rollout + layer * size) as u64;
                    all.tasks.push(MatrixTask { output, first: 1, factor: 1.0 / heads as f32, ..task });
                }
            }
            if begin < all.tasks.len() {
                all.layers.push((layer, begin..all.tasks.len()));
            }
        }
        Ok(all)
    }
}
