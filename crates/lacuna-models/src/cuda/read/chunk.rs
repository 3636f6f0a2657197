//! Requests that are projected together, and the lists that the GPU gets for them.

use std::collections::HashMap;

use lacuna::{Sampling, TokenSet};

use super::super::buffer::DeviceSlice;
use super::super::kernel::{ABSENT, Candidate, Out, RankTask, ReadState, RowSpec, STRETCH, Summary, to_u32};
use super::super::staging::Indices;
use super::history::LogitHistory;
use super::rank::{RankedRead, ViewScores};
use super::request::{RowRequest, row_spec};
use crate::Result;
use crate::layout::Layout;

/// Bytes of logits, or of their summaries, that exist at the same time, more or less.
pub(super) const BYTES_AT_ONCE: usize = 256 << 20;

/// Requests that are projected together.
#[derive(Clone, Copy)]
pub(super) struct ChunkPlan {
    /// The round in which it is read, from 1.
    pub(super) round: u32,
    /// The first request, and how many.
    pub(super) first: usize,
    pub(super) requests: usize,
    /// The first projected row in the lists, and how many.
    pub(super) start: usize,
    pub(super) rows: usize,
    pub(super) guided: bool,
    /// True if some rows need a second pass.
    pub(super) second_pass: bool,
}

/// A chunk on the GPU.
#[derive(Clone, Copy)]
pub(super) struct Chunk<'a> {
    pub(super) plan: ChunkPlan,
    /// The finished rows that are projected.
    pub(super) rows: Indices<'a>,
    pub(super) specs: DeviceSlice<'a, RowSpec>,
    pub(super) draws: DeviceSlice<'a, u64>,
    pub(super) sets: DeviceSlice<'a, u32>,
    /// `[row][stretch]`.
    pub(super) parts: DeviceSlice<'a, Summary>,
    pub(super) outcomes: DeviceSlice<'a, Summary>,
}

/// Cuts requests into chunks: the round, the number of the first request, and the requests.
pub(super) fn cut<'r, 'a>(
    layout: &Layout,
    vocabulary: usize,
    requests: &'r [RowRequest<'a>],
    rounds: &[usize],
) -> Vec<(u32, usize, &'r [RowRequest<'a>])> {
    let at_once = requests_at_once(layout, vocabulary, requests);
    let mut chunks = Vec::new();
    for (round, bounds) in (1..).zip(rounds.windows(2)) {
        let firsts = (bounds[0]..bounds[1]).step_by(at_once);
        chunks.extend(firsts.map(|first| (round, first, &requests[first..bounds[1].min(first + at_once)])));
    }
    chunks
}

/// Requests that are projected together at most.
pub(super) fn requests_at_once(layout: &Layout, vocabulary: usize, requests: &[RowRequest<'_>]) -> usize {
    let bytes_each = if requests.iter().any(|request| request.written() > 0) {
        vocabulary * size_of::<f32>()
    } else {
        vocabulary.div_ceil(STRETCH) * size_of::<Summary>()
    };
    // On their way into the projection rows lie where there is room for all rows of the layout.
    let room = layout.rows() / if requests.iter().any(|request| request.guide.is_some()) { 2 } else { 1 };
    (BYTES_AT_ONCE / bytes_each).clamp(16, 1 << 14).min(room)
}

/// The lists that the GPU gets for a set of requests.
#[derive(Default)]
pub(super) struct ReadLists<'a> {
    /// For each projected row, the finished row and its spec.
    pub(super) sources: Vec<u32>,
    pub(super) specs: Vec<RowSpec>,
    /// Deferred tokens.
    pub(super) tokens: Vec<u32>,
    /// Sets of tokens that may be drawn, each once, and their numbers by address.
    pub(super) allowed: Vec<u32>,
    numbers: HashMap<*const u32, u32>,
    /// The last sampling, and the spec made of it.
    last: Option<(&'a Sampling, RowSpec)>,
    /// For each request that is compared with its history, the logarithm of the sum of exponentials of that.
    pub(super) compared: Vec<Option<f64>>,
    /// Ranked reads, the numbers of their requests, and for those that scores decide what to choose from.
    pub(super) reads: Vec<ReadState>,
    pub(super) read_requests: Vec<u32>,
    pub(super) rank_tasks: Vec<RankTask>,
    pub(super) candidates: Vec<Candidate>,
}

impl<'a> ReadLists<'a> {
    /// Lists the ranked reads; `slots` has the place of each row among the selected ones.
    pub(super) fn add_reads(&mut self, reads: &[RankedRead<'a>], slots: &[u32]) {
        for (number, read) in reads.iter().enumerate() {
            self.reads.push(read.state(self.read_requests.len()));
            self.read_requests.extend(&read.requests);
            let Some(ViewScores { begin, tokens, sources, temperature }) = read.scores else { continue };
            let RowRequest { row, guide, .. } = read.candidates[0];
            self.rank_tasks.push(RankTask {
                temperature,
                scores: to_u32(begin),
                tokens: to_u32(tokens),
                sources: to_u32(sources),
                candidates: to_u32(self.candidates.len()),
                count: to_u32(read.candidates.len()),
                take: to_u32(read.requests.len()),
                slots: slots[row],
                guide_slots: guide.map_or(ABSENT, |row| slots[row]),
                read: to_u32(number),
            });
            let set = |request: &RowRequest<'a>| self.set(request.asked.allowed);
            let sets: Vec<u32> = read.candidates.iter().map(set).collect();
            self.candidates.extend(read.device_candidates(&sets));
        }
    }

    /// The number of a set of tokens.
    pub(super) fn set(&mut self, set: &'a TokenSet) -> u32 {
        let Self { allowed, numbers, .. } = self;
        let words = set.words();
        *numbers.entry(words.as_ptr()).or_insert_with(|| {
            // Those of runs without a constraint are alike.
            if allowed.get(..words.len()) == Some(words) {
                return 0;
            }
            allowed.extend(words);
            to_u32(allowed.len() / words.len() - 1)
        })
    }

    /// Lists the rows of a chunk that begins with request number `first`: those of the requests, then those that guide them.
    /// `logits` has room for the rows of logits that are written.
    pub(super) fn add_chunk(
        &mut self,
        history: &mut LogitHistory,
        logits: DeviceSlice<'_, f32>,
        vocabulary: usize,
        slots: &[u32],
        (round, first, requests): (u32, usize, &[RowRequest<'a>]),
    ) -> Result<ChunkPlan> {
        let start = self.sources.len();
        let (mut guided, mut second_pass) = (false, false);
        let mut guides: Vec<(u32, Out<f32>, u32)> = Vec::new();
        let mut written = 0;
        let mut next_written = || -> Out<f32> {
            written += 1;
            logits.slice((written - 1) * vocabulary..written * vocabulary).into()
        };
        for request in requests {
            self.sources.push(slots[request.row]);
            let scored_token = request.asked.scored_token.unwrap_or(ABSENT);
            let mut spec = RowSpec { scored_token, read: request.read, ..self.spec(request.asked.sampling) };
            let own = (request.written() > 0).then(&mut next_written);
            spec.logits = own.unwrap_or(Out::NULL);
            if let (Some(row), Some(guide)) = (request.guide, request.asked.guide) {
                (spec.guide, spec.guidance) = (to_u32(requests.len() + guides.len()), guide.scale);
                guides.push((slots[row], next_written(), request.read));
            }
            guided |= request.guide.is_some();
            second_pass |= spec.second_pass > 0;
            let mut compared = None;
            if let Some(key) = request.history {
                let entry = history.entry(key)?;
                compared = entry.log_total;
                spec.history = history.logits(entry).into();
                spec.history_log_total = compared.unwrap_or(0.0);
                spec.compare = u32::from(compared.is_some());
                if own.is_none() {
                    spec.logits = spec.history;
                }
            }
            self.compared.push(compared);
            self.specs.push(spec);
        }
        for (slot, logits, read) in guides {
            self.sources.push(slot);
            let absent = RowSpec { guide: ABSENT, scored_token: ABSENT, ..RowSpec::default() };
            self.specs.push(RowSpec { logits, read, logits_only: 1, ..absent });
        }
        let rows = self.sources.len() - start;
        Ok(ChunkPlan { round, first, requests: requests.len(), start, rows, guided, second_pass })
    }

    /// The spec of a row with this sampling.
    fn spec(&mut self, sampling: &'a Sampling) -> RowSpec {
        if let Some((_, spec)) = self.last.filter(|(last, _)| std::ptr::eq(*last, sampling)) {
            return spec;
        }
        let deferred = self.tokens.len();
        self.tokens.extend(&sampling.deferred);
        let spec = RowSpec {
            deferred: to_u32(deferred),
            deferred_count: to_u32(sampling.deferred.len()),
            ..row_spec(sampling)
        };
        self.last = Some((sampling, spec));
        spec
    }
}
