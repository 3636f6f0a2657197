//! Reading beliefs: the vocabulary projection, a few rows at a time.

use std::collections::HashMap;

use lacuna::{Belief, Previous, Row};
use rayon::prelude::*;

use super::attention::tile_rows;
use super::belief::fast_belief;
use super::forward::Forward;
use super::kernel::Lines;
use crate::Result;
use crate::layout::{Layout, Selection};

/// Rows whose logits exist at the same time.
const CHUNK: usize = 64;

/// Buffers for reading beliefs, and the state remembered between steps.
#[derive(Default)]
pub(crate) struct Reader {
    requests: Vec<Request>,
    needed: Vec<usize>,
    selection: Selection,
    finished: Lines<f32>,
    sources: Vec<usize>,
    logits: Lines<f32>,
    remembered: HashMap<(u64, usize), Previous>,
}

impl Reader {
    /// The beliefs at `rows`; `finish` gives the output of the last block for a selection.
    pub(crate) fn read(
        &mut self,
        forward: &mut Forward,
        layout: &Layout,
        rows: &[Row<'_>],
        finish: impl FnOnce(&mut Forward, &Selection, &mut Lines<f32>),
    ) -> lacuna::Result<Vec<Belief>> {
        let Self { requests, needed, selection, finished, .. } = self;
        requests.clear();
        needed.clear();
        for row in rows {
            let request = Request::new(layout, row)?;
            needed.extend([Some(request.row), request.guide].into_iter().flatten());
            requests.push(request);
        }
        needed.sort_unstable();
        needed.dedup();
        selection.select(layout, needed.iter().copied(), tile_rows());
        finish(forward, selection, finished);

        let mut beliefs = Vec::with_capacity(rows.len());
        for (first, rows) in (0..).step_by(CHUNK).zip(rows.chunks(CHUNK)) {
            self.read_chunk(forward, first, rows, &mut beliefs)?;
        }
        Ok(beliefs)
    }

    /// The beliefs at `rows`, which are those asked for from number `first` on.
    fn read_chunk(
        &mut self,
        forward: &mut Forward,
        first: usize,
        rows: &[Row<'_>],
        beliefs: &mut Vec<Belief>,
    ) -> lacuna::Result<()> {
        let Self { requests, selection, finished, sources, logits, remembered, .. } = self;
        let requests = &mut requests[first..first + rows.len()];
        let index = |row: usize| selection.rows.binary_search(&row).expect("every needed row is selected");
        sources.clear();
        sources.extend(requests.iter().map(|request| index(request.row)));
        for request in requests.iter_mut() {
            if let Some(guide) = request.guide {
                request.unguided = sources.len() - rows.len();
                sources.push(index(guide));
            }
        }
        forward.project(finished, sources, logits);

        let vocabulary = forward.weights.head.n();
        let (logits, unguided) = logits.split_at_mut(rows.len() * vocabulary);
        for (request, row) in requests.iter_mut().zip(rows) {
            request.previous = row.remember.then(|| remembered.remove(&request.key)).flatten();
        }
        let read = |((request, row), logits): ((&mut Request, &Row<'_>), &mut [f32])| {
            if let Some(guide) = row.guide {
                let unguided = &unguided[request.unguided * vocabulary..][..vocabulary];
                guide.mix(logits, unguided);
            }
            request.belief = Some(fast_belief(row, logits, &mut request.previous));
        };
        let tasks = requests.par_iter_mut().zip(rows).zip(logits.par_chunks_exact_mut(vocabulary));
        tasks.for_each(read);
        for request in requests {
            if let Some(previous) = request.previous.take() {
                remembered.insert(request.key, previous);
            }
            beliefs.push(request.belief.take().expect("every row was read")?);
        }
        Ok(())
    }

    /// The logits of rows of the layout, which ascend, as the model gives them.
    pub(crate) fn logits(&mut self, forward: &mut Forward, layout: &Layout, rows: &[usize]) -> Vec<Vec<f32>> {
        self.selection.select(layout, rows.iter().copied(), tile_rows());
        forward.finish(layout, &self.selection, &mut self.finished);
        let length = self.selection.len();
        let mut all = Vec::with_capacity(length);
        for start in (0..length).step_by(CHUNK) {
            let rows: Vec<usize> = (start..length.min(start + CHUNK)).collect();
            forward.project(&self.finished, &rows, &mut self.logits);
            all.extend(self.logits.chunks_exact(forward.weights.head.n()).map(<[f32]>::to_vec));
        }
        all
    }

    /// Drops what is remembered for a run.
    pub(crate) fn forget(&mut self, run: u64) {
        self.remembered.retain(|(remembered, _), _| *remembered != run);
    }

    /// Bytes that reading `rows` rows at once needs.
    pub(crate) fn buffer_bytes(forward: &Forward, rows: usize) -> usize {
        rows.min(CHUNK) * forward.weights.head.n() * size_of::<f32>()
    }
}

/// A row to read, found in the layout, and what comes of it.
struct Request {
    row: usize,
    guide: Option<usize>,
    /// Index of its guiding row in the chunk, if it has one.
    unguided: usize,
    key: (u64, usize),
    previous: Option<Previous>,
    belief: Option<lacuna::Result<Belief>>,
}

impl Request {
    fn new(layout: &Layout, asked: &Row<'_>) -> Result<Self> {
        let row = layout.row(asked.view, asked.target)?;
        let guide = asked.guide.map(|guide| layout.row(guide.view, asked.target)).transpose()?;
        let key = (layout.spans[asked.view].run, asked.target.position());
        Ok(Self { row, guide, unguided: 0, key, previous: None, belief: None })
    }
}
