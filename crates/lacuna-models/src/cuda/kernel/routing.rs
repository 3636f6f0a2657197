//! Mixtures of experts: which experts a row goes through, and which rows an expert gets.
#![allow(unsafe_code, reason = "launches of kernels")]

use super::experts::{ExpertsCall, Slots, most_tiles};
use super::structs::{Element, In, Out, c_structs, to_u32};
use super::table::{Grid, Kernels};
use crate::architecture::{Experts, RouterBias, Score};
use crate::{Error, Result};

/// Rows, and experts, whose scores a block computes.
pub(super) const ROUTED: usize = 8;
/// Experts that a warp can choose from.
pub(super) const MOST_EXPERTS: usize = 1024;
/// Threads of a block: a warp for each of its rows.
pub(super) const ROUTERS: usize = 32 * ROUTED;

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
        /// Of each expert; null if there is none.
        bias: In<f32>,
        /// Number of rows in use; the others are padding.
        present: In<u32>,
        /// Blocks that have arrived: of all rows, then of each [`ROUTED`] of them. Zero before and after.
        arrived: Out<u32>,
        /// `[row][expert]`.
        scores: Out<f32>,
        /// `[row][slot]`: its experts, ascending, and their weights; in the last slot the shared one, if there is one among them.
        chosen: Out<u32>,
        weights: Out<f32>,
        /// Indices into `chosen`, by expert.
        order: Out<u32>,
        tiles: Out<ExpertTile>,
        tile_count: Out<u32>,
        /// Gets the number of experts with rows added.
        used: Out<u32>,
        width: u32,
        experts: u32,
        /// With the shared one, if it is among them.
        all_experts: u32,
        active: u32,
        slots: u32,
        /// Groups of experts, and how many of them may be chosen from; 0 if there are none.
        groups: u32,
        kept: u32,
        /// Rows of a tile at most.
        tile_rows: u32,
        /// 1 for softmax, 0 for sigmoid.
        softmax: u32,
        /// 1 if the bias is part of the weights.
        weighted_bias: u32,
        renormalized: u32,
        scale: f32,
    }
}

/// Counters of blocks that arrive, for that many rows.
pub(crate) fn arrivals(rows: usize) -> usize {
    1 + rows.div_ceil(ROUTED)
}

/// Bytes of shared memory of a block: each warp chooses in some, and one block counts rows in all of it.
fn shared(experts: &Experts) -> usize {
    let groups = experts.router.groups.map_or(0, |groups| groups.count);
    let choice = experts.count + groups.max(experts.active) + experts.active;
    4 * (ROUTED * choice).max(Slots::of(experts).experts)
}

impl Kernels {
    /// Allows the router of a layer the shared memory it takes.
    pub(crate) fn allow_routing(&self, experts: &Experts) -> Result<()> {
        if experts.count > MOST_EXPERTS {
            return Err(Error::not_on_gpu(format!(
                "a layer of {} experts, which are more than {MOST_EXPERTS},",
                experts.count
            )));
        }
        self.functions.route.allow_shared(shared(experts))
    }

    /// Chooses the experts of each row, and groups rows by expert.
    ///
    /// # Safety
    /// `present` is at most `rows`, and nobody has arrived.
    pub(crate) unsafe fn route(&self, call: ExpertsCall<'_>) -> Result<()> {
        let ExpertsCall { experts, rows, width, present, input, router: weights_of_router, bias, scores, .. } = call;
        let ExpertsCall { arrived, chosen, weights, order, tiles, tile_count, used, .. } = call;
        let (router, slots) = (experts.router, Slots::of(experts));
        assert!(present.len() == 1 && used.len() == 1 && tile_count.len() == 1 && arrivals(rows) <= arrived.len());
        assert!(rows * width <= input.len() && experts.count * width <= weights_of_router.len());
        assert!(bias.map_or(router.bias == RouterBias::None, |bias| experts.count <= bias.len()));
        assert!(rows * experts.count <= scores.len() && most_tiles(experts, rows) <= tiles.len());
        assert!(rows * slots.of_a_row <= chosen.len().min(weights.len()).min(order.len()));
        let argument = Routing {
            input: input.input(),
            router: weights_of_router.into(),
            bias: bias.into(),
            present: present.into(),
            arrived: arrived.into(),
            scores: scores.into(),
            chosen: chosen.into(),
            weights: weights.into(),
            order: order.into(),
            tiles: tiles.into(),
            tile_count: tile_count.into(),
            used: used.into(),
            width: to_u32(width),
            experts: to_u32(experts.count),
            all_experts: to_u32(slots.experts),
            active: to_u32(experts.active),
            slots: to_u32(slots.of_a_row),
            groups: to_u32(router.groups.map_or(0, |groups| groups.count)),
            kept: to_u32(router.groups.map_or(0, |groups| groups.kept)),
            tile_rows: to_u32(self.expert_rows()),
            softmax: u32::from(router.score == Score::Softmax),
            weighted_bias: u32::from(router.bias == RouterBias::Weights),
            renormalized: u32::from(router.renormalized),
            scale: router.scale,
        };
        let blocks = [experts.count.div_ceil(ROUTED), rows.div_ceil(ROUTED)];
        // SAFETY: blocks read their rows and experts, and write what belongs to their rows, which the assertions made sure of; there are no
        // more tiles than that, since each but one of an expert is full.
        unsafe {
            self.functions.route.launch(
                &self.gpu,
                Grid { blocks, threads: ROUTERS, shared: shared(experts) },
                &argument,
            )
        }
    }
}
