//! Fast-dLLM's factor.

use super::{Pace, Reads};
use crate::catalogue::{Default, Kind, Parameter, Part, Range};
use crate::{Block, Ranked, Result};

/// The longest prefix whose n-th member is confident enough for n at once: `(n + 1) (1 − p) ≤ f` (Fast-dLLM's factor).
#[derive(Clone, Debug)]
pub struct Factor(pub f64);

const FACTOR: Parameter = Parameter::new(
    "factor",
    Kind::Number(Range::above(0.0, 10_000.0)),
    Default::Number(1.0),
    "uncertainty that all tokens of a step may have together",
);

pub(super) fn part() -> Part {
    let about = "as long as the n-th is confident enough for n at once: (n + 1)(1 - p) <= factor (Fast-dLLM)";
    Part::pace("factor", about, |given| Ok(Box::new(Factor(given.number("factor"))))).parameters(&[FACTOR])
}

impl Pace for Factor {
    fn reads(&self, _block: &Block, _candidates: usize) -> Reads {
        Reads::All
    }

    fn choose(&mut self, ranked: &Ranked<'_>) -> Result<Vec<usize>> {
        let beliefs = ranked.beliefs();
        let fits = |rank: usize| (rank + 2) as f64 * (1.0 - beliefs[rank].probability) <= self.0;
        Ok(ranked.first((1..beliefs.len()).find(|&rank| !fits(rank)).unwrap_or(beliefs.len())))
    }
}
