//! KLASS: positions that are confident and stable.

use std::collections::BTreeMap;

use super::{Entry, Pace, Reads, STEPS, Schedule, Timetable};
use crate::catalogue::{Default, Kind, Need, Parameter, Part, Range};
use crate::{Block, Ranked, Result};

/// Every position that is confident and whose distribution has been stable for the last few steps; if there is none, as many as
/// a schedule says (KLASS).
///
/// The divergence is KL(now ‖ before), as in the official code; the paper writes it the other way round.
#[derive(Clone, Debug)]
pub struct Stability {
    /// Confidence to exceed.
    pub confidence: f64,
    /// Divergence to stay below.
    pub divergence: f64,
    /// Number of steps.
    pub history: usize,
    /// Used when nothing is stable.
    pub fallback: Schedule,
    stable: BTreeMap<usize, usize>,
}

const CONF_THRESHOLD: Parameter = Parameter::new(
    "conf_threshold",
    Kind::Number(Range::closed(0.0, 1.0)),
    Default::Number(0.9),
    "confidence to exceed",
);
const KL_THRESHOLD: Parameter = Parameter::new(
    "kl_threshold",
    Kind::Number(Range::above(0.0, 100.0)),
    Default::Number(0.01),
    "divergence from the step before to stay below",
);
const HISTORY: Parameter = Parameter::new(
    "history",
    Kind::Integer { least: 1, most: 1024 },
    Default::Number(2.0),
    "number of steps for which it must stay below",
);

pub(super) fn part() -> Part {
    Part::pace("klass", "all that are confident and stable (KLASS)", |given| {
        let fallback = Schedule::new(Timetable::Llada, given.optional_integer("steps"));
        let (confidence, divergence) = (given.number("conf_threshold"), given.number("kl_threshold"));
        Ok(Box::new(Stability::new(confidence, divergence, given.integer("history"), fallback)))
    })
    .needs(&[Need::PreviousBeliefs])
    .parameters(&[CONF_THRESHOLD, KL_THRESHOLD, HISTORY, STEPS])
}

impl Stability {
    /// A stability rule that has seen nothing yet.
    pub fn new(confidence: f64, divergence: f64, history: usize, fallback: Schedule) -> Self {
        Self { confidence, divergence, history, fallback, stable: BTreeMap::new() }
    }
}

impl Pace for Stability {
    fn enter(&mut self, entry: &Entry<'_>) -> Result<()> {
        self.stable.clear();
        // KLASS's code for Dream falls back to one token, whatever the steps.
        if entry.model.shifted {
            self.fallback.one_by_one();
        }
        self.fallback.enter(entry)
    }

    fn reads(&self, _block: &Block, _candidates: usize) -> Reads {
        Reads::All
    }

    fn choose(&mut self, ranked: &Ranked<'_>) -> Result<Vec<usize>> {
        let mut ready = Vec::new();
        for (&position, belief) in ranked.positions().iter().zip(ranked.beliefs()) {
            let stable = self.stable.entry(position).or_default();
            let moved = belief.divergence.is_none_or(|divergence| divergence >= self.divergence);
            *stable = if moved { 0 } else { *stable + 1 };
            if *stable >= self.history && belief.probability > self.confidence {
                ready.push(position);
            }
        }
        if ready.is_empty() {
            ready = ranked.first(self.fallback.count(ranked.block().step, ranked.positions().len()).max(1));
        }
        Ok(ready)
    }

    fn compares(&self) -> bool {
        true
    }
}
