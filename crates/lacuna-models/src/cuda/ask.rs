//! Rows to read, as they are found in the layout.

use lacuna::{Choice, Lens, Place, Row};

use super::kernel::{self, Look, NOBODY};
use crate::Result;
use crate::layout::Layout;

/// A row to read, found in the layout.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) asked: Row<'a>,
    pub(crate) row: usize,
    /// The row to push away from.
    pub(crate) guide: Option<usize>,
    /// What it is remembered under.
    pub(crate) key: Option<(u64, usize)>,
    /// Whether its logits are wanted themselves.
    pub(crate) verbatim: bool,
}

impl<'a> Ask<'a> {
    pub(crate) fn new(layout: &Layout, asked: &Row<'a>) -> Result<Self> {
        Ok(Self {
            asked: *asked,
            row: layout.row(asked.view, asked.place)?,
            guide: asked.guide.map(|guide| layout.row(guide.view, asked.place)).transpose()?,
            key: asked.remember.then(|| (layout.spans[asked.view].run, asked.place.position())),
            verbatim: false,
        })
    }

    pub(crate) fn all(layout: &Layout, asked: &[Row<'a>]) -> Result<Vec<Self>> {
        asked.iter().map(|row| Self::new(layout, row)).collect()
    }

    /// How many rows are projected for it.
    pub(crate) fn projected(&self) -> usize {
        1 + usize::from(self.guide.is_some())
    }

    /// How many rows of logits are written for it: none if what tiles of them tell is enough.
    pub(crate) fn written(&self) -> usize {
        let known = self.verbatim || self.guide.is_some() || takes_a_second_look(self.asked.lens);
        if known { self.projected() } else { 0 }
    }
}

/// Asks of one view of which only the scores on the GPU tell where they read and what they draw; they are alike in all else.
pub(crate) struct Group<'a> {
    /// The first ask, and how many.
    pub(crate) first: usize,
    pub(crate) take: usize,
    /// All that might be chosen.
    pub(crate) candidates: Vec<Ask<'a>>,
    /// Where the view's scores begin, and how many sources are averaged.
    pub(crate) scores: usize,
    pub(crate) sources: usize,
    pub(crate) tokens: usize,
    /// The first of the selected rows that is its, and the first that guides one.
    pub(crate) slot: usize,
    pub(crate) guide_slot: Option<usize>,
}

/// Candidates of a group at most: their scores fit into shared memory.
const CANDIDATES: usize = 6000;

impl Group<'_> {
    /// Whether the GPU can choose from these, which are ranked beside what is `sure` to be read of their view. What it chooses takes
    /// the place of the first of them among the selected rows, so they must have places of their own, side by side, and nothing
    /// may be kept for one rather than another.
    pub(crate) fn can_have(candidates: &[Ask<'_>], sure: &[Row<'_>]) -> bool {
        let ascend = candidates.windows(2).all(|pair| pair[0].row < pair[1].row);
        let kept = candidates.iter().any(|ask| ask.key.is_some());
        let between = sure.iter().any(|row| matches!(row.place, Place::At(_)));
        ascend && !kept && !between && candidates.len() <= CANDIDATES
    }

    /// What the GPU must know, but for where its candidates lie.
    pub(crate) fn choice(&self) -> kernel::Choice {
        kernel::Choice {
            scores: self.scores as u32,
            tokens: self.tokens as u32,
            sources: self.sources as u32,
            candidates: 0,
            count: self.candidates.len() as u32,
            take: self.take as u32,
            slots: self.slot as u32,
            guide_slots: self.guide_slot.map_or(NOBODY, |slot| slot as u32),
            asks: self.first as u32,
        }
    }

    /// What the GPU must know of its candidates.
    pub(crate) fn candidates(&self) -> impl Iterator<Item = kernel::Candidate> {
        self.candidates.iter().map(|ask| kernel::Candidate {
            position: ask.asked.place.position() as u32,
            row: ask.row as u32,
            guide: ask.guide.map_or(NOBODY, |row| row as u32),
            draw: ask.asked.draw.key(),
        })
    }
}

/// Whether what a lens shows can be told only once all logits are known: some tokens are to wait, or only the most probable count.
pub(crate) fn takes_a_second_look(lens: &Lens) -> bool {
    let truncated = matches!(lens.choice, Choice::Nucleus { top_p, top_k, .. } if top_p < 1.0 || top_k > 0);
    truncated || !lens.deferred.is_empty()
}

/// How the GPU is to look through a lens, but for the tokens that are special to it.
pub(crate) fn look(lens: &Lens) -> Look {
    let (temper, noise, share, most) = match lens.choice {
        Choice::Greedy => (1.0, 0.0, 1.0, 0),
        Choice::Gumbel { temperature } => (1.0, temperature, 1.0, 0),
        Choice::Nucleus { temperature, top_p, top_k } if temperature > 0.0 => (temperature, 1.0, top_p, top_k),
        Choice::Nucleus { top_p, top_k, .. } => (1.0, 0.0, top_p, top_k),
    };
    Look {
        guide: NOBODY,
        witness: NOBODY,
        again: u32::from(takes_a_second_look(lens)),
        most: if most > 0 { u32::try_from(most).unwrap_or(u32::MAX) } else { u32::MAX },
        share,
        temper,
        noise,
        ..Look::default()
    }
}
