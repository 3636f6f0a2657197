//! The reader: beliefs at rows of the views observed last.

use std::sync::Arc;

use lacuna::{Belief, Draw, Row, Sampling, Target, TokenSet};
use rayon::prelude::*;

use super::super::buffer::Buffer;
use super::super::forward::{Forward, padded};
use super::super::gpu::Gpu;
use super::super::kernel::{ABSENT, STRETCH, Summary};
use super::super::staging::{Landing, Staging};
use super::chunk::{BYTES_AT_ONCE, requests_at_once};
use super::history::LogitHistory;
use super::prefetch::{PrefetchCache, default_budget};
use super::request::RowRequest;
use crate::layout::{Layout, Selection};
use crate::weight::Sizes;
use crate::{Architecture, Result};

/// Reads rows, and remembers from step to step what it is asked to.
pub(crate) struct Reader {
    gpu: Arc<Gpu>,
    pub(super) staging: Staging,
    pub(super) landing: Landing,
    pub(super) selection: Selection,
    pub(super) buffers: ReadBuffers,
    pub(super) history: LogitHistory,
    pub(super) prefetched: PrefetchCache,
    /// Rows that a step may prefetch beyond what is expected.
    pub(crate) prefetch_budget: usize,
}

/// The buffers that reading computes in. They grow when a read needs more, and never shrink.
pub(super) struct ReadBuffers {
    /// Outputs of the last block.
    pub(super) finished: Buffer<f32>,
    pub(super) logits: Buffer<f32>,
    /// Summaries of the stretches of projected rows.
    pub(super) parts: Buffer<Summary>,
    /// Summaries of the requested rows.
    pub(super) outcomes: Buffer<Summary>,
    /// For each request of a read that scores decide, the candidate that was chosen, and its score.
    pub(super) chosen: Buffer<u32>,
    pub(super) values: Buffer<f64>,
}

impl Reader {
    pub(crate) fn new(gpu: &Arc<Gpu>, architecture: &Architecture) -> Result<Self> {
        Ok(Self {
            gpu: gpu.clone(),
            staging: Staging::new(gpu)?,
            landing: Landing::new(gpu)?,
            selection: Selection::default(),
            buffers: ReadBuffers {
                finished: Buffer::new(gpu, 0)?,
                logits: Buffer::new(gpu, 0)?,
                parts: Buffer::new(gpu, 0)?,
                outcomes: Buffer::new(gpu, 0)?,
                chosen: Buffer::new(gpu, 0)?,
                values: Buffer::new(gpu, 0)?,
            },
            history: LogitHistory::new(gpu, architecture.vocabulary),
            prefetched: PrefetchCache::default(),
            prefetch_budget: default_budget(architecture),
        })
    }

    /// The beliefs at `rows`: prefetched ones as they are, the others with a wait. Credit is added on the host.
    pub(crate) fn read(
        &mut self,
        forward: &mut Forward,
        layout: &Layout,
        rows: &[Row<'_>],
    ) -> lacuna::Result<Vec<Belief>> {
        let credited: Vec<&Row<'_>> = rows.iter().filter(|row| row.credit.is_some()).collect();
        let mut credited = self.beliefs_on_host(forward, layout, &credited)?.into_iter();
        let (mut beliefs, mut unread) = (Vec::with_capacity(rows.len()), Vec::new());
        for row in rows {
            let prefetched = match row.credit {
                Some(_) => credited.next(),
                None => self.prefetched.take(layout.place(row.view, row.target)?),
            };
            if prefetched.is_none() {
                unread.push(RowRequest::new(layout, row)?);
            }
            beliefs.push(prefetched);
        }
        let mut pending = None;
        if !unread.is_empty() {
            let rounds = [0, unread.len()];
            pending = Some(self.launch(forward, layout, unread, Vec::new(), &rounds)?);
            self.gpu.wait()?;
        }
        let Self { landing, history, .. } = self;
        let mut read = pending.map(|pending| pending.collect(landing, history)).into_iter().flatten();
        let mut next = || read.next().expect("what was not prefetched was read").1;
        beliefs.into_iter().map(|prefetched| prefetched.unwrap_or_else(&mut next)).collect()
    }

    /// The beliefs at rows whose logits the host gets.
    fn beliefs_on_host(
        &mut self,
        forward: &mut Forward,
        layout: &Layout,
        rows: &[&Row<'_>],
    ) -> Result<Vec<lacuna::Result<Belief>>> {
        let requests = rows.iter().map(|row| RowRequest::new(layout, row)).collect::<Result<Vec<_>>>()?;
        let mut logits = self.logits(forward, layout, requests.iter().map(|request| request.row))?;
        let guides = self.logits(forward, layout, requests.iter().filter_map(|request| request.guide))?;
        let guided = logits.iter_mut().zip(rows).filter_map(|(logits, row)| Some((logits, row.guide?)));
        guided.zip(&guides).for_each(|((logits, guide), unguided)| guide.mix(logits, unguided));
        Ok(logits.par_iter_mut().zip(rows).map(|(logits, row)| row.belief(logits, &mut None)).collect())
    }

    /// The logits of rows of the layout, as the model gives them.
    pub(crate) fn logits(
        &mut self,
        forward: &mut Forward,
        layout: &Layout,
        rows: impl Iterator<Item = usize>,
    ) -> Result<Vec<Vec<f32>>> {
        let vocabulary = forward.sizes.vocabulary;
        let (sampling, allowed) = (Sampling::default(), TokenSet::all_but(vocabulary, &[]));
        let asked = Row::new(0, Target::Position(0), &sampling, &allowed, Draw::new(0, 0, 0));
        let request = |row| RowRequest { asked, row, guide: None, history: None, read: ABSENT, verbatim: true };
        let requests: Vec<RowRequest<'_>> = rows.map(request).collect();
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        let mut logits = Vec::with_capacity(requests.len());
        for requests in requests.chunks(requests_at_once(layout, vocabulary, &requests)) {
            self.launch(forward, layout, requests.to_vec(), Vec::new(), &[0, requests.len()])?;
            let length = requests.len() * vocabulary;
            self.landing.begin(&[length * size_of::<f32>()])?;
            let fetched = self.landing.fetch(self.buffers.logits.slice(0..length))?;
            self.gpu.wait()?;
            logits.extend(self.landing.get(&fetched).chunks(vocabulary).map(<[f32]>::to_vec));
        }
        Ok(logits)
    }

    /// Drops what is remembered for a run.
    pub(crate) fn forget(&mut self, run: u64) {
        self.history.forget(|(remembered, _)| *remembered == run);
    }

    /// Bytes that reading `rows` rows at once needs at most: outputs of the last block, logits, and summaries of them.
    pub(crate) fn buffer_bytes(sizes: Sizes, rows: usize) -> usize {
        let parts = sizes.vocabulary.div_ceil(STRETCH) * size_of::<Summary>();
        let projected = parts + sizes.vocabulary * size_of::<f32>();
        padded(rows) * sizes.hidden * size_of::<f32>() + rows.min(BYTES_AT_ONCE / projected) * projected
    }
}
