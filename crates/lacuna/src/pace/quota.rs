//! As many as a block's schedule promises, or all that are confident.

use super::{Entry, Pace, Reads, THRESHOLD};
use crate::catalogue::{Default, Kind, Parameter, Part};
use crate::{Block, Error, Ranked, Result};

/// Every position whose confidence exceeds the threshold, if they are as many as the step's quota; else the first of the ranking, as
/// many as the quota (SDAR, LLaDA2). Without a threshold always the quota.
///
/// The quota of a step is its even share of the block, masked or not, or a fixed number.
#[derive(Clone, Debug)]
pub struct Quota {
    /// Confidence to exceed.
    pub threshold: Option<f64>,
    /// Steps of a block; one per position if not given.
    pub steps: Option<usize>,
    /// Quota of every step, in place of a share.
    pub fixed: Option<usize>,
    length: usize,
}

const BLOCK_STEPS: Parameter = Parameter::new(
    "block_steps",
    Kind::Integer { least: 1, most: 65_536 },
    Default::Depends("one per position of the block"),
    "steps of a block; each commits at least its even share of the block",
);
const MIN_COMMIT: Parameter = Parameter::new(
    "min_commit",
    Kind::Integer { least: 1, most: 65_536 },
    Default::Depends("the share by block_steps"),
    "least number of tokens in a step",
);

pub(super) fn part() -> Part {
    let about = "all whose confidence exceeds threshold, at least the step's share of the block (SDAR, LLaDA2)";
    Part::pace("quota", about, |given| {
        let (steps, fixed) = (given.optional_integer("block_steps"), given.optional_integer("min_commit"));
        if steps.is_some() && fixed.is_some() {
            return Err(Error::unused("block_steps", "a fixed least number of tokens"));
        }
        Ok(Box::new(Quota { threshold: given.optional_number("threshold"), steps, fixed, length: 1 }))
    })
    .parameters(&[THRESHOLD.default(Default::Depends("none: the share alone")), BLOCK_STEPS, MIN_COMMIT])
}

impl Quota {
    /// The quota of a step of the block.
    fn count(&self, step: usize) -> usize {
        let steps = self.steps.unwrap_or(self.length);
        let share = self.length / steps + usize::from(step < self.length % steps);
        self.fixed.unwrap_or(share).max(1)
    }
}

impl Pace for Quota {
    fn enter(&mut self, entry: &Entry<'_>) -> Result<()> {
        self.length = entry.length;
        Ok(())
    }

    fn reads(&self, block: &Block, _candidates: usize) -> Reads {
        if self.threshold.is_some() { Reads::All } else { Reads::First(self.count(block.step)) }
    }

    fn choose(&mut self, ranked: &Ranked<'_>) -> Result<Vec<usize>> {
        let quota = self.count(ranked.block().step);
        let Some(threshold) = self.threshold else { return Ok(ranked.first(quota)) };
        let confident = ranked.filter(|rank| ranked.beliefs()[rank].probability > threshold);
        Ok(if confident.len() >= quota { confident } else { ranked.first(quota) })
    }
}
