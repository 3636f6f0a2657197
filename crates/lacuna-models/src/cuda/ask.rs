//! Rows to read, as they are found in the layout.

use lacuna::{Measure, ReadPlan, Row, Sampling, StopRule, Target, TokenRule};

use super::kernel::{self, Look, NOBODY};
use crate::Result;
use crate::layout::Layout;

/// A row to read, found in the layout.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) asked: Row<'a>,
    pub(crate) row: usize,
    /// The row to push away from.
    pub(crate) guide: Option<usize>,
    /// What it is remembered under.
    pub(crate) key: Option<(u64, usize)>,
    /// The line to which it belongs, or [`NOBODY`].
    pub(crate) line: u32,
    /// Whether its logits are wanted themselves.
    pub(crate) verbatim: bool,
}

impl<'a> Ask<'a> {
    pub(crate) fn new(layout: &Layout, asked: &Row<'a>) -> Result<Self> {
        Ok(Self {
            asked: *asked,
            row: layout.row(asked.view, asked.target)?,
            guide: asked.guide.map(|guide| layout.row(guide.view, asked.target)).transpose()?,
            key: asked.remember.then(|| (layout.spans[asked.view].run, asked.target.position())),
            line: NOBODY,
            verbatim: false,
        })
    }

    pub(crate) fn all(layout: &Layout, asked: &[Row<'a>]) -> Result<Vec<Self>> {
        asked.iter().map(|row| Self::new(layout, row)).collect()
    }

    /// How many rows are projected for it.
    pub(crate) fn projected(&self) -> usize {
        1 + usize::from(self.guide.is_some())
    }

    /// How many rows of logits are written for it: none if what tiles of them tell is enough.
    pub(crate) fn written(&self) -> usize {
        let known = self.verbatim || self.guide.is_some() || takes_a_second_look(self.asked.sampling);
        if known { self.projected() } else { 0 }
    }
}

/// Rows of one view that are read one after the other, in rounds, each [`GROWTH`] times as far as the one before, for as long as
/// it takes. They are alike in all but what they read and draw.
pub(crate) struct Line<'a> {
    /// All that might be read: in this order, unless scores decide.
    pub(crate) candidates: Vec<Ask<'a>>,
    pub(crate) scores: Option<Scores>,
    /// How many are read in the first round, and in all.
    first: usize,
    most: usize,
    stop: Option<StopRule>,
    /// The number of each ask.
    pub(crate) asks: Vec<u32>,
}

/// The scores of a view on the GPU: where they begin, of how many tokens, how many sources are averaged, and at which temperature
/// the order is drawn.
#[derive(Clone, Copy)]
pub(crate) struct Scores {
    pub(crate) begin: usize,
    pub(crate) tokens: usize,
    pub(crate) sources: usize,
    pub(crate) temperature: f64,
}

/// Candidates at most: their scores fit into shared memory.
const CANDIDATES: usize = 6000;
/// How much further a round reads; kernels have it as a shift.
const GROWTH: usize = 4;

impl<'a> Line<'a> {
    /// What is to be read of what a view ranks; about `spare` rows cost next to nothing.
    pub(crate) fn new(layout: &Layout, plan: &ReadPlan<'a>, scores: Option<Scores>, spare: usize) -> Result<Self> {
        let &ReadPlan { certain, ranked, expected, most, stop, .. } = plan;
        let candidates = Ask::all(layout, ranked)?;
        let known = match stop {
            None => false,
            Some(StopRule::Sum { .. }) => true,
            Some(StopRule::Score(_)) => scores.is_some(),
        };
        let most = if scores.is_some() && !can_be_chosen_from(&candidates, certain) {
            0
        } else if candidates.iter().any(|ask| ask.key.is_some()) {
            // Nothing is remembered that nobody asked for.
            expected
        } else if known {
            most
        } else {
            most.min(expected.max(spare))
        };
        let most = most.min(candidates.len());
        let mut first = expected.max(1);
        while first < spare {
            first *= 2;
        }
        let first = first.min(most);
        let some = 0 < first && first < candidates.len();
        Ok(Self { scores: scores.filter(|_| some), candidates, first, most, stop, asks: Vec::new() })
    }

    /// How many have been read after so many rounds.
    pub(crate) fn end(&self, rounds: u32) -> usize {
        rounds.checked_sub(1).map_or(0, |more| self.first.saturating_mul(GROWTH.saturating_pow(more)).min(self.most))
    }

    /// The asks of a round, which will be number `first` and so on among all.
    pub(crate) fn round(&mut self, round: u32, line: usize, first: usize) -> impl Iterator<Item = Ask<'a>> {
        let its = self.end(round - 1)..self.end(round);
        self.asks.extend((first as u32..).take(its.len()));
        self.candidates[its].iter().map(move |ask| Ask { line: line as u32, ..*ask })
    }

    /// What the GPU must know, if its asks are listed from `asks` on.
    pub(crate) fn told(&self, asks: usize) -> kernel::Line {
        let (bound, rule) = match self.stop {
            None => (0.0, kernel::SCORE),
            Some(StopRule::Score(least)) => (least, kernel::SCORE),
            Some(StopRule::Sum { measure, spare_largest, bound }) => {
                let measure = match measure {
                    Measure::Entropy => kernel::ENTROPY,
                    Measure::Surprisal => kernel::SURPRISAL,
                };
                (bound, measure | if spare_largest { kernel::SPARE_LARGEST } else { 0 })
            }
        };
        let (asks, first, most) = (asks as u32, self.first as u32, self.most as u32);
        kernel::Line { bound, rule, asks, first, most, rounds: 1 }
    }

    /// What the GPU must know of its candidates.
    pub(crate) fn told_candidates(&self) -> impl Iterator<Item = kernel::Candidate> {
        let drawn = self.scores.is_some_and(|scores| scores.temperature > 0.0);
        self.candidates.iter().map(move |ask| kernel::Candidate {
            position: ask.asked.target.position() as u32,
            row: ask.row as u32,
            guide: ask.guide.map_or(NOBODY, |row| row as u32),
            draw: ask.asked.draw.key(),
            noise: if drawn { ask.asked.draw.order_noise() } else { 0.0 },
        })
    }
}

/// Whether the GPU can choose from these, which are ranked beside what is `sure` to be read of their view. What it chooses takes the
/// place of the first of them among the selected rows, so they must have places of their own, side by side, and nothing may be
/// kept for one rather than another.
fn can_be_chosen_from(candidates: &[Ask<'_>], sure: &[Row<'_>]) -> bool {
    let ascend = candidates.windows(2).all(|pair| pair[0].row < pair[1].row);
    let kept = candidates.iter().any(|ask| ask.key.is_some());
    let between = sure.iter().any(|row| matches!(row.target, Target::Position(_)));
    ascend && !kept && !between && candidates.len() <= CANDIDATES
}

/// Whether what a sampling shows can be told only once all logits are known: some tokens are to wait, or only the most probable count.
pub(crate) fn takes_a_second_look(sampling: &Sampling) -> bool {
    let truncated = matches!(sampling.rule, TokenRule::Nucleus { top_p, top_k, .. } if top_p < 1.0 || top_k > 0);
    truncated || !sampling.deferred.is_empty()
}

/// How the GPU is to look through a sampling, but for the tokens that are special to it.
pub(crate) fn look(sampling: &Sampling) -> Look {
    let (temper, noise, share, most) = match sampling.rule {
        TokenRule::Greedy => (1.0, 0.0, 1.0, 0),
        TokenRule::Gumbel { temperature } => (1.0, temperature, 1.0, 0),
        TokenRule::Nucleus { temperature, top_p, top_k } if temperature > 0.0 => (temperature, 1.0, top_p, top_k),
        TokenRule::Nucleus { top_p, top_k, .. } => (1.0, 0.0, top_p, top_k),
    };
    Look {
        guide: NOBODY,
        witness: NOBODY,
        line: NOBODY,
        again: u32::from(takes_a_second_look(sampling)),
        most: if most > 0 { u32::try_from(most).unwrap_or(u32::MAX) } else { u32::MAX },
        share,
        temper,
        noise,
        ..Look::default()
    }
}
