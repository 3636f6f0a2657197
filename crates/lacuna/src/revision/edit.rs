//! LLaDA2.1's token editing.

use super::{Changes, Ends, Revision};
use crate::catalogue::{Default, Kind, Need, Parameter, Part, Range};
use crate::pace::Entry;
use crate::{Block, Canvas, Commit, Result, StepContext, Target};

/// LLaDA2.1's editing: every decided token of the block that is not the model's choice any more is replaced by that choice, if it
/// is confident enough. A block whose masks are all decided takes further passes until one changes nothing.
#[derive(Clone, Debug)]
pub struct Edit {
    /// Confidence to exceed.
    pub threshold: f64,
    /// Most passes of a block after its last mask was decided.
    pub most: usize,
    passes: usize,
    again: bool,
}

const EDIT_THRESHOLD: Parameter = Parameter::new(
    "edit_threshold",
    Kind::Number(Range::closed(0.0, 1.0)),
    Default::Number(0.5),
    "confidence that another token must exceed to replace one",
);
const MAX_EDIT_STEPS: Parameter = Parameter::new(
    "max_edit_steps",
    Kind::Integer { least: 0, most: 65_536 },
    Default::Number(16.0),
    "most steps of a block after its last mask was decided",
);

pub(super) fn part() -> Part {
    let about = "tokens that the model would choose otherwise now are replaced (LLaDA2.1)";
    Part::revision("edit", about, |given| {
        Ok(Box::new(Edit::new(given.number("edit_threshold"), given.integer("max_edit_steps"))))
    })
    .needs(&[Need::Beliefs])
    .parameters(&[EDIT_THRESHOLD, MAX_EDIT_STEPS])
}

impl Edit {
    /// Replaces where the confidence exceeds `threshold`, in at most `most` passes after the last mask of a block was decided.
    pub fn new(threshold: f64, most: usize) -> Self {
        Self { threshold, most, passes: 0, again: false }
    }
}

impl Revision for Edit {
    fn enter(&mut self, _entry: &Entry<'_>) -> Result<()> {
        (self.passes, self.again) = (0, false);
        Ok(())
    }

    fn rows(&self, canvas: &Canvas, block: &Block) -> Vec<Target> {
        canvas.decided_in(block.range.clone()).map(Target::Position).collect()
    }

    fn revise(&mut self, _chosen: &[usize], filled: bool, context: &StepContext<'_>) -> Result<Changes> {
        let canvas = context.canvas();
        let edit = |position| Commit::of(position, context.belief(position));
        let replaces =
            |edit: &Commit| edit.token != canvas.tokens()[edit.position] && edit.probability > self.threshold;
        let decided = canvas.decided_in(context.block().range.clone());
        let edited: Vec<Commit> = decided.map(edit).filter(replaces).collect();
        if canvas.masked_before(context.block().range.end).next().is_some() {
            self.again = filled && self.most > 0;
        } else {
            self.passes += 1;
            self.again = !edited.is_empty() && self.passes < self.most;
        }
        Ok(Changes { edited, reopened: Vec::new() })
    }

    fn needs_another_pass(&self) -> bool {
        self.again
    }

    fn settled(&self, block: &Block) -> usize {
        block.range.start
    }

    fn ends(&self) -> Ends {
        Ends::EditsOnly
    }
}
