//! The hierarchy's reopening.

use super::{Changes, Revision};
use crate::catalogue::{Default, Need, Part};
use crate::pace::{Groups, LOW_THRESHOLD, OPTIONAL_THRESHOLD, REMASK_THRESHOLD};
use crate::{Block, Canvas, Commit, Result, StepContext, Target};

/// dInfer's remasking hierarchy: decided positions of the block with little confidence form runs together with the masks. Those
/// that the hierarchy would choose get the token of this pass, the others are reopened. With the pace
/// [`Hierarchy`](crate::Hierarchy) and the same thresholds this is dInfer's method.
#[derive(Clone, Debug)]
pub struct Regroup {
    groups: Groups,
    remask: f64,
}

pub(super) fn part() -> Part {
    let about = "tokens whose position has little confidence, unless they lead a run of such and masks (dInfer)";
    Part::revision("regroup", about, |given| {
        Ok(Box::new(Regroup { groups: Groups::of(given), remask: given.number("remask_threshold") }))
    })
    .needs(&[Need::Beliefs])
    .parameters(&[OPTIONAL_THRESHOLD, LOW_THRESHOLD, REMASK_THRESHOLD.default(Default::Number(0.4))])
}

impl Revision for Regroup {
    fn rows(&self, canvas: &Canvas, block: &Block) -> Vec<Target> {
        canvas.gaps_in(block.range.clone()).map(Target::Position).collect()
    }

    fn revise(&mut self, chosen: &[usize], _filled: bool, context: &StepContext<'_>) -> Result<Changes> {
        let (unsure, mut kept) = self.groups.with_unsure(self.remask, context);
        kept.retain(|position| unsure.binary_search(position).is_ok());
        // Fewer are reopened than were committed, so that the block is finished some day.
        let mut rest: Vec<usize> = unsure.iter().copied().filter(|position| !kept.contains(position)).collect();
        let confidence = |position: usize| context.belief(position).first;
        rest.sort_by(|&p, &q| confidence(q).total_cmp(&confidence(p)).then(p.cmp(&q)));
        let surplus = rest.len().saturating_sub(chosen.len().saturating_sub(1));
        kept.extend(rest.drain(..surplus));
        kept.sort_unstable();
        rest.sort_unstable();
        let edits = kept.into_iter().map(|position| Commit::of(position, context.belief(position)));
        let changed = |edit: &Commit| edit.token != context.canvas().tokens()[edit.position];
        Ok(Changes { edited: edits.filter(changed).collect(), reopened: rest })
    }

    fn settled(&self, block: &Block) -> usize {
        block.range.start
    }
}
