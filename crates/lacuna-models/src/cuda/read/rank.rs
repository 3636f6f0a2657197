//! Rows of a view that are read down a ranking, in rounds, until a stop rule holds.

use lacuna::{Measure, ReadPlan, Row, StopRule, Target};

use super::super::kernel::{
    self, ABSENT, Candidate, ENTROPY, ROUND_GROWTH, ReadState, SCORE, SPARE_LARGEST, SURPRISAL, to_u32,
};
use super::request::RowRequest;
use crate::Result;
use crate::layout::Layout;

/// A ranking that is read in rounds, each [`ROUND_GROWTH`] times as far as the one before. Its requests are alike in all but the
/// rows they read, the tokens that they allow and the random numbers they draw.
pub(super) struct RankedRead<'a> {
    /// All that might be read: in ranking order, unless scores decide.
    pub(super) candidates: Vec<RowRequest<'a>>,
    pub(super) scores: Option<ViewScores>,
    /// Rows read in the first round, and at most.
    first: usize,
    most: usize,
    stop: Option<StopRule>,
    /// The number of each of its requests among all.
    pub(super) requests: Vec<u32>,
}

/// The dependency scores of a view on the GPU, by which its rows are ranked.
#[derive(Clone, Copy)]
pub(super) struct ViewScores {
    /// Index of the first score.
    pub(super) begin: usize,
    pub(super) tokens: usize,
    /// Sources that are averaged.
    pub(super) sources: usize,
    /// Temperature at which the order is drawn; 0 if it is not.
    pub(super) temperature: f64,
}

/// Candidates of a ranking on the GPU at most: their scores fit into shared memory.
const MOST_CANDIDATES: usize = 6000;

impl<'a> RankedRead<'a> {
    /// The read that a plan announces; about `budget` rows cost next to nothing.
    pub(super) fn new(layout: &Layout, plan: &ReadPlan<'a>, scores: Option<ViewScores>, budget: usize) -> Result<Self> {
        let &ReadPlan { certain, ranked, expected, most, stop, .. } = plan;
        let candidates = RowRequest::all(layout, ranked)?;
        let stops_on_device = match stop {
            None => false,
            Some(StopRule::Sum { .. }) => true,
            Some(StopRule::Score(_)) => scores.is_some(),
        };
        let most = if scores.is_some() && !can_be_ranked_on_device(&candidates, certain) {
            0
        } else if candidates.iter().any(|request| request.history.is_some()) {
            // Nothing is remembered that nobody asked for.
            expected
        } else if stops_on_device {
            most
        } else {
            most.min(expected.max(budget))
        };
        let most = most.min(candidates.len());
        let mut first = expected.max(1);
        while first < budget {
            first *= 2;
        }
        let first = first.min(most);
        let needs_ranking = 0 < first && first < candidates.len();
        Ok(Self { scores: scores.filter(|_| needs_ranking), candidates, first, most, stop, requests: Vec::new() })
    }

    /// Rows that have been read after so many rounds.
    pub(super) fn end(&self, rounds: u32) -> usize {
        let growth = |more| self.first.saturating_mul(ROUND_GROWTH.saturating_pow(more)).min(self.most);
        rounds.checked_sub(1).map_or(0, growth)
    }

    /// The requests of a round; the first of them will be number `first` among all. This is read number `read`.
    pub(super) fn round(&mut self, round: u32, read: usize, first: usize) -> impl Iterator<Item = RowRequest<'a>> {
        let its = self.end(round - 1)..self.end(round);
        self.requests.extend((to_u32(first)..).take(its.len()));
        self.candidates[its].iter().map(move |request| RowRequest { read: to_u32(read), ..*request })
    }

    /// Its state on the GPU, if the numbers of its requests are listed from index `requests` on.
    pub(super) fn state(&self, requests: usize) -> ReadState {
        let (bound, rule) = match self.stop {
            None => (0.0, SCORE),
            Some(StopRule::Score(least)) => (least, SCORE),
            Some(StopRule::Sum { measure, spare_largest, bound }) => {
                let measure = match measure {
                    Measure::Entropy => ENTROPY,
                    Measure::Surprisal => SURPRISAL,
                };
                (bound, measure | if spare_largest { SPARE_LARGEST } else { 0 })
            }
        };
        let (first, most) = (to_u32(self.first), to_u32(self.most));
        ReadState { bound, rule, requests: to_u32(requests), first, most, rounds: 1 }
    }

    /// Its candidates on the GPU.
    pub(super) fn device_candidates(&self, sets: &[u32]) -> impl Iterator<Item = Candidate> {
        let drawn = self.scores.is_some_and(|scores| scores.temperature > 0.0);
        self.candidates.iter().zip(sets).map(move |(request, &set)| kernel::Candidate {
            position: to_u32(request.asked.target.position()),
            row: to_u32(request.row),
            guide: request.guide.map_or(ABSENT, to_u32),
            set,
            draw: request.asked.draw.key(),
            noise: if drawn { request.asked.draw.order_noise() } else { 0.0 },
        })
    }
}

/// True if the GPU can rank these candidates, beside the `certain` rows of their view. Those it chooses take the places of the first
/// candidates among the selected rows. So candidates must have places of their own, side by side, and nothing may be remembered
/// for one rather than another.
fn can_be_ranked_on_device(candidates: &[RowRequest<'_>], certain: &[Row<'_>]) -> bool {
    let ascend = candidates.windows(2).all(|pair| pair[0].row < pair[1].row);
    let remembers = candidates.iter().any(|request| request.history.is_some());
    let between = certain.iter().any(|row| matches!(row.target, Target::Position(_)));
    ascend && !remembers && !between && candidates.len() <= MOST_CANDIDATES
}
