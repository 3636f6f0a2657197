//! Paces: how many of the ranked positions to commit in one step.

mod adaptive;
mod bound;
mod credit;
mod dawn;
mod draft;
mod factor;
mod groups;
mod leap;
mod prophet;
mod quota;
mod schedule;
mod share;
mod stability;
mod threshold;
mod top;
mod unroll;

use std::fmt::Debug;

use dyn_clone::DynClone;

pub use adaptive::Adaptive;
pub use bound::Bound;
pub use credit::{CreditRule, CreditThreshold};
pub use dawn::Dawn;
pub use draft::Draft;
pub use factor::Factor;
pub use groups::Hierarchy;
pub(crate) use groups::{Groups, LOW_THRESHOLD, OPTIONAL_THRESHOLD, REMASK_THRESHOLD};
pub use leap::LocalLeap;
pub use prophet::Prophet;
pub use quota::Quota;
pub(crate) use schedule::steps_in_block;
pub use schedule::{Schedule, Timetable};
pub use share::Plan;
pub(crate) use share::Shares;
pub use stability::Stability;
pub use threshold::{ScoreThreshold, Threshold};
pub use top::TopK;
pub(crate) use top::number_of;

use crate::catalogue::{Default, Kind, Parameter, Part, Range};
use crate::{Block, Canvas, Description, Ranked, Result, StopRule, Target};

/// Chooses the positions to commit from a ranking.
pub trait Pace: DynClone + Debug + Send + Sync {
    /// Part of the ranking that it reads, when `candidates` positions are ranked.
    fn reads(&self, block: &Block, candidates: usize) -> Reads;

    /// The positions to commit now, of those that are ranked. At least one, unless it follows a schedule.
    fn choose(&mut self, ranked: &Ranked<'_>) -> Result<Vec<usize>>;

    /// Rows beside the ranking whose beliefs it uses ([`StepContext::belief`](crate::StepContext::belief)).
    fn rows(&self, _canvas: &Canvas, _block: &Block) -> Vec<Target> {
        Vec::new()
    }

    /// A block begins.
    fn enter(&mut self, _entry: &Entry<'_>) -> Result<()> {
        Ok(())
    }

    /// True if it uses the divergence of a belief from the one before ([`Belief::divergence`](crate::Belief::divergence)). The
    /// first step of a block is compared with the last step of the block before, which therefore reads both blocks.
    fn compares(&self) -> bool {
        false
    }

    /// True if it takes a fixed number of steps, some of which may commit nothing.
    fn is_scheduled(&self) -> bool {
        false
    }

    /// True if a step may commit nothing.
    fn may_wait(&self) -> bool {
        self.is_scheduled()
    }

    /// True if it may choose masked positions behind the window's end.
    fn exceeds_window(&self) -> bool {
        false
    }

    /// True if the block takes another pass after this one even if nothing is masked, as in code that tests for that only now and
    /// then.
    fn needs_another_pass(&self, _block: &Block) -> bool {
        false
    }

    /// Credit that tokens gather from step to step, if it gives any. All beliefs of masked positions have it in their logits.
    fn credit(&self) -> Option<CreditRule> {
        None
    }

    /// Layers whose whole attention matrix it uses, averaged ([`StepContext::attention`](crate::StepContext::attention)).
    fn matrix(&self, _model: &Description) -> Vec<usize> {
        Vec::new()
    }

    /// Upper bound on the positions committed in a step, if there is a fixed one.
    fn max_commits(&self) -> Option<usize> {
        None
    }
}

dyn_clone::clone_trait_object!(Pace);

/// Part of a ranking that a pace reads. Its beliefs reach [`Pace::choose`] in ranking order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reads {
    /// The first positions, at most so many.
    First(usize),
    /// All of it.
    All,
    /// Down the ranking while a rule holds.
    While(StopRule),
}

/// A block that begins.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Masked positions before the block's end, and those of a draft in it, which may be masked again.
    pub masks: usize,
    /// Decided positions of a draft in the block.
    pub drafts: usize,
    /// Length of the block.
    pub length: usize,
    /// Number of blocks that the steps of a schedule are divided by.
    pub blocks: usize,
    /// The model.
    pub model: &'a Description,
}

/// The confidence to reach.
pub(crate) const THRESHOLD: Parameter = Parameter::new(
    "threshold",
    Kind::Number(Range::above(0.0, 1.0)),
    Default::Number(0.95),
    "confidence to reach; for score-threshold the order's score to reach",
);
/// Steps of a schedule.
pub(crate) const STEPS: Parameter = Parameter::new(
    "steps",
    Kind::Integer { least: 1, most: 65_536 },
    Default::Depends("one per token"),
    "steps for the whole canvas; klass falls back to their schedule",
);
/// Least number of tokens in a step of Saber.
pub(crate) const SABER_N: Parameter = Parameter::new(
    "saber_n",
    Kind::Integer { least: 1, most: 65_536 },
    Default::Number(2.0),
    "least number of tokens in a step",
);

pub(crate) fn parts() -> Vec<Part> {
    [
        vec![top::part()],
        bound::parts(),
        threshold::parts(),
        vec![
            quota::part(),
            leap::part(),
            credit::part(),
            dawn::part(),
            groups::part(),
            factor::part(),
            stability::part(),
            schedule::part(),
            prophet::part(),
        ],
        vec![share::part(), draft::part(), adaptive::part()],
    ]
    .into_iter()
    .flatten()
    .collect()
}
