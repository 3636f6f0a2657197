//! Saber's second half.

use super::{Changes, Revision, lowest};
use crate::catalogue::{Need, Part};
use crate::pace::SABER_N;
use crate::{Block, Canvas, Result, StepContext, Target};

pub(super) fn part() -> Part {
    Part::revision("backtrack", "tokens whose position has lost confidence (Saber's second half)", |given| {
        Ok(Box::new(Backtrack::new(given.integer("saber_n"))))
    })
    .needs(&[Need::Beliefs])
    .parameters(&[SABER_N])
}

/// Saber's backtracking: reopens the tokens whose position has lost confidence, or gained least, since the step before.
#[derive(Clone, Debug)]
pub struct Backtrack {
    least: usize,
    last: Vec<f64>,
}

impl Backtrack {
    /// For a pace that commits at least `least` positions.
    pub fn new(least: usize) -> Self {
        Self { least, last: Vec::new() }
    }
}

impl Revision for Backtrack {
    fn rows(&self, canvas: &Canvas, block: &Block) -> Vec<Target> {
        canvas.gaps().take_while(|&position| position < block.range.end).map(Target::Position).collect()
    }

    fn revise(&mut self, chosen: &[usize], filled: bool, context: &StepContext<'_>) -> Result<Changes> {
        let (canvas, end) = (context.canvas(), context.block().range.end);
        let gaps: Vec<usize> = canvas.gaps().take_while(|&position| position < end).collect();
        let confidence: Vec<f64> = gaps.iter().map(|&position| context.belief(position).first).collect();

        self.last.resize(canvas.len(), 0.0);
        let gain = |(&position, now): (&usize, &f64)| (position, now - self.last[position]);
        let decided = |(position, _): &(usize, f64)| !canvas.is_masked(*position) || chosen.contains(position);
        let gains: Vec<(usize, f64)> = gaps.iter().zip(&confidence).map(gain).filter(decided).collect();

        // Positions of later blocks have not been looked at: their next confidence is all gain.
        self.last[end..].fill(f64::NEG_INFINITY);
        gaps.iter().zip(confidence).for_each(|(&position, now)| self.last[position] = now);
        if filled {
            return Ok(Changes::default());
        }
        let count = (self.least / 2).max(chosen.len().div_ceil(8)).min(chosen.len().saturating_sub(1));
        Ok(Changes::reopen(lowest(gains, count)))
    }

    fn revises_complete_text(&self) -> bool {
        false
    }

    fn settled(&self, _block: &Block) -> usize {
        0
    }
}
