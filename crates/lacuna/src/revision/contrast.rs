//! CORE: tokens that do not hold when they are masked together.

use super::{Changes, Ends, Revision, lowest};
use crate::catalogue::{Default, Kind, Need, Parameter, Part};
use crate::pace::{Entry, STEPS, steps_in_block};
use crate::{Block, Canvas, Commit, Result, StepContext, Target};

/// CORE: every few steps of the middle half of a block the decided positions with the smallest margins are masked together in a
/// second forward pass, and the tokens that it doubts most are replaced by its own. A draft is looked at like that before anything is
/// written, until nothing is replaced, or once for each of its tokens.
#[derive(Clone, Debug)]
pub struct Contrast {
    /// Rule for the tokens it doubts.
    pub doubt: Doubt,
    /// Steps between two revisions.
    pub every: usize,
    /// Positions that are masked together.
    pub candidates: usize,
    /// Tokens that are replaced at most.
    pub most: usize,
    /// Steps for the whole canvas; one per masked position if not given.
    pub steps: Option<usize>,
    in_block: usize,
    /// Passes over a draft that are left.
    draft_passes: usize,
}

/// A measure of doubt in a token that the second pass did not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// It is unlikely, and another is likely.
    Unlikely,
    /// The second pass has a small margin there.
    SmallMargin,
}

/// The last positions of a block, which are never revised.
const PROTECTED: usize = 16;
/// The probability that another token must have.
const MIN_PROBABILITY: f64 = 0.3;

const CORE_RULE: Parameter = Parameter::new(
    "core_rule",
    Kind::Choice(&["core", "margin_remask"]),
    Default::Word("core"),
    "tokens that are replaced: the least likely ones, or those where the second pass is least sure",
);
const REVISE_EVERY: Parameter = Parameter::new(
    "revise_every",
    Kind::Integer { least: 1, most: 65_536 },
    Default::Number(8.0),
    "steps between two revisions",
);
const REVISE_CANDIDATES: Parameter = Parameter::new(
    "revise_candidates",
    Kind::Integer { least: 1, most: 65_536 },
    Default::Number(32.0),
    "tokens with the smallest margins that are masked together in the second pass",
);
const REVISE_MOST: Parameter = Parameter::new(
    "revise_most",
    Kind::Integer { least: 1, most: 65_536 },
    Default::Number(1.0),
    "tokens that a revision replaces at most",
);

pub(super) fn part() -> Part {
    let about =
        "tokens that are unlikely when the least certain ones are masked together; a second pass now and then (CORE)";
    Part::revision("core", about, |given| {
        let doubt = match given.word("core_rule") {
            "margin_remask" => Doubt::SmallMargin,
            _ => Doubt::Unlikely,
        };
        Ok(Box::new(Contrast {
            doubt,
            every: given.integer("revise_every"),
            candidates: given.integer("revise_candidates"),
            most: given.integer("revise_most"),
            steps: given.optional_integer("steps"),
            in_block: 1,
            draft_passes: 0,
        }))
    })
    .needs(&[Need::Beliefs])
    .parameters(&[STEPS, CORE_RULE, REVISE_EVERY, REVISE_CANDIDATES, REVISE_MOST])
}

impl Contrast {
    /// True if it revises in this step of a block.
    fn is_due(&self, block: &Block) -> bool {
        if self.draft_passes > 0 {
            return true;
        }
        let share = |part: f64| (part * self.in_block as f64) as usize;
        block.step.is_multiple_of(self.every) && (share(0.25)..share(0.75)).contains(&block.step)
    }
}

impl Revision for Contrast {
    fn enter(&mut self, entry: &Entry<'_>) -> Result<()> {
        self.in_block = steps_in_block(self.steps, entry)?;
        self.draft_passes = entry.drafts;
        Ok(())
    }

    fn only_revises(&self, _canvas: &Canvas, _block: &Block) -> bool {
        self.draft_passes > 0
    }

    fn needs_another_pass(&self) -> bool {
        self.draft_passes > 0
    }

    fn rows(&self, canvas: &Canvas, block: &Block) -> Vec<Target> {
        let protected = if self.draft_passes > 0 { 0 } else { PROTECTED };
        let end = block.range.end.saturating_sub(protected).max(block.range.start);
        let decided = canvas.decided_in(block.range.start..end);
        decided.filter(|_| self.is_due(block)).map(Target::Position).collect()
    }

    fn probe(&self, _chosen: &[usize], context: &StepContext<'_>) -> Result<Vec<usize>> {
        let margin = |target: Target| {
            let belief = context.belief(target.position());
            (target.position(), belief.first - belief.second)
        };
        let decided = self.rows(context.canvas(), context.block());
        Ok(lowest(decided.into_iter().map(margin).collect(), self.candidates))
    }

    fn revise(&mut self, chosen: &[usize], _filled: bool, context: &StepContext<'_>) -> Result<Changes> {
        let mut doubted = Vec::new();
        for position in context.canvas().decided_in(context.block().range.clone()) {
            let Some(belief) = context.probed(position) else { continue };
            let other = belief.token != context.canvas().tokens()[position];
            match self.doubt {
                Doubt::SmallMargin => doubted.push((position, belief.first - belief.second)),
                Doubt::Unlikely if other && belief.first >= MIN_PROBABILITY => {
                    doubted.push((position, belief.scored.expect("the position is decided")));
                }
                Doubt::Unlikely => {}
            }
        }
        let most = if self.draft_passes > 0 { self.most } else { self.most.min(chosen.len()) };
        let replaced = lowest(doubted, most).into_iter();
        let edit = |position| Commit::of(position, context.probed(position).expect("it was probed"));
        let changed = |edit: &Commit| edit.token != context.canvas().tokens()[edit.position];
        let edited: Vec<Commit> = replaced.map(edit).filter(changed).collect();
        self.draft_passes = if edited.is_empty() { 0 } else { self.draft_passes.saturating_sub(1) };
        Ok(Changes { edited, reopened: Vec::new() })
    }

    fn settled(&self, block: &Block) -> usize {
        block.range.start
    }

    fn ends(&self) -> Ends {
        Ends::EditsOnly
    }
}
