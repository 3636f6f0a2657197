//! A row to read, found in the layout.

use lacuna::{Row, Sampling, TokenRule};

use super::super::kernel::{ABSENT, RowSpec};
use crate::Result;
use crate::layout::Layout;

/// A row to read.
#[derive(Clone, Copy)]
pub(super) struct RowRequest<'a> {
    pub(super) asked: Row<'a>,
    /// The row of the layout that predicts it.
    pub(super) row: usize,
    /// The row that guides it.
    pub(super) guide: Option<usize>,
    /// Run and position that its logits are remembered under.
    pub(super) history: Option<(u64, usize)>,
    /// Number of the ranked read that it belongs to, or [`ABSENT`].
    pub(super) read: u32,
    /// True if its logits themselves are wanted.
    pub(super) verbatim: bool,
}

impl<'a> RowRequest<'a> {
    pub(super) fn new(layout: &Layout, asked: &Row<'a>) -> Result<Self> {
        Ok(Self {
            asked: *asked,
            row: layout.row(asked.view, asked.target)?,
            guide: asked.guide.map(|guide| layout.row(guide.view, asked.target)).transpose()?,
            history: asked.remember.then(|| (layout.spans[asked.view].run, asked.target.position())),
            read: ABSENT,
            verbatim: false,
        })
    }

    pub(super) fn all(layout: &Layout, asked: &[Row<'a>]) -> Result<Vec<Self>> {
        asked.iter().map(|row| Self::new(layout, row)).collect()
    }

    /// Rows that are projected for it: its own, and the one that guides it.
    pub(super) fn projected(&self) -> usize {
        1 + usize::from(self.guide.is_some())
    }

    /// Rows of logits that are written to memory for it: none if sums over tiles of them are enough.
    pub(super) fn written(&self) -> usize {
        let needed = self.verbatim || self.guide.is_some() || needs_second_pass(self.asked.sampling);
        if needed { self.projected() } else { 0 }
    }
}

/// True if a sampling needs a second pass over the logits: top-p, top-k or deferred tokens.
fn needs_second_pass(sampling: &Sampling) -> bool {
    let truncated = matches!(sampling.rule, TokenRule::Nucleus { top_p, top_k, .. } if top_p < 1.0 || top_k > 0);
    truncated || !sampling.deferred.is_empty()
}

/// The spec of a row with this sampling, but for its special tokens.
pub(super) fn row_spec(sampling: &Sampling) -> RowSpec {
    let (temperature, gumbel, top_p, top_k) = match sampling.rule {
        TokenRule::Greedy => (1.0, 0.0, 1.0, 0),
        TokenRule::Gumbel { temperature } => (1.0, temperature, 1.0, 0),
        TokenRule::Nucleus { temperature, top_p, top_k } if temperature > 0.0 => (temperature, 1.0, top_p, top_k),
        TokenRule::Nucleus { top_p, top_k, .. } => (1.0, 0.0, top_p, top_k),
    };
    RowSpec {
        guide: ABSENT,
        scored_token: ABSENT,
        read: ABSENT,
        second_pass: u32::from(needs_second_pass(sampling)),
        top_k: if top_k > 0 { u32::try_from(top_k).unwrap_or(ABSENT) } else { ABSENT },
        top_p,
        temperature,
        gumbel,
        ..RowSpec::default()
    }
}
