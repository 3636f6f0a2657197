//! The forward pass: all blocks but the last for all rows, the rest for the rows that are asked for.

use lacuna::{AttentionSource, Observation, View};
use rayon::prelude::*;

use super::attention::{AttentionOutput, Shape, Want, tile_rows};
use super::experts::Routed;
use super::feed_forward::FeedForward;
use super::heads::{HeadRows, HeadTransform};
use super::kernel::{Lines, rms_norm};
use super::kv_store::KvStore;
use super::matrix::{Gated, Input};
use super::refresh::Refreshed;
use super::weights::{Block, Weights};
use crate::layout::{Layout, Selection};
use crate::rope::Rope;
use crate::weight::Sizes;
use crate::{Architecture, Precision};

/// A model with its weights, and the buffers it computes in. They grow when a forward pass needs more and are kept.
pub(crate) struct Forward {
    pub(crate) weights: Weights,
    pub(super) shape: Shape,
    pub(super) sizes: Sizes,
    pub(super) rope: Rope,
    /// The residual stream of all rows before the last block.
    hidden: Lines<f32>,
    /// Keys and values: of the last block, after a forward pass, and those of earlier passes.
    pub(crate) kv_store: KvStore,
    /// Layer outputs of rows in earlier forward passes.
    pub(crate) refreshed: Refreshed,
    /// All rows.
    all: Selection,
    /// The masked rows of views that ask for the last block's scores.
    pub(super) masked: Selection,
    pub(super) work: Work,
}

/// Buffers that every block overwrites.
pub(super) struct Work {
    pub(super) input: Input,
    query: Lines<f32>,
    pub(super) key_value: Lines<f32>,
    pub(super) attended: AttentionOutput,
    gated: Gated,
    routed: Routed,
}

impl Forward {
    pub(crate) fn new(architecture: &Architecture, weights: Weights, precision: Precision) -> Self {
        let shape = Shape::of(&architecture.attention);
        let work = Work {
            input: Input::new(),
            query: Lines::new(0),
            key_value: Lines::new(0),
            attended: AttentionOutput::new(shape),
            gated: Gated::default(),
            routed: Routed::default(),
        };
        Self {
            weights,
            shape,
            sizes: architecture.sizes(),
            rope: Rope::new(architecture.attention.rotary, architecture.attention.rope_theta),
            hidden: Lines::new(0),
            kv_store: KvStore::new(shape, precision.attention()),
            refreshed: Refreshed::new(KvStore::new(shape, precision.attention())),
            all: Selection::default(),
            masked: Selection::default(),
            work,
        }
    }

    /// Runs everything that all rows need, and tells the dependency scores asked for.
    pub(crate) fn observe(&mut self, layout: &Layout, views: &[View<'_>]) -> Vec<Observation> {
        let Self { weights, shape, sizes, rope, hidden, kv_store, all, masked, work, .. } = self;
        let size = shape.head_size;
        let scores = |view: &View<'_>| vec![vec![0.0; view.tokens.len()]; view.attention.len()];
        let squared = |view: &View<'_>| if view.matrix.is_empty() { 0 } else { view.tokens.len().pow(2) };
        let blank =
            |view| Observation { dependency: scores(view), matrix: vec![0.0; squared(view)], rollout: Vec::new() };
        let mut seen: Vec<Observation> = views.iter().map(blank).collect();
        let mut rollouts: Vec<Rollout> = Vec::new();

        rope.extend(layout.spans.iter().map(|span| span.length).max().unwrap_or(0));
        hidden.resize(layout.rows() * sizes.hidden);
        let embed = |(row, token): (&mut [f32], &u32)| weights.embedding.look_up(*token, row);
        hidden.par_chunks_exact_mut(sizes.hidden).zip(&layout.tokens).with_min_len(16).for_each(embed);

        all.select(layout, 0..layout.rows(), tile_rows());
        let last = weights.blocks.len() - 1;
        for (layer, block) in weights.blocks.iter().enumerate() {
            work.normalize(*sizes, block, hidden, None);
            work.key_value.resize(layout.rows() * block.key_value.matrix.n());
            let Work { input, query, key_value, .. } = work;
            let mut fill = || {
                block.key_value.apply_by_heads(input, key_value, size);
                let transform = HeadTransform { norm: block.key_norm.as_deref(), epsilon: sizes.epsilon, rope };
                kv_store.fill(layout, layer, transform, HeadRows::by_heads(key_value, layout.rows(), size));
            };
            if layer < last {
                query.resize(layout.rows() * block.query.matrix.n());
                // Together, so that no thread waits at the end of the one for the other to begin.
                rayon::join(fill, || block.query.apply_by_heads(input, query, size));
                work.finish(*sizes, block, layout, all, rope, kv_store, hidden);
                collect(&work.attended, layout, all, views, layer, &mut seen);
                record_rollout(work, layout, all, block.query_transform(*sizes, rope), kv_store, views, &mut rollouts);
                add_matrices(work, layout, all, block.query_transform(*sizes, rope), kv_store, views, layer, &mut seen);
                continue;
            }
            fill();
            if views.iter().any(|view| view.matrix.contains(&layer) || view.rollout) {
                work.project_queries(block);
                record_rollout(work, layout, all, block.query_transform(*sizes, rope), kv_store, views, &mut rollouts);
                add_matrices(work, layout, all, block.query_transform(*sizes, rope), kv_store, views, layer, &mut seen);
            }
            if views.iter().any(|view| observes(view, layer)) {
                masked.select(layout, masked_rows(layout, views, layer), tile_rows());
                work.normalize(*sizes, block, hidden, Some(masked));
                work.project_queries(block);
                let transform = block.query_transform(*sizes, rope);
                let queries = HeadRows::by_heads(&work.query, masked.len(), size);
                work.attended.compute(layout, masked, transform, queries, kv_store, Want::Mass);
                collect(&work.attended, layout, masked, views, layer, &mut seen);
            }
        }
        for rollout in &rollouts {
            seen[rollout.view].rollout = layout.rollout(rollout.view, rollout.layers.iter().map(Vec::as_slice));
        }
        seen
    }

    /// The attention that one row pays to every key of its view, the mean over `sources`. Only the blocks up to the last
    /// source are computed.
    pub(crate) fn attention(&mut self, layout: &Layout, row: usize, sources: &[AttentionSource]) -> Vec<f32> {
        let Self { weights, shape, sizes, rope, hidden, kv_store, all, masked: one, work, .. } = self;
        let size = shape.head_size;
        rope.extend(layout.spans.iter().map(|span| span.length).max().unwrap_or(0));
        hidden.resize(layout.rows() * sizes.hidden);
        for (row, &token) in hidden.chunks_exact_mut(sizes.hidden).zip(&layout.tokens) {
            weights.embedding.look_up(token, row);
        }
        all.select(layout, 0..layout.rows(), tile_rows());
        one.select(layout, std::iter::once(row), tile_rows());
        let last = sources.iter().map(|source| source.layer).max().unwrap_or(0);
        let mut mean = vec![0.0; layout.keys()];
        for (layer, block) in weights.blocks.iter().enumerate().take(last + 1) {
            work.normalize(*sizes, block, hidden, None);
            work.key_value.resize(layout.rows() * block.key_value.matrix.n());
            block.key_value.apply_by_heads(&work.input, &mut work.key_value, size);
            let transform = HeadTransform { norm: block.key_norm.as_deref(), epsilon: sizes.epsilon, rope };
            kv_store.fill(layout, layer, transform, HeadRows::by_heads(&work.key_value, layout.rows(), size));
            for source in sources.iter().filter(|source| source.layer == layer) {
                work.normalize(*sizes, block, hidden, Some(one));
                work.project_queries(block);
                let transform = block.query_transform(*sizes, rope);
                let paid = work.attended.weights(
                    layout,
                    one,
                    one.tiles[0].view,
                    transform,
                    work.queries(one),
                    kv_store,
                    &source.heads,
                );
                mean.iter_mut().zip(paid).for_each(|(mean, paid)| *mean += paid / sources.len() as f32);
            }
            if layer < last {
                work.normalize(*sizes, block, hidden, None);
                work.project_queries(block);
                work.finish(*sizes, block, layout, all, rope, kv_store, hidden);
            }
        }
        mean
    }

    /// The output of the last block for a selection of rows.
    pub(crate) fn finish(&mut self, layout: &Layout, selection: &Selection, output: &mut Lines<f32>) {
        let Self { weights, sizes, rope, hidden, kv_store, work, .. } = self;
        let block = weights.blocks.last().expect("a model has a block");
        output.resize(selection.len() * sizes.hidden);
        for (row, &source) in output.chunks_exact_mut(sizes.hidden).zip(&selection.rows) {
            row.copy_from_slice(&hidden[source * sizes.hidden..][..sizes.hidden]);
        }
        work.normalize(*sizes, block, output, None);
        work.project_queries(block);
        work.finish(*sizes, block, layout, selection, rope, kv_store, output);
    }

    /// The logits of some rows of what [`finish`](Self::finish) gave.
    pub(crate) fn project(&mut self, finished: &[f32], rows: &[usize], logits: &mut Lines<f32>) {
        let Self { weights, sizes, work, .. } = self;
        let Sizes { hidden, epsilon, .. } = *sizes;
        work.input.fill(&weights.head, rows.len(), |index, values| {
            rms_norm(&finished[rows[index] * hidden..][..hidden], &weights.final_norm, epsilon, values);
        });
        logits.resize(rows.len() * weights.head.n());
        weights.head.multiply(&work.input, logits, false);
    }

    /// Bytes that a forward pass over `rows` rows needs beyond the weights.
    pub(crate) fn buffer_bytes(&self, rows: usize) -> usize {
        let blocks = &self.weights.blocks;
        let Sizes { hidden, query, key, mlp, input, .. } = self.sizes;
        let format = blocks[0].query.matrix.activations();
        // The residual stream and rows being read; queries; keys and values; the gated rows of the feed-forward network.
        let widths = 2 * hidden + query + 2 * key + mlp;
        let experts = blocks.iter().find_map(|block| match &block.feed_forward {
            FeedForward::Dense(_) => None,
            FeedForward::Experts(experts) => Some(experts),
        });
        rows * widths * size_of::<f32>()
            + self.work.input.bytes(format, rows, input)
            + self.kv_store.pass_bytes(rows)
            + self.shape.attended_bytes(rows)
            + experts.map_or(0, |experts| Routed::bytes(experts, rows))
    }
}

impl Block {
    /// The transformation of query heads.
    fn query_transform<'a>(&'a self, sizes: Sizes, rope: &'a Rope) -> HeadTransform<'a> {
        HeadTransform { norm: self.query_norm.as_deref(), epsilon: sizes.epsilon, rope }
    }
}

impl Work {
    /// Normalizes rows on their way into a block: those of a selection, or all.
    pub(super) fn normalize(&mut self, sizes: Sizes, block: &Block, hidden: &[f32], selection: Option<&Selection>) {
        let width = sizes.hidden;
        let rows = selection.map_or(hidden.len() / width, Selection::len);
        self.input.fill(&block.query.matrix, rows, |index, values| {
            let row = selection.map_or(index, |selection| selection.rows[index]);
            rms_norm(&hidden[row * width..][..width], &block.attention_norm, sizes.epsilon, values);
        });
    }

    /// The queries of the rows that entered.
    pub(super) fn project_queries(&mut self, block: &Block) {
        self.query.resize(self.input.rows() * block.query.matrix.n());
        block.query.apply_by_heads(&self.input, &mut self.query, self.attended.shape.head_size);
    }

    /// The queries that were projected, those of a selection.
    fn queries(&self, selection: &Selection) -> HeadRows<'_> {
        HeadRows::by_heads(&self.query, selection.len(), self.attended.shape.head_size)
    }

    /// Everything after queries, keys and values: `hidden`, the rows of the selection, becomes the block's output.
    #[allow(clippy::too_many_arguments, reason = "the parts of one forward pass, borrowed apart")]
    fn finish(
        &mut self,
        sizes: Sizes,
        block: &Block,
        layout: &Layout,
        selection: &Selection,
        rope: &Rope,
        kv_store: &KvStore,
        hidden: &mut [f32],
    ) {
        let width = sizes.hidden;
        self.attend(sizes, block, layout, selection, rope, kv_store);
        block.output.add(&self.input, hidden);
        let source = &*hidden;
        self.feed_forward(sizes, block, selection.len(), |row, values| {
            rms_norm(&source[row * width..][..width], &block.feed_forward_norm, sizes.epsilon, values);
        });
        self.add_feed_forward(block, hidden);
    }

    /// Attention of the rows of a selection, whose queries were asked for, on its way into the output product.
    pub(super) fn attend(
        &mut self,
        sizes: Sizes,
        block: &Block,
        layout: &Layout,
        selection: &Selection,
        rope: &Rope,
        kv_store: &KvStore,
    ) {
        let Self { input, query, attended, .. } = self;
        let queries = HeadRows::by_heads(query, selection.len(), attended.shape.head_size);
        attended.compute(layout, selection, block.query_transform(sizes, rope), queries, kv_store, Want::All);
        let write = |index: usize, values: &mut [f32]| attended.write_row(selection, index, values);
        input.fill(&block.output.matrix, selection.len(), write);
    }

    /// The feed-forward network of `rows` rows that `write(row, values)` writes, all but its last product.
    pub(super) fn feed_forward(
        &mut self,
        sizes: Sizes,
        block: &Block,
        rows: usize,
        write: impl Fn(usize, &mut [f32]) + Sync,
    ) {
        let Self { input, gated, routed, .. } = self;
        match &block.feed_forward {
            FeedForward::Dense(network) => network.gate(input, gated, rows, write),
            FeedForward::Experts(_) => {
                routed.rows.resize(rows * sizes.hidden);
                let lines = routed.rows.par_chunks_exact_mut(sizes.hidden).enumerate().with_min_len(16);
                lines.for_each(|(row, values)| write(row, values));
            }
        }
    }

    /// Adds what the feed-forward network makes of the rows that were fed.
    pub(super) fn add_feed_forward(&mut self, block: &Block, output: &mut [f32]) {
        let Self { input, gated, routed, .. } = self;
        match &block.feed_forward {
            FeedForward::Dense(network) => network.down.multiply(&gated.input, output, true),
            FeedForward::Experts(experts) => experts.apply(input, gated, routed, output),
        }
    }
}

/// The attention of a view's rows in each layer, the mean over its heads.
struct Rollout {
    view: usize,
    layers: Vec<Vec<f32>>,
}

/// Keeps a layer's attention for the views whose rollout is asked for.
fn record_rollout(
    work: &Work,
    layout: &Layout,
    all: &Selection,
    transform: HeadTransform<'_>,
    kv_store: &KvStore,
    views: &[View<'_>],
    rollouts: &mut Vec<Rollout>,
) {
    for view in (0..views.len()).filter(|&view| views[view].rollout) {
        let paid = work.attended.weights(layout, all, view, transform, work.queries(all), kv_store, &[]);
        match rollouts.iter_mut().find(|rollout| rollout.view == view) {
            Some(rollout) => rollout.layers.push(paid),
            None => rollouts.push(Rollout { view, layers: vec![paid] }),
        }
    }
}

fn observes(view: &View<'_>, layer: usize) -> bool {
    view.attention.iter().any(|source| source.layer == layer)
}

/// The masked rows, without shadows, of the views that ask for a layer's scores.
fn masked_rows(layout: &Layout, views: &[View<'_>], layer: usize) -> impl Iterator<Item = usize> {
    let asking = layout.spans.iter().zip(views).filter(move |(_, view)| observes(view, layer));
    let rows = asking.flat_map(|(span, _)| span.start..span.start + span.tokens);
    rows.filter(|&row| layout.is_masked(row))
}

/// Adds a layer's attention to the matrices that it was asked for.
#[allow(clippy::too_many_arguments, reason = "the parts of one forward pass, borrowed apart")]
fn add_matrices(
    work: &Work,
    layout: &Layout,
    all: &Selection,
    transform: HeadTransform<'_>,
    kv_store: &KvStore,
    views: &[View<'_>],
    layer: usize,
    seen: &mut [Observation],
) {
    for (index, (view, seen)) in views.iter().zip(seen).enumerate() {
        if view.matrix.contains(&layer) {
            let paid = work.attended.weights(layout, all, index, transform, work.queries(all), kv_store, &[]);
            let layers = view.matrix.len() as f32;
            seen.matrix.iter_mut().zip(paid).for_each(|(mean, paid)| *mean += paid / layers);
        }
    }
}

/// Puts a layer's mass where it was asked for.
pub(super) fn collect(
    attended: &AttentionOutput,
    layout: &Layout,
    selection: &Selection,
    views: &[View<'_>],
    layer: usize,
    seen: &mut [Observation],
) {
    for (index, tile) in selection.tiles.iter().enumerate().filter(|(_, tile)| !tile.shadow) {
        let wanted = views[tile.view].attention.iter().zip(&mut seen[tile.view].dependency);
        for (source, scores) in wanted.filter(|(source, _)| source.layer == layer) {
            for in_tile in 0..tile.count {
                let row = selection.rows[tile.first + in_tile];
                if layout.is_masked(row) {
                    scores[layout.positions[row]] = attended.mass(index, in_tile, &source.heads);
                }
            }
        }
    }
}
