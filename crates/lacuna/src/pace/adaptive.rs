//! Saber's first half.

use std::collections::BTreeMap;

use super::{Pace, Reads, SABER_N};
use crate::catalogue::Part;
use crate::{Block, Ranked, Result};

/// Saber's adaptive acceleration: every position more confident than committed ones were on average when they were committed,
/// and at least `least`.
#[derive(Clone, Debug)]
pub struct Adaptive {
    least: usize,
    committed: BTreeMap<usize, f64>,
}

pub(super) fn part() -> Part {
    let about = "all above the mean confidence of what was committed, at least saber_n (Saber's first half)";
    Part::pace("adaptive", about, |given| Ok(Box::new(Adaptive::new(given.integer("saber_n"))))).parameters(&[SABER_N])
}

impl Adaptive {
    /// At least `least` positions in every step.
    pub fn new(least: usize) -> Self {
        Self { least, committed: BTreeMap::new() }
    }
}

impl Pace for Adaptive {
    fn reads(&self, _block: &Block, _candidates: usize) -> Reads {
        Reads::All
    }

    fn choose(&mut self, ranked: &Ranked<'_>) -> Result<Vec<usize>> {
        let confidence = |rank: usize| ranked.beliefs()[rank].probability;
        let mean = match self.committed.len() {
            0 => 1.0,
            count => self.committed.values().sum::<f64>() / count as f64,
        };
        let above: Vec<usize> = (0..ranked.positions().len()).filter(|&rank| confidence(rank) > mean).collect();
        let all = 0..ranked.positions().len();
        let ranks: Vec<usize> = if above.len() < self.least { all.take(self.least).collect() } else { above };
        // A reopened position keeps its entry until it is committed again, as in the official code.
        self.committed.extend(ranks.iter().map(|&rank| (ranked.positions()[rank], confidence(rank))));
        Ok(ranks.into_iter().map(|rank| ranked.positions()[rank]).collect())
    }
}
