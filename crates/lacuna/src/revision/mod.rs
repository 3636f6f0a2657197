//! Revisions: which committed positions to reopen, and which tokens to replace.

mod backtrack;
mod contrast;
mod edit;
mod regroup;
mod remdm;
mod replan;
mod verify;

use std::fmt::Debug;

use dyn_clone::DynClone;

pub use backtrack::Backtrack;
pub use contrast::{Contrast, Doubt};
pub use edit::Edit;
pub use regroup::Regroup;
pub use remdm::Remdm;
pub use replan::Replan;
pub use verify::Verify;

use crate::catalogue::Part;
use crate::pace::Entry;
use crate::{Block, Canvas, Commit, Result, StepContext, Target};

/// Looks back after each step.
pub trait Revision: DynClone + Debug + Send + Sync {
    /// Rows whose beliefs it uses. They are read before [`revise`](Self::revise) is called, if they are needed.
    fn rows(&self, canvas: &Canvas, block: &Block) -> Vec<Target>;

    /// True if those rows are needed after `chosen` are committed.
    fn reads_after(&self, _chosen: &[usize]) -> bool {
        true
    }

    /// True if this step only revises: nothing is committed in it.
    fn only_revises(&self, _canvas: &Canvas, _block: &Block) -> bool {
        false
    }

    /// Decided positions that a second forward pass shows masked, after `chosen` are committed. Its beliefs there are
    /// [`StepContext::probed`]. None: no second pass.
    fn probe(&self, _chosen: &[usize], _context: &StepContext<'_>) -> Result<Vec<usize>> {
        Ok(Vec::new())
    }

    /// Changes after `chosen` are committed; `filled` if that leaves no mask up to the block's end.
    fn revise(&mut self, chosen: &[usize], filled: bool, context: &StepContext<'_>) -> Result<Changes>;

    /// A block begins.
    fn enter(&mut self, _entry: &Entry<'_>) -> Result<()> {
        Ok(())
    }

    /// True if the block takes another pass after this step even if nothing is masked.
    fn needs_another_pass(&self) -> bool {
        false
    }

    /// True if it finds something to revise in a text of which nothing is masked.
    fn revises_complete_text(&self) -> bool {
        true
    }

    /// True if it needs shadow rows ([`StepContext::support`]).
    fn shadows(&self) -> bool {
        false
    }

    /// Positions before this one are not changed any more while `block` is decoded.
    fn settled(&self, block: &Block) -> usize;

    /// The reason why a run with it ends.
    fn ends(&self) -> Ends {
        Ends::ReopensFewer
    }
}

dyn_clone::clone_trait_object!(Revision);

/// Changes that a revision makes in a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Decided positions that get another token, ascending.
    pub edited: Vec<Commit>,
    /// Decided positions that are masked again, ascending.
    pub reopened: Vec<usize>,
}

impl Changes {
    /// Positions that are masked again, and no edits.
    pub fn reopen(reopened: Vec<usize>) -> Self {
        Self { edited: Vec::new(), reopened }
    }
}

/// The reason why a run with a revision ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// It reopens fewer positions over time than the pace commits.
    ReopensFewer,
    /// It reopens positions in a bounded number of steps of a block.
    ReopensAtFirst,
    /// It replaces tokens and reopens nothing.
    EditsOnly,
}

pub(crate) fn parts() -> Vec<Part> {
    vec![
        verify::part(),
        backtrack::part(),
        replan::part(),
        regroup::part(),
        remdm::part(),
        contrast::part(),
        edit::part(),
    ]
}

/// The `count` positions with the lowest values, ascending by position; of equals the lower position.
fn lowest(mut pairs: Vec<(usize, f64)>, count: usize) -> Vec<usize> {
    pairs.sort_by(|(p, a), (q, b)| a.total_cmp(b).then(p.cmp(q)));
    let mut positions: Vec<usize> = pairs.into_iter().take(count).map(|(position, _)| position).collect();
    positions.sort_unstable();
    positions
}
