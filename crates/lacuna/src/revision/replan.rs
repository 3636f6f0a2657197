//! P2's second half.

use super::{Changes, Ends, Revision};
use crate::catalogue::{Need, Part};
use crate::pace::{Entry, STEPS, Shares};
use crate::{Block, Canvas, Result, StepContext, Target};

/// P2's path planning: in every step the gaps of the block compete by confidence for a share of it that grows evenly, and
/// decided ones that have no place in it are reopened. With the pace [`Plan`](crate::Plan) this is P2.
#[derive(Clone, Debug)]
pub struct Replan(Shares);

pub(super) fn part() -> Part {
    let about =
        "tokens not among the best positions of the block, as many as the schedule allows by now (P2's second half)";
    Part::revision("replan", about, |given| Ok(Box::new(Replan::new(given.optional_integer("steps")))))
        .needs(&[Need::Beliefs])
        .parameters(&[STEPS])
}

impl Replan {
    /// The share grows to the whole in `steps` for the whole canvas, or in one step per masked position.
    pub fn new(steps: Option<usize>) -> Self {
        Self(Shares::new(steps))
    }
}

impl Revision for Replan {
    fn enter(&mut self, entry: &Entry<'_>) -> Result<()> {
        self.0.enter(entry)
    }

    fn rows(&self, canvas: &Canvas, block: &Block) -> Vec<Target> {
        canvas.gaps_in(block.range.clone()).map(Target::Position).collect()
    }

    fn revise(&mut self, _chosen: &[usize], _filled: bool, context: &StepContext<'_>) -> Result<Changes> {
        let placed = self.0.placed(context);
        let decided = context.canvas().decided_in(context.block().range.clone());
        Ok(Changes::reopen(decided.filter(|position| placed.binary_search(position).is_err()).collect()))
    }

    fn settled(&self, block: &Block) -> usize {
        block.range.start
    }

    fn ends(&self) -> Ends {
        Ends::ReopensAtFirst
    }
}
