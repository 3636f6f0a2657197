//! P2's first half.

use super::{Entry, Pace, Reads, STEPS, steps_in_block};
use crate::catalogue::Part;
use crate::{Block, Canvas, Ranked, Result, StepContext, Target};

/// P2's path planning: in every step the gaps of the block, masked or decided, compete by confidence for a share of it that grows
/// evenly; as many positions are committed as masked ones have a place in it. Meant to be followed by
/// [`Replan`](crate::Replan).
#[derive(Clone, Debug)]
pub struct Plan(Shares);

pub(super) fn part() -> Part {
    let about = "those among the best positions of the block, as many as the schedule allows by now (P2's first half)";
    Part::pace("plan", about, |given| Ok(Box::new(Plan::new(given.optional_integer("steps"))))).parameters(&[STEPS])
}

impl Plan {
    /// The share grows to the whole in `steps` for the whole canvas, or in one step per masked position.
    pub fn new(steps: Option<usize>) -> Self {
        Self(Shares::new(steps))
    }
}

impl Pace for Plan {
    fn enter(&mut self, entry: &Entry<'_>) -> Result<()> {
        self.0.enter(entry)
    }

    fn reads(&self, _block: &Block, _candidates: usize) -> Reads {
        Reads::All
    }

    fn rows(&self, canvas: &Canvas, block: &Block) -> Vec<Target> {
        canvas.decided_in(block.range.clone()).map(Target::Position).collect()
    }

    fn choose(&mut self, ranked: &Ranked<'_>) -> Result<Vec<usize>> {
        let canvas = ranked.context().canvas();
        let placed = self.0.placed(ranked.context());
        Ok(ranked.first(placed.into_iter().filter(|&position| canvas.is_masked(position)).count()))
    }

    fn may_wait(&self) -> bool {
        true
    }
}

/// The share of a block that may be decided, which grows evenly to the whole.
#[derive(Clone, Debug)]
pub(crate) struct Shares {
    /// Steps for the whole canvas; one per masked position if not given.
    steps: Option<usize>,
    in_block: usize,
}

impl Shares {
    pub(crate) fn new(steps: Option<usize>) -> Self {
        Self { steps, in_block: 1 }
    }

    pub(crate) fn enter(&mut self, entry: &Entry<'_>) -> Result<()> {
        self.in_block = steps_in_block(self.steps, entry)?;
        Ok(())
    }

    /// The gaps of the block that have a place in this step's share, ascending. Where a cache left a gap out of the pass, it keeps
    /// its place if it is decided, and waits if it is masked.
    pub(crate) fn placed(&self, context: &StepContext<'_>) -> Vec<usize> {
        let mut gaps: Vec<usize> = context.block_gaps().collect();
        let absent = |position| if context.canvas().is_masked(position) { f64::NEG_INFINITY } else { f64::INFINITY };
        let confidence =
            |position| context.try_belief(position).map_or_else(|| absent(position), |belief| belief.first);
        gaps.sort_by(|&p, &q| confidence(q).total_cmp(&confidence(p)).then(p.cmp(&q)));
        let open = (1.0 - (context.block().step + 1) as f64 / self.in_block as f64).max(0.0);
        // As in the official code, in f32.
        gaps.truncate(gaps.len() - (gaps.len() as f32 * open as f32) as usize);
        gaps.sort_unstable();
        gaps
    }
}
