//! Reading beliefs: the vocabulary projection, a few rows at a time.

use std::collections::HashMap;

use lacuna::{Belief, Place, Previous, Row};
use rayon::prelude::*;

use super::forward::Forward;
use super::kernel::Lines;
use super::layout::{Layout, Selection};
use crate::Result;

/// Rows whose logits exist at the same time.
const CHUNK: usize = 64;

/// What reading computes in, and what it remembers from step to step.
#[derive(Default)]
pub(crate) struct Reader {
    finished: Lines<f32>,
    logits: Lines<f32>,
    remembered: HashMap<(u64, usize), Previous>,
}

impl Reader {
    /// The beliefs at `rows`.
    pub(crate) fn read(
        &mut self,
        forward: &mut Forward,
        layout: &Layout,
        rows: &[Row<'_>],
    ) -> lacuna::Result<Vec<Belief>> {
        let requests = rows.iter().map(|row| Request::new(layout, row)).collect::<Result<Vec<_>>>()?;
        let mut needed: Vec<usize> =
            requests.iter().flat_map(|request| [Some(request.row), request.guide]).flatten().collect();
        needed.sort_unstable();
        needed.dedup();
        let selection = Selection::new(layout, needed);
        forward.finish(layout, &selection, &mut self.finished);

        let mut beliefs = Vec::with_capacity(rows.len());
        for requests in requests.chunks(CHUNK) {
            self.read_chunk(forward, &selection, requests, &mut beliefs)?;
        }
        Ok(beliefs)
    }

    fn read_chunk(
        &mut self,
        forward: &mut Forward,
        selection: &Selection,
        requests: &[Request<'_>],
        beliefs: &mut Vec<Belief>,
    ) -> lacuna::Result<()> {
        let index = |row: usize| selection.rows.binary_search(&row).expect("every needed row is selected");
        let guided = requests.iter().filter_map(|request| request.guide);
        let sources: Vec<usize> = requests.iter().map(|request| request.row).chain(guided).map(index).collect();
        forward.project(&self.finished, &sources, &mut self.logits);

        let previous: Vec<Option<Previous>> = requests
            .iter()
            .map(|request| request.asked.remember.then(|| self.remembered.remove(&request.key)).flatten())
            .collect();
        let vocabulary = forward.weights.head.n();
        let (logits, unguided) = self.logits.split_at_mut(requests.len() * vocabulary);
        let mut guides = unguided.chunks_exact(vocabulary);
        let guides: Vec<Option<&[f32]>> =
            requests.iter().map(|request| request.guide.and_then(|_| guides.next())).collect();

        let tasks = logits.par_chunks_exact_mut(vocabulary).zip(requests).zip(guides).zip(previous);
        let read: Vec<(lacuna::Result<Belief>, Option<Previous>)> = tasks
            .map(|(((logits, request), unguided), mut previous)| {
                if let (Some(guide), Some(unguided)) = (request.asked.guide, unguided) {
                    for (logit, unguided) in logits.iter_mut().zip(unguided) {
                        *logit = unguided + (guide.scale + 1.0) * (*logit - unguided);
                    }
                }
                let belief = request.asked.believe(logits, &mut previous);
                (belief, previous)
            })
            .collect();
        for ((belief, previous), request) in read.into_iter().zip(requests) {
            if let Some(previous) = previous {
                self.remembered.insert(request.key, previous);
            }
            beliefs.push(belief?);
        }
        Ok(())
    }

    /// The logits of all tokens of a view, row by row, as the model gives them.
    pub(crate) fn logits(&mut self, forward: &mut Forward, layout: &Layout, view: usize) -> Result<Vec<Vec<f32>>> {
        let first = layout.row(view, Place::At(0))?;
        let rows: Vec<usize> = (first..first + layout.spans[view].tokens).collect();
        let selection = Selection::new(layout, rows);
        forward.finish(layout, &selection, &mut self.finished);
        let mut all = Vec::with_capacity(selection.len());
        for start in (0..selection.len()).step_by(CHUNK) {
            let rows: Vec<usize> = (start..selection.len().min(start + CHUNK)).collect();
            forward.project(&self.finished, &rows, &mut self.logits);
            all.extend(self.logits.chunks_exact(forward.weights.head.n()).map(<[f32]>::to_vec));
        }
        Ok(all)
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

/// A row to read, found in the layout.
struct Request<'a> {
    asked: &'a Row<'a>,
    row: usize,
    guide: Option<usize>,
    key: (u64, usize),
}

impl<'a> Request<'a> {
    fn new(layout: &Layout, asked: &'a Row<'a>) -> Result<Self> {
        let row = layout.row(asked.view, asked.place)?;
        let guide = asked.guide.map(|guide| layout.row(guide.view, asked.place)).transpose()?;
        Ok(Self { asked, row, guide, key: (layout.spans[asked.view].run, asked.place.position()) })
    }
}
