//! Launching reads: the lists are sent in one copy, then everything runs without a wait.
#![allow(unsafe_code, reason = "launches of kernels")]

use super::super::attention::tiles;
use super::super::buffer::DeviceSlice;
use super::super::forward::{Forward, padded};
use super::super::kernel::{Candidate, RankTask, Ranking, ReadState, Reading, RowSpec, STRETCH, Summary, Tile, to_u32};
use super::super::staging::{Sent, SentIndices};
use super::chunk::{Chunk, ChunkPlan, ReadLists, cut};
use super::collect::Pending;
use super::rank::RankedRead;
use super::reader::{ReadBuffers, Reader};
use super::request::RowRequest;
use crate::Result;
use crate::layout::Layout;
use crate::weight::Sizes;

/// The lists of a set of reads, as they were sent.
struct SentReads {
    rows: SentIndices,
    present: Sent<u32>,
    tiles: Sent<Tile>,
    sources: SentIndices,
    specs: Sent<RowSpec>,
    draws: Sent<u64>,
    sets: Sent<u32>,
    allowed: Sent<u32>,
    tokens: Sent<u32>,
    reads: Sent<ReadState>,
    read_requests: Sent<u32>,
    rank_tasks: Sent<RankTask>,
    candidates: Sent<Candidate>,
    chunks: Vec<ChunkPlan>,
    compared: Vec<Option<f64>>,
}

impl Reader {
    /// Launches everything for `requests`, which are cut into `rounds`. Which rows those of the ranked `reads` are, and how far
    /// each of these is read, is decided on the GPU.
    pub(super) fn launch<'a>(
        &mut self,
        forward: &mut Forward,
        layout: &Layout,
        requests: Vec<RowRequest<'a>>,
        reads: Vec<RankedRead<'a>>,
        rounds: &[usize],
    ) -> Result<Pending<'a>> {
        let sent = self.send(forward, layout, &requests, &reads, rounds)?;
        let Self { staging, landing, buffers, .. } = self;
        let count = requests.len();
        let rows = staging.indices(sent.rows);
        let states = staging.list(sent.reads);
        let read_requests = staging.list(sent.read_requests);
        let draws = staging.list(sent.draws);
        let sets = staging.list(sent.sets);

        let ranked = reads.iter().filter(|read| read.scores.is_some());
        if let Some(most_candidates) = ranked.map(|read| read.candidates.len()).max() {
            let ranking = Ranking {
                tasks: staging.list(sent.rank_tasks),
                candidates: staging.list(sent.candidates),
                scores: forward.scores(),
                reads: states,
                requests: read_requests,
                rows: rows.list(),
                draws,
                sets,
                chosen: buffers.chosen.all(),
                values: buffers.values.all(),
                most_candidates,
            };
            // SAFETY: `add_reads` made the tasks: candidates are rows of the layout, whose scores the last pass computed, and
            // take slots of the selected rows; requests are below the number of them that the outputs have room for.
            unsafe { forward.kernels().rank(ranking)? };
        }
        // SAFETY: the tiles are those of the selection and of the layout that was observed last. Where the GPU has ranked rows,
        // other rows of the same view have taken their places.
        unsafe { forward.finish(rows, staging.list(sent.present), staging.list(sent.tiles), buffers.finished.all())? };
        let sizes = [count * size_of::<Summary>(), count * size_of::<u32>(), reads.len() * size_of::<ReadState>()];
        landing.begin(&sizes)?;
        let (sources, specs) = (staging.indices(sent.sources), staging.list(sent.specs));
        let words = (staging.list(sent.allowed), staging.list(sent.tokens));
        let stretches = forward.sizes.vocabulary.div_ceil(STRETCH);
        let mut round = 1;
        for plan in sent.chunks {
            if plan.round > round {
                round = plan.round;
                let (outcomes, values) = (buffers.outcomes.all(), buffers.values.all());
                // SAFETY: the requests of the reads are among those that there are outcomes and scores for.
                unsafe { forward.kernels().continue_reads(states, read_requests, outcomes, values, round)? };
            }
            let chunk = Chunk {
                plan,
                rows: sources.part(plan.start, plan.rows),
                specs: specs.slice(plan.start..plan.start + plan.rows),
                draws: draws.slice(plan.first..plan.first + plan.requests),
                sets: sets.slice(plan.first..plan.first + plan.requests),
                parts: buffers.parts.slice(0..plan.rows * stretches),
                outcomes: buffers.outcomes.slice(plan.first..plan.first + plan.requests),
            };
            chunk.launch(forward, buffers, words, states)?;
        }
        let outcomes = landing.fetch(buffers.outcomes.slice(0..count))?;
        let chosen = landing.fetch(buffers.chosen.slice(0..count))?;
        let states = landing.fetch(states)?;
        Ok(Pending { requests, reads, compared: sent.compared, outcomes, chosen, states })
    }

    /// Makes room for reads, and sends their lists.
    fn send(
        &mut self,
        forward: &Forward,
        layout: &Layout,
        requests: &[RowRequest<'_>],
        reads: &[RankedRead<'_>],
        rounds: &[usize],
    ) -> Result<SentReads> {
        let Sizes { hidden, vocabulary, .. } = forward.sizes;
        let mut needed: Vec<usize> =
            requests.iter().flat_map(|request| [Some(request.row), request.guide]).flatten().collect();
        needed.sort_unstable();
        needed.dedup();
        self.selection.select(layout, needed.into_iter(), forward.shape.tile);
        let mut slots = vec![0u32; layout.rows()];
        self.selection.rows.iter().zip(0..).for_each(|(&row, slot)| slots[row] = slot);

        let chunks = cut(layout, vocabulary, requests, rounds);
        let rows = padded(self.selection.len());
        let most = |count: fn(&RowRequest<'_>) -> usize| {
            chunks.iter().map(|(_, _, chunk)| chunk.iter().map(count).sum::<usize>()).max().unwrap_or(0)
        };
        let buffers = &mut self.buffers;
        buffers.finished.reserve(rows * hidden)?;
        buffers.logits.reserve(most(|request| request.written()) * vocabulary)?;
        buffers.parts.reserve(most(|request| request.projected()) * vocabulary.div_ceil(STRETCH))?;
        buffers.outcomes.reserve(requests.len())?;
        buffers.chosen.reserve(requests.len())?;
        buffers.values.reserve(requests.len())?;

        let draws: Vec<u64> = requests.iter().map(|request| request.asked.draw.key()).collect();
        let mut lists = ReadLists::default();
        let mut plans = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            plans.push(lists.add_chunk(&mut self.history, buffers.logits.all(), vocabulary, &slots, chunk)?);
        }
        lists.add_reads(reads, &slots);
        let sets: Vec<u32> = requests.iter().map(|request| lists.set(request.asked.allowed)).collect();
        let mut selected: Vec<u32> = self.selection.rows.iter().map(|&row| to_u32(row)).collect();
        selected.resize(rows, selected[0]);
        let tiles = tiles(layout, &self.selection, &forward.kv_store)?;

        let mut batch = self.staging.begin()?;
        let sent = SentReads {
            rows: batch.push_indices(&selected, layout.rows())?,
            present: batch.push(&[to_u32(self.selection.len())])?,
            tiles: batch.push(&tiles)?,
            sources: batch.push_indices(&lists.sources, rows)?,
            specs: batch.push(&lists.specs)?,
            draws: batch.push(&draws)?,
            sets: batch.push(&sets)?,
            allowed: batch.push(&lists.allowed)?,
            tokens: batch.push(&lists.tokens)?,
            reads: batch.push(&lists.reads)?,
            read_requests: batch.push(&lists.read_requests)?,
            rank_tasks: batch.push(&lists.rank_tasks)?,
            candidates: batch.push(&lists.candidates)?,
            chunks: plans,
            compared: lists.compared,
        };
        batch.send()?;
        Ok(sent)
    }
}

impl Chunk<'_> {
    /// Launches the beliefs of a chunk.
    fn launch(
        self,
        forward: &mut Forward,
        buffers: &ReadBuffers,
        (allowed, tokens): (DeviceSlice<'_, u32>, DeviceSlice<'_, u32>),
        reads: DeviceSlice<'_, ReadState>,
    ) -> Result<()> {
        let Self { plan, rows, specs, draws, sets, parts, outcomes } = self;
        let vocabulary = forward.sizes.vocabulary;
        let projected = Reading {
            specs: specs.into(),
            draws: draws.into(),
            sets: sets.into(),
            allowed: allowed.into(),
            tokens: tokens.into(),
            parts: parts.into(),
            outcomes: outcomes.into(),
            reads: reads.into(),
            vocabulary: to_u32(vocabulary),
            stretches: to_u32(vocabulary.div_ceil(STRETCH)),
            rows: to_u32(rows.len()),
            round: plan.round,
        };
        let concluded = Reading { rows: to_u32(plan.requests), ..projected };
        // SAFETY: a chunk has a spec and parts for each of its rows, and a draw, a set and an outcome for each of its
        // requests, which come first; rows that guide want logits alone. `add_chunk` made the specs: logits and histories have room for the
        // vocabulary, guides are among the rows, tokens and reads in their lists, and rows with a second pass are written.
        unsafe {
            forward.project(buffers.finished.all(), rows, &projected)?;
            let kernels = forward.kernels();
            if plan.guided {
                kernels.guide(&concluded, plan.requests)?;
            }
            kernels.conclude(&concluded, plan.requests)?;
            if plan.second_pass {
                kernels.truncate_rows(&concluded, plan.requests)?;
            }
        }
        Ok(())
    }
}
