//! Mixtures of experts: their weights, and the buffers that they compute in.

use std::sync::Arc;

use super::buffer::{Buffer, DeviceSlice};
use super::gpu::Gpu;
use super::kernel::{ExpertTile, ExpertsCall, Slots, arrivals, most_tiles};
use super::matrix::{Elements, Matrix, element_size};
use crate::{Architecture, Precision, Result, architecture};

/// The experts of a layer; the shared one is the last if it is as wide as they are. Their matrices lie one below the other.
pub(crate) struct Experts {
    pub(crate) description: architecture::Experts,
    /// `[expert][hidden size]`, in f32: an expert chosen otherwise is another answer.
    pub(crate) router: Buffer<f32>,
    pub(crate) router_bias: Option<Buffer<f32>>,
    /// `[expert][gates, then values][hidden size]`.
    pub(crate) gate_up: Matrix,
    /// `[expert][hidden size][inner width]`.
    pub(crate) down: Matrix,
}

/// Buffers of the experts. They grow when a pass needs more, and never shrink.
pub(crate) struct Routed {
    /// Of each layer that has some.
    layers: Vec<architecture::Experts>,
    hidden: usize,
    /// Blocks of the router that have arrived: zero before and after each launch.
    arrived: Buffer<u32>,
    scores: Buffer<f32>,
    chosen: Buffer<u32>,
    weights: Buffer<f32>,
    order: Buffer<u32>,
    tiles: Buffer<ExpertTile>,
    /// One number.
    tile_count: Buffer<u32>,
    /// One number: experts that got rows, of all layers and passes since it was set to zero.
    pub(crate) used: Buffer<u32>,
    inner: Elements,
    outputs: Buffer<f32>,
}

/// The rows of a pass that go through experts.
#[derive(Clone, Copy)]
pub(crate) struct RoutedRows<'a> {
    /// Rows, padded.
    pub(crate) count: usize,
    /// One number: how many of them are there.
    pub(crate) present: DeviceSlice<'a, u32>,
    /// The residual stream.
    pub(crate) hidden: DeviceSlice<'a, f32>,
}

impl Routed {
    /// None for a model without experts.
    pub(crate) fn new(gpu: &Arc<Gpu>, architecture: &Architecture, precision: Precision) -> Result<Option<Self>> {
        let layers = layers(architecture);
        if layers.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self {
            layers,
            hidden: architecture.hidden,
            arrived: Buffer::new(gpu, 0)?,
            scores: Buffer::new(gpu, 0)?,
            chosen: Buffer::new(gpu, 0)?,
            weights: Buffer::new(gpu, 0)?,
            order: Buffer::new(gpu, 0)?,
            tiles: Buffer::new(gpu, 0)?,
            tile_count: Buffer::new(gpu, 1)?,
            used: Buffer::new(gpu, 1)?,
            inner: Elements::new(gpu, precision, 0)?,
            outputs: Buffer::new(gpu, 0)?,
        }))
    }

    /// Makes room for `rows` rows.
    pub(crate) fn reserve(&mut self, rows: usize) -> Result<()> {
        let most = |size: fn(&architecture::Experts) -> usize| rows * self.layers.iter().map(size).max().unwrap_or(0);
        let assigned = most(|experts| Slots::of(experts).of_a_row);
        self.arrived.reserve(arrivals(rows))?;
        self.scores.reserve(most(|experts| experts.count))?;
        self.chosen.reserve(assigned)?;
        self.weights.reserve(assigned)?;
        self.order.reserve(assigned)?;
        self.tiles.reserve(self.layers.iter().map(|experts| most_tiles(experts, rows)).max().unwrap_or(0))?;
        self.inner.reserve(most(|experts| Slots::of(experts).of_a_row * experts.width))?;
        self.outputs.reserve(assigned * self.hidden)
    }

    /// Addresses of all buffers.
    pub(crate) fn addresses(&self) -> [u64; 8] {
        [
            self.arrived.all().address(),
            self.scores.all().address(),
            self.chosen.all().address(),
            self.weights.all().address(),
            self.order.all().address(),
            self.tiles.all().address(),
            self.inner.all().address(),
            self.outputs.all().address(),
        ]
    }

    /// Bytes that a row takes.
    pub(crate) fn row_bytes(architecture: &Architecture, precision: Precision) -> usize {
        let bytes = |experts: architecture::Experts| {
            let each = 4 * (3 + architecture.hidden) + experts.width * element_size(precision);
            Slots::of(&experts).of_a_row * each + 4 * experts.count
        };
        layers(architecture).into_iter().map(bytes).max().unwrap_or(0)
    }

    /// The call of a layer's experts for rows that enter as `input`.
    pub(crate) fn call<'a>(
        &'a self,
        experts: &'a Experts,
        rows: RoutedRows<'a>,
        input: &'a Elements,
    ) -> ExpertsCall<'a> {
        ExpertsCall {
            experts: &experts.description,
            rows: rows.count,
            width: self.hidden,
            present: rows.present,
            input: input.all(),
            hidden: rows.hidden,
            router: experts.router.all(),
            bias: experts.router_bias.as_ref().map(Buffer::all),
            gate_up: experts.gate_up.all().rows,
            down: experts.down.all().rows,
            arrived: self.arrived.all(),
            scores: self.scores.all(),
            chosen: self.chosen.all(),
            weights: self.weights.all(),
            order: self.order.all(),
            tiles: self.tiles.all(),
            tile_count: self.tile_count.all(),
            used: self.used.all(),
            inner: self.inner.all(),
            outputs: self.outputs.all(),
        }
    }
}

fn layers(architecture: &Architecture) -> Vec<architecture::Experts> {
    let experts = |layer: &architecture::FeedForward| match layer {
        architecture::FeedForward::Dense { .. } => None,
        architecture::FeedForward::Experts(experts) => Some(*experts),
    };
    architecture.feed_forward.iter().filter_map(experts).collect()
}
