//! Prefetching: rows that a plan announces are read together with the forward pass.

use lacuna::{Belief, RankByAttention, View};

use super::super::forward::Forward;
use super::super::kernel::{ABSENT, to_u32};
use super::collect::Pending;
use super::rank::{RankedRead, ViewScores};
use super::reader::Reader;
use super::request::RowRequest;
use crate::layout::Layout;
use crate::weight::read_flops;
use crate::{Architecture, Result};

/// Rows that a step may prefetch beyond what is expected: they are on the tiles of those that are, and cost next to nothing.
const BUDGET: usize = 64;
/// Operations that this may take where rows are cheap.
const BUDGET_OPERATIONS: f64 = 4e9;

/// The default prefetch budget in rows.
pub(super) fn default_budget(architecture: &Architecture) -> usize {
    BUDGET.max((BUDGET_OPERATIONS / read_flops(architecture)) as usize)
}

/// Beliefs that were prefetched for the views observed last, by the places of their layout.
#[derive(Default)]
pub(super) struct PrefetchCache {
    beliefs: Vec<Option<lacuna::Result<Belief>>>,
    /// The belief of each place, or [`ABSENT`].
    places: Vec<u32>,
}

impl PrefetchCache {
    /// Drops everything, to begin with a new layout.
    fn clear(&mut self, layout: &Layout) {
        self.beliefs.clear();
        self.places.clear();
        self.places.resize(layout.places(), ABSENT);
    }

    fn insert(&mut self, place: usize, belief: lacuna::Result<Belief>) {
        self.places[place] = to_u32(self.beliefs.len());
        self.beliefs.push(Some(belief));
    }

    pub(super) fn take(&mut self, place: usize) -> Option<lacuna::Result<Belief>> {
        self.beliefs.get_mut(*self.places.get(place)? as usize)?.take()
    }
}

impl Reader {
    /// Drops what was prefetched, because views are observed anew.
    pub(crate) fn clear_prefetched(&mut self, layout: &Layout) {
        self.prefetched.clear(layout);
    }

    /// Launches the reads that the plans of `views` announce, with as many rows more as cost next to nothing.
    pub(crate) fn prefetch<'a>(
        &mut self,
        forward: &mut Forward,
        layout: &Layout,
        views: &[View<'a>],
    ) -> Result<Option<Pending<'a>>> {
        let open_ended = views.iter().filter(|view| view.plan.expected < view.plan.most).count();
        let budget = self.prefetch_budget.div_ceil(open_ended.max(1));
        let (mut requests, mut reads, mut begin) = (Vec::new(), Vec::new(), 0);
        for (index, View { plan, tokens, attention, .. }) in views.iter().enumerate() {
            let (tokens, rank) = (tokens.len(), plan.rank);
            let scores =
                rank.map(|RankByAttention { sources, temperature }| ViewScores { begin, tokens, sources, temperature });
            begin += attention.len() * tokens;
            let plain = plan.certain.iter().filter(|row| row.credit.is_none());
            requests.extend(plain.map(|row| RowRequest::new(layout, row)).collect::<Result<Vec<_>>>()?);
            // A plan that ranks by scores that there are not is not followed.
            let has_scores = |rank: RankByAttention| {
                (1..=attention.len()).contains(&rank.sources) && plan.ranked.iter().all(|row| row.view == index)
            };
            if rank.is_none_or(has_scores) {
                reads.push(RankedRead::new(layout, plan, scores, budget)?);
            }
        }
        let mut rounds = vec![0];
        for round in 1.. {
            for (number, read) in reads.iter_mut().enumerate() {
                let first = requests.len();
                requests.extend(read.round(round, number, first));
            }
            if rounds.last() == Some(&requests.len()) {
                break;
            }
            rounds.push(requests.len());
        }
        if requests.is_empty() {
            return Ok(None);
        }
        self.launch(forward, layout, requests, reads, &rounds).map(Some)
    }

    /// Takes in what was prefetched, now that it is here.
    pub(crate) fn store_prefetched(&mut self, layout: &Layout, pending: Option<Pending<'_>>) -> Result<()> {
        let Self { landing, history, prefetched, .. } = self;
        for (request, belief) in pending.map(|pending| pending.collect(landing, history)).into_iter().flatten() {
            prefetched.insert(layout.place(request.asked.view, request.asked.target)?, belief);
        }
        Ok(())
    }
}
