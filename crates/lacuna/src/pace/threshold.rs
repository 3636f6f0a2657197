//! Every position that reaches a threshold.

use super::{Pace, Reads, STEPS, Schedule, THRESHOLD, Timetable};
use crate::catalogue::{Default, Kind, Part, Range};
use crate::{Block, Ranked, Result, StopRule};

/// The first of the ranking and every position whose confidence reaches the threshold (Fast-dLLM).
#[derive(Clone, Debug)]
pub struct Threshold(pub f64);

/// The first of the ranking and every position whose score in the order reaches the threshold.
#[derive(Clone, Debug)]
pub struct ScoreThreshold(pub f64);

pub(super) fn parts() -> Vec<Part> {
    let any = Kind::Number(Range::closed(f64::NEG_INFINITY, f64::INFINITY));
    vec![
        Part::pace("threshold", "the first, and all whose confidence reaches threshold (Fast-dLLM)", |given| {
            Ok(Box::new(Threshold(given.number("threshold"))))
        })
        .parameters(&[THRESHOLD]),
        Part::pace("score-threshold", "the first, and all whose score in the order reaches threshold", |given| {
            Ok(Box::new(ScoreThreshold(given.number("threshold"))))
        })
        .parameters(&[THRESHOLD.kind(any).default(Default::Required)]),
        Part::pace("threshold-or-schedule", "threshold if one is given, else LLaDA's schedule (DSB)", |given| {
            Ok(match given.has("threshold") {
                true => Box::new(Threshold(given.number("threshold"))),
                false => Box::new(Schedule::new(Timetable::Llada, given.optional_integer("steps"))),
            })
        })
        .parameters(&[THRESHOLD.default(Default::Depends("a schedule instead")), STEPS]),
    ]
}

impl Pace for Threshold {
    fn reads(&self, _block: &Block, _candidates: usize) -> Reads {
        Reads::All
    }

    fn choose(&mut self, ranked: &Ranked<'_>) -> Result<Vec<usize>> {
        let reaches = |rank: usize| rank == 0 || ranked.beliefs()[rank].probability >= self.0;
        Ok(ranked.filter(reaches))
    }
}

impl Pace for ScoreThreshold {
    fn reads(&self, _block: &Block, _candidates: usize) -> Reads {
        Reads::While(StopRule::Score(self.0))
    }

    fn choose(&mut self, ranked: &Ranked<'_>) -> Result<Vec<usize>> {
        Ok(ranked.first(StopRule::Score(self.0).prefix(ranked.scores(), ranked.beliefs())))
    }
}
