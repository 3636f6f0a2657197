//! Beliefs from logits.
#![allow(unsafe_code, reason = "launches of kernels")]

use super::super::buffer::DeviceSlice;
use super::scores::ReadState;
use super::structs::{In, Out, c_structs};
use super::table::{Grid, Kernels};
use crate::Result;

/// Logits that are summed up together.
pub(crate) const STRETCH: usize = 128;

c_structs! {
    /// Specification of a projected row: how its logits become a belief.
    struct RowSpec {
        /// Receives its logits; null if they are not wanted.
        logits: Out<f32>,
        /// Holds the logits of its position from one step to the next; null if they are not remembered.
        history: Out<f32>,
        /// Logarithm of the sum of exponentials of the logits that are kept there.
        history_log_total: f64,
        /// 1 if there are some to compare with.
        compare: u32,
        /// The projected row that guides it, or ABSENT.
        guide: u32,
        /// Guidance scale.
        guidance: f32,
        /// Tokens that can be drawn but have no probability, in the list of tokens.
        deferred: u32,
        deferred_count: u32,
        /// A token whose logit is wanted, or ABSENT.
        scored_token: u32,
        /// The read that must get as far for this row to be read, or ABSENT.
        read: u32,
        /// 1 if only its logits are wanted.
        logits_only: u32,
        /// 1 if it needs a second pass: top-p, top-k or deferred tokens.
        second_pass: u32,
        top_k: u32,
        top_p: f64,
        /// Logits are divided by it.
        temperature: f64,
        /// Factor of the Gumbel noise by which a token is drawn; 0 if the largest logit wins.
        gumbel: f64,
    }

    /// The two largest logits, the token of the first, and sums relative to it.
    struct Summary {
        /// Sum of exp(logit - first); NaN if a logit is.
        total: f64,
        /// Sum of (logit - first) * exp(logit - first).
        weighted: f64,
        /// Sum of (logit - log(previous probability + 1e-12) - history_log_total) * exp(logit - first).
        divergence: f64,
        first: f32,
        second: f32,
        token: u32,
        /// Logit of the scored token.
        scored: f32,
        /// The largest logit with its noise, and whose it is.
        weight: f64,
        drawn: u32,
        drawn_logit: f32,
    }

    struct Reading {
        specs: In<RowSpec>,
        /// Seeds of the rows' random numbers.
        draws: In<u64>,
        /// The rows' sets of tokens that may be drawn, by number, and the sets: one bit for each token, in words of 32.
        sets: In<u32>,
        allowed: In<u32>,
        tokens: In<u32>,
        /// `[row][stretch]`.
        parts: Out<Summary>,
        /// `[row]`.
        outcomes: Out<Summary>,
        reads: In<ReadState>,
        vocabulary: u32,
        stretches: u32,
        rows: u32,
        /// Round of the reads, from 1.
        round: u32,
    }

    struct Continue {
        reads: Out<ReadState>,
        requests: In<u32>,
        outcomes: In<Summary>,
        /// Scores by which rows were chosen.
        values: In<f64>,
        /// The round to come.
        round: u32,
    }
}

/// Threads of a block that merges the stretches of a row; belief.cu has it too.
const MERGERS: usize = 128;

impl Kernels {
    /// Mixes the logits of the first `requests` rows with those that guide them, and sums them up.
    ///
    /// # Safety
    /// `reading` is one that was projected (see [`project`](Self::project)), and `requests` of its rows have outcomes.
    pub(crate) unsafe fn guide(&self, reading: &Reading, requests: usize) -> Result<()> {
        let grid = Grid { blocks: [reading.stretches as usize, requests], threads: STRETCH, shared: 0 };
        // SAFETY: the caller's promise.
        unsafe { self.functions.guide.launch(&self.gpu, grid, reading) }
    }

    /// Merges the stretches of the first `requests` rows.
    ///
    /// # Safety
    /// As for [`guide`](Self::guide).
    pub(crate) unsafe fn conclude(&self, reading: &Reading, requests: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.functions.conclude.launch(&self.gpu, Grid::of(requests, MERGERS), reading) }
    }

    /// Makes a second pass over the first `requests` rows: top-p, top-k and deferred tokens.
    ///
    /// # Safety
    /// As for [`guide`](Self::guide); rows with a second pass have their logits in memory.
    pub(crate) unsafe fn truncate_rows(&self, reading: &Reading, requests: usize) -> Result<()> {
        let threads = (reading.vocabulary as usize / 32).next_power_of_two().clamp(32, 512);
        // SAFETY: the caller's promise.
        unsafe { self.functions.truncate_rows.launch(&self.gpu, Grid::of(requests, threads), reading) }
    }

    /// Decides which reads go on into a round.
    ///
    /// # Safety
    /// Each read names requests that are inside the other slices.
    pub(crate) unsafe fn continue_reads(
        &self,
        reads: DeviceSlice<'_, ReadState>,
        requests: DeviceSlice<'_, u32>,
        outcomes: DeviceSlice<'_, Summary>,
        values: DeviceSlice<'_, f64>,
        round: u32,
    ) -> Result<()> {
        let argument = Continue {
            reads: reads.into(),
            requests: requests.into(),
            outcomes: outcomes.into(),
            values: values.into(),
            round,
        };
        // SAFETY: the caller's promise.
        unsafe { self.functions.continue_reads.launch(&self.gpu, Grid::of(reads.len(), 32), &argument) }
    }
}
