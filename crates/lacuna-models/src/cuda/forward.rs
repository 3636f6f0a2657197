//! The forward pass: all blocks but the last for all rows, the rest for the rows that are read.
#![allow(unsafe_code, reason = "launches of kernels")]

use std::sync::Arc;

use lacuna::{Observation, Token, View};

use super::activations::Activations;
use super::attention::{Shape, tiles};
use super::block::Computation;
use super::buffer::{Buffer, DeviceSlice};
use super::compile::Variant;
use super::gpu::Gpu;
use super::graphs::{Graphs, Pass};
use super::inputs::{Bounds, MatrixTasks, PassInputs, ScoreTasks};
use super::kernel::{CacheSlot, CollectCall, Kernels, Reading, Rows, Tile};
use super::kv_store::KvStore;
use super::product::Products;
use super::rope::Rope;
use super::staging::{Fetched, Indices, Landing};
use super::weights::Weights;
use crate::layout::{Layout, Selection};
use crate::weight::Sizes;
use crate::{Architecture, Precision, Result};

/// A model: weights, the buffers it computes in, the inputs of a pass, and recorded passes.
pub(crate) struct Forward {
    pub(crate) weights: Weights,
    pub(crate) shape: Shape,
    pub(crate) sizes: Sizes,
    pub(crate) kv_store: KvStore,
    activations: Activations,
    inputs: PassInputs,
    graphs: Graphs,
    rope: Rope,
    landing: Landing,
    /// All rows, in tiles.
    all: Selection,
    mask: Token,
    machine: Machine,
}

/// Kernels, and the products of cublasLt.
pub(crate) struct Machine {
    pub(crate) kernels: Kernels,
    pub(crate) products: Products,
}

/// Dependency scores and attention matrices on their way to the host.
pub(crate) struct PendingScores {
    scores: Fetched<f32>,
    matrices: Fetched<f32>,
}

/// Rows that products are computed for where `rows` are needed. The others cost nothing, since products work on whole tiles, and
/// fewer shapes occur.
pub(crate) fn padded(rows: usize) -> usize {
    rows.next_multiple_of(if rows <= 64 { 16 } else { 64 })
}

impl Forward {
    pub(crate) fn new(
        gpu: &Arc<Gpu>,
        kernels: Kernels,
        variant: Variant,
        architecture: &Architecture,
        mask: Token,
        weights: Weights,
        precision: Precision,
    ) -> Result<Self> {
        let shape = Shape::of(architecture, variant);
        let sizes = architecture.sizes();
        Ok(Self {
            weights,
            shape,
            sizes,
            kv_store: KvStore::new(gpu, precision, architecture.layers(), 2 * sizes.key),
            activations: Activations::new(gpu, architecture, precision)?,
            inputs: PassInputs::new(gpu)?,
            graphs: Graphs::default(),
            rope: Rope::new(gpu, shape.rotary, architecture.attention.rope_theta)?,
            landing: Landing::new(gpu)?,
            all: Selection::default(),
            mask,
            machine: Machine { kernels, products: Products::new(gpu, precision)? },
        })
    }

    pub(crate) fn kernels(&self) -> &Kernels {
        &self.machine.kernels
    }

    /// Number of experts that got rows, summed over layers and passes, if the model has experts.
    pub(crate) fn experts_used(&self) -> Option<&Buffer<u32>> {
        self.activations.routed.as_ref().map(|routed| &routed.used)
    }

    /// Dependency scores of the last pass.
    pub(crate) fn scores(&self) -> DeviceSlice<'_, f32> {
        self.activations.scores.all()
    }

    /// Launches everything that all rows need. If dependency scores or attention matrices are asked for, they are on their way to the
    /// host.
    pub(crate) fn launch(&mut self, layout: &Layout, views: &[View<'_>]) -> Result<Option<PendingScores>> {
        // If this fails, nothing can be read.
        self.inputs.clear();
        if layout.rows() == 0 {
            return Ok(None);
        }
        let mut mass_layers: Vec<usize> =
            views.iter().flat_map(|view| view.attention).map(|source| source.layer).collect();
        mass_layers.sort_unstable();
        mass_layers.dedup();
        let tasks = ScoreTasks::of(layout, views, &mass_layers);
        let cache_slots = self.kv_store.slots(layout)?;
        let layers = self.weights.blocks.len();
        let matrices = MatrixTasks::of(layout, views, &self.kv_store, self.shape.heads, layers)?;
        let pass = self.send_inputs(layout, mass_layers, cache_slots, &tasks, &matrices)?;
        let rows = pass.rows;
        self.compute(pass)?;
        if tasks.scores + matrices.entries == 0 {
            return Ok(None);
        }
        self.collect(rows)?;
        self.landing.begin(&[tasks.scores, matrices.entries].map(|count| count * size_of::<f32>()))?;
        Ok(Some(PendingScores {
            scores: self.landing.fetch(self.activations.scores.slice(0..tasks.scores))?,
            matrices: self.landing.fetch(self.activations.matrices.slice(0..matrices.entries))?,
        }))
    }

    /// Observations of the views, once their scores are here.
    pub(crate) fn observations(
        &self,
        layout: &Layout,
        views: &[View<'_>],
        scores: Option<PendingScores>,
    ) -> Vec<Observation> {
        let take = |list: fn(&PendingScores) -> &Fetched<f32>| -> &[f32] {
            scores.as_ref().map_or(&[], |pending| self.landing.get(list(pending)))
        };
        let (mut scores, mut entries) = (take(|pending| &pending.scores), take(|pending| &pending.matrices));
        fn next<'a>(found: &mut &'a [f32], count: usize) -> &'a [f32] {
            let (these, rest) = found.split_at(count);
            *found = rest;
            these
        }
        let mut show = |(index, view): (usize, &View<'_>)| {
            let (length, span) = (view.tokens.len(), layout.spans[index]);
            let size = span.tokens * span.length;
            let dependency = view.attention.iter().map(|_| next(&mut scores, length).to_vec()).collect();
            let matrix = next(&mut entries, if view.matrix.is_empty() { 0 } else { size }).to_vec();
            let all = next(&mut entries, if view.rollout { self.weights.blocks.len() * size } else { 0 });
            let rollout = if view.rollout { layout.rollout(index, all.chunks_exact(size.max(1))) } else { Vec::new() };
            Observation { dependency, matrix, rollout }
        };
        views.iter().enumerate().map(&mut show).collect()
    }

    /// Makes room for a pass, and sends its inputs.
    fn send_inputs(
        &mut self,
        layout: &Layout,
        mass_layers: Vec<usize>,
        cache_slots: Vec<CacheSlot>,
        scores: &ScoreTasks,
        matrices: &MatrixTasks,
    ) -> Result<Pass> {
        let rows = padded(layout.rows());
        self.all.select(layout, 0..layout.rows(), self.shape.tile);
        let mut tiles = tiles(layout, &self.all, &self.kv_store)?;
        tiles.resize(tiles.len().next_multiple_of(4), Tile::default());
        let longest = layout.spans.iter().map(|span| span.length).max().unwrap_or(0);
        self.rope.extend(longest)?;
        self.activations.reserve(rows, mass_layers.len() * self.shape.heads, scores.scores)?;
        self.activations.matrices.reserve(matrices.entries)?;
        let caches = !cache_slots.is_empty();
        let bounds = Bounds { rows, vocabulary: self.sizes.vocabulary, positions: self.rope.length() };
        self.inputs.send(layout, bounds, &tiles, cache_slots, scores, matrices)?;
        let (matrix_layers, longest_matrix) = (matrices.layers.clone(), matrices.longest);
        Ok(Pass { rows, tiles: tiles.len(), mass_layers, matrix_layers, longest_matrix, caches })
    }

    /// Computes all blocks but what the last one does for rows that are read.
    fn compute(&mut self, pass: Pass) -> Result<()> {
        let Self { graphs, weights, shape, sizes, activations, inputs, rope, machine, .. } = self;
        let gpu = machine.kernels.gpu().clone();
        let inputs = inputs.on_device()?;
        let mut buffers = activations.addresses();
        buffers.extend([rope.cosines.all(), rope.sines.all()].map(DeviceSlice::address));
        buffers.extend(machine.products.sums.addresses());
        let mut work = Computation { weights, shape: *shape, sizes: *sizes, activations, inputs, rope, machine };
        let again = pass.clone();
        // SAFETY: beside weights, which stay where they are, launches take addresses of these inputs and buffers; their sizes
        // follow from the shape of the pass. What the inputs hold, `send_inputs` has made for this layout.
        unsafe { graphs.run(&gpu, pass, inputs.addresses(), &buffers, || work.run(&again)) }
    }

    fn computation(&mut self) -> Result<Computation<'_>> {
        let Self { weights, shape, sizes, activations, inputs, rope, machine, .. } = self;
        let inputs = inputs.on_device()?;
        Ok(Computation { weights, shape: *shape, sizes: *sizes, activations, inputs, rope, machine })
    }

    /// The output of the last block for selected rows of the last pass, written to `output`.
    ///
    /// # Safety
    /// The tiles lie within `rows`, of which `present` are there, and their keys within those of the last pass; what they say is
    /// cached is.
    pub(crate) unsafe fn finish(
        &mut self,
        rows: Indices<'_>,
        present: DeviceSlice<'_, u32>,
        tiles: DeviceSlice<'_, Tile>,
        output: DeviceSlice<'_, f32>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.computation()?.finish(rows, present, tiles, output) }
    }

    /// The vocabulary projection of some rows of what [`finish`](Self::finish) gave, and what `reading` makes of it.
    ///
    /// # Safety
    /// As for [`Kernels::project`].
    pub(crate) unsafe fn project(
        &mut self,
        finished: DeviceSlice<'_, f32>,
        rows: Indices<'_>,
        reading: &Reading,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.computation()?.project(finished, Rows::Selected(rows), reading) }
    }

    /// Launches the dependency scores of a pass of `rows` rows.
    fn collect(&self, rows: usize) -> Result<()> {
        let inputs = self.inputs.on_device()?;
        let call = CollectCall {
            tasks: inputs.score_tasks,
            heads: inputs.heads,
            mass: self.activations.mass.all(),
            tokens: inputs.tokens,
            positions: inputs.positions,
            scores: self.activations.scores.all(),
            rows,
            all_heads: self.shape.heads,
            mask: self.mask,
        };
        // SAFETY: `ScoreTasks` names rows of the layout, layers whose mass was computed and scores that there is room for;
        // heads were checked with the views.
        unsafe { self.machine.kernels.collect(call) }
    }
}
