//! WINO's second half.

use super::{Changes, Revision, lowest};
use crate::catalogue::{Default, Kind, Need, Parameter, Part, Range};
use crate::pace::Entry;
use crate::{Block, Canvas, Result, StepContext, Target};

const THRESHOLD_BACK: Parameter = Parameter::new(
    "threshold_back",
    Kind::Number(Range::closed(0.0, 1.0)),
    Default::Number(0.9),
    "tokens with less support than this are reopened",
);

pub(super) fn part() -> Part {
    let about = "tokens that the model doubts when it does not see them (WINO's second half)";
    Part::revision("verify", about, |given| Ok(Box::new(Verify::new(given.number("threshold_back")))))
        .needs(&[Need::Shadows])
        .parameters(&[THRESHOLD_BACK])
}

/// WINO's narrow-out: reopens tokens of the block that the model doubts once it sees everything around them but not themselves.
#[derive(Clone, Debug)]
pub struct Verify {
    threshold: f64,
    last_chosen: usize,
}

impl Verify {
    /// Tokens that the first verification of a block may reopen, as in WINO.
    const FIRST_REOPENED: usize = 30;

    /// Reopens tokens with less support than `threshold`.
    pub fn new(threshold: f64) -> Self {
        Self { threshold, last_chosen: Self::FIRST_REOPENED }
    }
}

impl Revision for Verify {
    fn enter(&mut self, _entry: &Entry<'_>) -> Result<()> {
        self.last_chosen = Self::FIRST_REOPENED;
        Ok(())
    }

    fn rows(&self, canvas: &Canvas, block: &Block) -> Vec<Target> {
        canvas.decided_in(block.range.clone()).map(Target::Shadow).collect()
    }

    /// A draft is verified before anything is written.
    fn only_revises(&self, canvas: &Canvas, block: &Block) -> bool {
        block.step == 0 && canvas.drafts_in(block.range.clone()).next().is_some()
    }

    /// A step that commits a single token is not verified.
    fn reads_after(&self, chosen: &[usize]) -> bool {
        chosen.len() != 1
    }

    fn revise(&mut self, chosen: &[usize], _filled: bool, context: &StepContext<'_>) -> Result<Changes> {
        let most = std::mem::replace(&mut self.last_chosen, chosen.len()).saturating_sub(1);
        let draft = chosen.is_empty() && self.only_revises(context.canvas(), context.block());
        if chosen.len() < 2 && !draft {
            return Ok(Changes::default());
        }
        let decided = context.canvas().decided_in(context.block().range.clone());
        let doubted =
            decided.map(|position| (position, context.support(position))).filter(|(_, s)| *s < self.threshold);
        Ok(Changes::reopen(lowest(doubted.collect(), most)))
    }

    fn shadows(&self) -> bool {
        true
    }

    fn settled(&self, block: &Block) -> usize {
        block.range.start
    }
}
