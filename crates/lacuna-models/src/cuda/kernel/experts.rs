//! Mixtures of experts: routing, rows grouped by expert, and the experts' products.
#![allow(unsafe_code, reason = "launches of kernels")]

use super::super::buffer::DeviceSlice;
use super::super::matrix::ElementSlice;
use super::belief::STRETCH;
use super::projection;
use super::structs::{Element, In, Out, Untyped, c_structs, to_u32};
use super::table::{Grid, Kernels};
use crate::Result;
use crate::architecture::{Experts, RouterBias, Score};

/// Rows of an expert in a tile at most.
pub(super) const ROWS: usize = projection::TILE;
/// Rows that a warp of the router takes.
pub(super) const ROUTED_ROWS: usize = 4;
/// Experts that a block of the router takes, each with a warp.
const ROUTED_EXPERTS: usize = 8;
/// Threads of the block that groups rows.
const GROUPERS: usize = 512;
/// Threads of a block of the experts' products.
const THREADS: usize = 256;

c_structs! {
    /// Rows of an expert that are computed together.
    struct ExpertTile {
        expert: u32,
        /// The first, in the order by expert, and how many.
        first: u32,
        count: u32,
    }

    struct Routing {
        /// `[row][width]`.
        input: In<Element>,
        /// `[expert][width]`.
        router: In<f32>,
        /// `[row][expert]`.
        scores: Out<f32>,
        /// Number of rows in use; the others are padding.
        present: In<u32>,
        width: u32,
        experts: u32,
    }

    struct Choice {
        scores: In<f32>,
        /// Of each expert; null if there is none.
        bias: In<f32>,
        present: In<u32>,
        /// `[row][slot]`: its experts, ascending, and their weights; in the last slot the shared one, if there is one among them.
        chosen: Out<u32>,
        weights: Out<f32>,
        experts: u32,
        active: u32,
        slots: u32,
        /// Groups of experts, and how many of them may be chosen from; 0 if there are none.
        groups: u32,
        kept: u32,
        /// 1 for softmax, 0 for sigmoid.
        softmax: u32,
        /// 1 if the bias is part of the weights.
        weighted_bias: u32,
        renormalized: u32,
        scale: f32,
    }

    struct Grouping {
        chosen: In<u32>,
        present: In<u32>,
        /// Indices into `chosen`, by expert.
        order: Out<u32>,
        tiles: Out<ExpertTile>,
        /// Gets the number of experts with rows added.
        used: Out<u32>,
        most_tiles: u32,
        experts: u32,
        slots: u32,
    }

    struct ExpertProduct {
        input: In<Element>,
        /// `[expert][n][k]`.
        weights: In<Element>,
        output: Out<Untyped>,
        tiles: In<ExpertTile>,
        order: In<u32>,
        n: u32,
        k: u32,
        slots: u32,
    }

    struct Combination {
        hidden: Out<f32>,
        /// `[row][slot][width]`.
        outputs: In<f32>,
        /// `[row][slot]`.
        weights: In<f32>,
        present: In<u32>,
        width: u32,
        slots: u32,
    }
}

/// A layer's experts, and the buffers that they compute in, for up to `rows` rows.
#[derive(Clone, Copy)]
pub(crate) struct ExpertsCall<'a> {
    pub(crate) experts: &'a Experts,
    pub(crate) rows: usize,
    /// Hidden size.
    pub(crate) width: usize,
    /// One number: how many of the rows are there.
    pub(crate) present: DeviceSlice<'a, u32>,
    /// The rows that enter, normalised.
    pub(crate) input: ElementSlice<'a>,
    /// The residual stream.
    pub(crate) hidden: DeviceSlice<'a, f32>,
    pub(crate) router: DeviceSlice<'a, f32>,
    pub(crate) bias: Option<DeviceSlice<'a, f32>>,
    /// `[expert][gates, then values][width]`; the shared one is the last.
    pub(crate) gate_up: ElementSlice<'a>,
    /// `[expert][width][inner width]`.
    pub(crate) down: ElementSlice<'a>,
    pub(crate) scores: DeviceSlice<'a, f32>,
    pub(crate) chosen: DeviceSlice<'a, u32>,
    pub(crate) weights: DeviceSlice<'a, f32>,
    pub(crate) order: DeviceSlice<'a, u32>,
    pub(crate) tiles: DeviceSlice<'a, ExpertTile>,
    /// One number: experts that got rows, counted on.
    pub(crate) used: DeviceSlice<'a, u32>,
    pub(crate) inner: ElementSlice<'a>,
    pub(crate) outputs: DeviceSlice<'a, f32>,
}

/// The experts of a layer, and of a row: those that are chosen from, and the shared one if it is as wide as they are.
#[derive(Clone, Copy)]
pub(crate) struct Slots {
    pub(crate) experts: usize,
    pub(crate) of_a_row: usize,
}

impl Slots {
    pub(crate) fn of(experts: &Experts) -> Self {
        let shared = usize::from(Self::hold_shared(experts));
        Self { experts: experts.count + shared, of_a_row: experts.active + shared }
    }

    /// True if the shared expert is among them.
    pub(crate) fn hold_shared(experts: &Experts) -> bool {
        experts.shared == Some(experts.width)
    }
}

/// Tiles that the rows of all experts make at most.
pub(crate) fn most_tiles(experts: &Experts, rows: usize) -> usize {
    let Slots { experts, of_a_row } = Slots::of(experts);
    experts.min(rows * of_a_row) + rows * of_a_row / ROWS
}

/// Bytes of shared memory of a block that chooses.
fn choice_shared(experts: &Experts) -> usize {
    let groups = experts.router.groups.map_or(0, |groups| groups.count);
    4 * (2 * experts.count + groups + experts.active)
}

impl Kernels {
    /// Allows the kernels of a layer with experts the shared memory they take.
    pub(crate) fn allow_experts(&self, experts: &Experts) -> Result<()> {
        self.functions.choose.allow_shared(choice_shared(experts))?;
        self.functions.group.allow_shared(4 * Slots::of(experts).experts)
    }

    /// Adds to each row of the residual stream what its experts make of the same row of the input; a shared one that is wider than the others is left
    /// out.
    ///
    /// # Safety
    /// `present` is at most `rows`.
    pub(crate) unsafe fn experts(&self, call: ExpertsCall<'_>) -> Result<()> {
        // SAFETY: the caller's promise; each kernel is given what the one before has made.
        unsafe {
            self.route(call)?;
            self.choose(call)?;
            self.group(call)?;
            self.expert_gate_up(call)?;
            self.expert_down(call)?;
            self.combine(call)
        }
    }

    /// # Safety
    /// `present` is at most `rows`.
    pub(crate) unsafe fn route(&self, call: ExpertsCall<'_>) -> Result<()> {
        let ExpertsCall { experts, rows, width, present, input, router, scores, .. } = call;
        assert!(present.len() == 1 && rows * width <= input.len());
        assert!(experts.count * width <= router.len() && rows * experts.count <= scores.len());
        let argument = Routing {
            input: input.input(),
            router: router.into(),
            scores: scores.into(),
            present: present.into(),
            width: to_u32(width),
            experts: to_u32(experts.count),
        };
        let blocks = [experts.count.div_ceil(ROUTED_EXPERTS), rows.div_ceil(ROUTED_ROWS)];
        // SAFETY: a warp reads its rows and expert and writes their scores, which the assertions made sure of.
        unsafe {
            self.functions.route.launch(&self.gpu, Grid { blocks, threads: 32 * ROUTED_EXPERTS, shared: 0 }, &argument)
        }
    }

    /// # Safety
    /// `present` is at most `rows`.
    pub(crate) unsafe fn choose(&self, call: ExpertsCall<'_>) -> Result<()> {
        let ExpertsCall { experts, rows, present, bias, scores, chosen, weights, .. } = call;
        let router = experts.router;
        let slots = Slots::of(experts).of_a_row;
        assert!(rows * experts.count <= scores.len() && rows * slots <= chosen.len().min(weights.len()));
        assert!(bias.map_or(router.bias == RouterBias::None, |bias| experts.count <= bias.len()));
        let argument = Choice {
            scores: scores.into(),
            bias: bias.into(),
            present: present.into(),
            chosen: chosen.into(),
            weights: weights.into(),
            experts: to_u32(experts.count),
            active: to_u32(experts.active),
            slots: to_u32(slots),
            groups: to_u32(router.groups.map_or(0, |groups| groups.count)),
            kept: to_u32(router.groups.map_or(0, |groups| groups.kept)),
            softmax: u32::from(router.score == Score::Softmax),
            weighted_bias: u32::from(router.bias == RouterBias::Weights),
            renormalized: u32::from(router.renormalized),
            scale: router.scale,
        };
        let grid = Grid { blocks: [rows, 1], threads: 32, shared: choice_shared(experts) };
        // SAFETY: a block reads and writes its own row, which the assertions made sure of.
        unsafe { self.functions.choose.launch(&self.gpu, grid, &argument) }
    }

    /// # Safety
    /// `present` is at most `rows`, and what was chosen are experts.
    pub(crate) unsafe fn group(&self, call: ExpertsCall<'_>) -> Result<()> {
        let ExpertsCall { experts, rows, present, chosen, order, tiles, used, .. } = call;
        let (most_tiles, slots) = (most_tiles(experts, rows), Slots::of(experts));
        assert!(rows * slots.of_a_row <= chosen.len().min(order.len()) && most_tiles <= tiles.len());
        assert!(used.len() == 1);
        let argument = Grouping {
            chosen: chosen.into(),
            present: present.into(),
            order: order.into(),
            tiles: tiles.into(),
            used: used.into(),
            most_tiles: to_u32(most_tiles),
            experts: to_u32(slots.experts),
            slots: to_u32(slots.of_a_row),
        };
        let grid = Grid { blocks: [1, 1], threads: GROUPERS, shared: 4 * slots.experts };
        // SAFETY: there are no more tiles than that, since each but one of an expert is full.
        unsafe { self.functions.group.launch(&self.gpu, grid, &argument) }
    }

    /// # Safety
    /// `order` and `tiles` are what [`group`](Self::group) made for these rows.
    pub(crate) unsafe fn expert_gate_up(&self, call: ExpertsCall<'_>) -> Result<()> {
        let ExpertsCall { experts, rows, width, input, gate_up, inner, .. } = call;
        let slots = Slots::of(experts);
        assert!(rows * width <= input.len() && slots.experts * 2 * experts.width * width <= gate_up.len());
        assert!(rows * slots.of_a_row * experts.width <= inner.len());
        let argument = product(call, [input, gate_up], inner.untyped_out(), 2 * experts.width, width);
        // SAFETY: rows, experts and slots are inside by the caller's promise and the assertions.
        unsafe {
            self.functions.expert_gate_up.launch(&self.gpu, self.product_grid(call, 2 * experts.width), &argument)
        }
    }

    /// # Safety
    /// As for [`expert_gate_up`](Self::expert_gate_up).
    pub(crate) unsafe fn expert_down(&self, call: ExpertsCall<'_>) -> Result<()> {
        let ExpertsCall { experts, rows, width, down, inner, outputs, .. } = call;
        let slots = Slots::of(experts);
        assert!(slots.experts * experts.width * width <= down.len());
        assert!(rows * slots.of_a_row * experts.width <= inner.len());
        assert!(rows * slots.of_a_row * width <= outputs.len());
        let argument = product(call, [inner, down], Out::at(outputs.address()), width, experts.width);
        // SAFETY: rows, experts and slots are inside by the caller's promise and the assertions.
        unsafe { self.functions.expert_down.launch(&self.gpu, self.product_grid(call, width), &argument) }
    }

    /// # Safety
    /// `present` is at most `rows`.
    pub(crate) unsafe fn combine(&self, call: ExpertsCall<'_>) -> Result<()> {
        let ExpertsCall { experts, rows, width, present, hidden, weights, outputs, .. } = call;
        let slots = Slots::of(experts).of_a_row;
        assert!(rows * width <= hidden.len() && rows * slots * width <= outputs.len() && rows * slots <= weights.len());
        let argument = Combination {
            hidden: hidden.into(),
            outputs: outputs.into(),
            weights: weights.into(),
            present: present.into(),
            width: to_u32(width),
            slots: to_u32(slots),
        };
        let grid = Grid { blocks: [rows, width.div_ceil(256)], threads: 256, shared: 0 };
        // SAFETY: a block reads and writes its own row, which the assertions made sure of.
        unsafe { self.functions.combine.launch(&self.gpu, grid, &argument) }
    }

    /// A block for each tile and each stretch of an expert's `n` rows of weights.
    fn product_grid(&self, call: ExpertsCall<'_>, n: usize) -> Grid {
        let blocks = [most_tiles(call.experts, call.rows), n.div_ceil(STRETCH)];
        Grid { blocks, threads: THREADS, shared: projection::shared(self.variant.bf16) }
    }
}

fn product(
    call: ExpertsCall<'_>,
    [input, weights]: [ElementSlice<'_>; 2],
    output: Out<Untyped>,
    n: usize,
    k: usize,
) -> ExpertProduct {
    ExpertProduct {
        input: input.input(),
        weights: weights.input(),
        output,
        tiles: call.tiles.into(),
        order: call.order.into(),
        n: to_u32(n),
        k: to_u32(k),
        slots: to_u32(Slots::of(call.experts).of_a_row),
    }
}
