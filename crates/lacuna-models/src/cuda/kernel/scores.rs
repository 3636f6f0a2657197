//! Dependency scores, and ranking rows by them.
#![allow(unsafe_code, reason = "launches of kernels")]

use super::super::buffer::DeviceSlice;
use super::super::staging::Indices;
use super::structs::{In, Out, c_structs, to_u32};
use super::table::{Grid, Kernels};
use crate::Result;

/// Stop rules of a [`ReadState`].
pub(crate) const SCORE: u32 = 0;
pub(crate) const ENTROPY: u32 = 1;
pub(crate) const SURPRISAL: u32 = 2;
/// With one of the last two: the largest term is left out of the sum.
pub(crate) const SPARE_LARGEST: u32 = 4;

/// Factor by which each round reads further than the one before.
pub(crate) const ROUND_GROWTH: usize = 4;

c_structs! {
    /// Dependency scores of one attention source of a view.
    struct ScoreTask {
        /// Index among the layers whose mass was kept.
        layer: u32,
        /// Index of its first head in the list, and their count; a count of 0 means all.
        heads: u32,
        head_count: u32,
        /// The view's first row, and how many rows are tokens.
        start: u32,
        tokens: u32,
        /// Positions of the view.
        length: u32,
        /// Index of its first score.
        output: u32,
    }

    struct Collection {
        tasks: In<ScoreTask>,
        heads: In<u32>,
        /// `[layer][row][head]`.
        mass: In<f32>,
        tokens: In<u32>,
        positions: In<u32>,
        scores: Out<f32>,
        rows: u32,
        all_heads: u32,
        mask: u32,
    }

    /// A view's ranking, read in rounds until its stop rule holds.
    struct ReadState {
        /// It is read on until the sum exceeds this, or scores fall below it.
        bound: f64,
        rule: u32,
        /// Index of its first request in the list.
        requests: u32,
        /// Rows read in the first round, and at most.
        first: u32,
        most: u32,
        /// Rounds that are read.
        rounds: u32,
    }

    /// A view whose rows are ranked by dependency score.
    struct RankTask {
        /// Scores are divided by it before noise is added; 0 if the order is not drawn.
        temperature: f64,
        /// Index of the first score of its first source; those of the next lie `tokens` behind.
        scores: u32,
        tokens: u32,
        sources: u32,
        /// Index of its first candidate in the list.
        candidates: u32,
        count: u32,
        /// Candidates that are chosen.
        take: u32,
        /// Index of the first chosen row in the list of rows.
        slots: u32,
        /// The same for the rows that guide them, or ABSENT.
        guide_slots: u32,
        /// The read that they belong to.
        read: u32,
    }

    struct Candidate {
        position: u32,
        /// The row that predicts the position.
        row: u32,
        /// The row that guides it, or ABSENT.
        guide: u32,
        /// Its set of tokens that may be drawn.
        set: u32,
        /// Seed of its random numbers.
        draw: u64,
        /// Noise for its score.
        noise: f64,
    }

    struct RankArguments {
        tasks: In<RankTask>,
        candidates: In<Candidate>,
        scores: In<f32>,
        reads: In<ReadState>,
        requests: In<u32>,
        /// The chosen rows, highest score first.
        rows: Out<u32>,
        draws: Out<u64>,
        sets: Out<u32>,
        /// The chosen candidate of each request.
        chosen: Out<u32>,
        /// Its score.
        values: Out<f64>,
    }
}

/// Inputs and output of [`Kernels::collect`].
#[derive(Clone, Copy)]
pub(crate) struct CollectCall<'a> {
    pub(crate) tasks: DeviceSlice<'a, ScoreTask>,
    pub(crate) heads: DeviceSlice<'a, u32>,
    /// `[layer][row][head]`.
    pub(crate) mass: DeviceSlice<'a, f32>,
    pub(crate) tokens: Indices<'a>,
    pub(crate) positions: Indices<'a>,
    pub(crate) scores: DeviceSlice<'a, f32>,
    /// Rows and heads of a layer of the mass.
    pub(crate) rows: usize,
    pub(crate) all_heads: usize,
    pub(crate) mask: u32,
}

/// Inputs and outputs of [`Kernels::rank`].
#[derive(Clone, Copy)]
pub(crate) struct Ranking<'a> {
    pub(crate) tasks: DeviceSlice<'a, RankTask>,
    pub(crate) candidates: DeviceSlice<'a, Candidate>,
    pub(crate) scores: DeviceSlice<'a, f32>,
    pub(crate) reads: DeviceSlice<'a, ReadState>,
    /// The numbers of the requests of each read.
    pub(crate) requests: DeviceSlice<'a, u32>,
    pub(crate) rows: DeviceSlice<'a, u32>,
    pub(crate) draws: DeviceSlice<'a, u64>,
    pub(crate) sets: DeviceSlice<'a, u32>,
    pub(crate) chosen: DeviceSlice<'a, u32>,
    pub(crate) values: DeviceSlice<'a, f64>,
    /// Candidates of the largest task.
    pub(crate) most_candidates: usize,
}

impl Kernels {
    /// Averages the mass of heads into dependency scores.
    ///
    /// # Safety
    /// Each task names layers, rows, heads and scores that are inside the other slices.
    pub(crate) unsafe fn collect(&self, call: CollectCall<'_>) -> Result<()> {
        let argument = Collection {
            tasks: call.tasks.into(),
            heads: call.heads.into(),
            mass: call.mass.into(),
            tokens: call.tokens.list().into(),
            positions: call.positions.list().into(),
            scores: call.scores.into(),
            rows: to_u32(call.rows),
            all_heads: to_u32(call.all_heads),
            mask: call.mask,
        };
        // SAFETY: the caller's promise.
        unsafe { self.functions.collect.launch(&self.gpu, Grid::of(call.tasks.len(), 256), &argument) }
    }

    /// Ranks candidates by score, and puts the first of them where their rows, draws, sets and numbers go.
    ///
    /// # Safety
    /// Each task names candidates, scores, slots, a read and requests that are inside the other slices, and has no more
    /// candidates than `most_candidates`. The rows of the candidates are below the bound of the list they go to.
    pub(crate) unsafe fn rank(&self, call: Ranking<'_>) -> Result<()> {
        let argument = RankArguments {
            tasks: call.tasks.into(),
            candidates: call.candidates.into(),
            scores: call.scores.into(),
            reads: call.reads.into(),
            requests: call.requests.into(),
            rows: call.rows.into(),
            draws: call.draws.into(),
            sets: call.sets.into(),
            chosen: call.chosen.into(),
            values: call.values.into(),
        };
        let shared = call.most_candidates * size_of::<f64>();
        let grid = Grid { blocks: [call.tasks.len(), 1], threads: 512, shared };
        // SAFETY: the caller's promise; shared memory holds a score for each candidate.
        unsafe { self.functions.rank.launch(&self.gpu, grid, &argument) }
    }
}
