//! Revisions: which committed positions to reopen.

use std::fmt::Debug;
use std::ops::Range;

use crate::{Block, Canvas, Result, Step, Target};

/// Looks back after each step.
pub trait Revision: Debug + Send + Sync {
    /// The positions to reopen, after `chosen` are committed; `filled` if that leaves no mask up to the block's end.
    ///
    /// It must reopen fewer positions than were chosen over time, or the run would not end.
    fn reopen(&mut self, chosen: &[usize], filled: bool, step: &mut Step<'_>) -> Result<Vec<usize>>;

    /// What it reads of a step in most cases, beside what is masked.
    fn reads(&self, _canvas: &Canvas, _block: &Block) -> Vec<Target> {
        Vec::new()
    }

    /// Whether it reads everything that is masked up to the block's end.
    fn reads_masked(&self) -> bool {
        false
    }

    /// A block begins.
    fn enter(&mut self) {}

    /// Whether it needs the support of committed tokens ([`Step::support`]).
    fn shadows(&self) -> bool {
        false
    }

    /// Positions before this one will not be reopened any more while `block` is decoded.
    fn settled(&self, block: &Block) -> usize;
}

/// WINO's narrow-out: reopens tokens of the block that the model doubts once it sees everything around them but not
/// themselves.
#[derive(Debug)]
pub struct Verify {
    threshold: f64,
    last_chosen: usize,
}

impl Verify {
    /// WINO's bound on how many tokens the first verification of a block may reopen.
    const AT_FIRST: usize = 30;

    /// Reopens what has less support than `threshold`.
    pub fn new(threshold: f64) -> Self {
        Self { threshold, last_chosen: Self::AT_FIRST }
    }
}

impl Revision for Verify {
    fn enter(&mut self) {
        self.last_chosen = Self::AT_FIRST;
    }

    fn reopen(&mut self, chosen: &[usize], _filled: bool, step: &mut Step<'_>) -> Result<Vec<usize>> {
        let most = std::mem::replace(&mut self.last_chosen, chosen.len()).saturating_sub(1);
        if chosen.len() < 2 {
            return Ok(Vec::new());
        }
        let decided: Vec<usize> = decided(step.canvas, step.block.range.clone()).collect();
        let support = step.support(&decided)?;
        let doubted = decided.into_iter().zip(support).filter(|(_, support)| *support < self.threshold);
        Ok(lowest(doubted.collect(), most))
    }

    fn shadows(&self) -> bool {
        true
    }

    fn reads(&self, canvas: &Canvas, block: &Block) -> Vec<Target> {
        decided(canvas, block.range.clone()).map(Target::Shadow).collect()
    }

    fn settled(&self, block: &Block) -> usize {
        block.range.start
    }
}

/// Saber's backtracking: reopens the tokens whose position has lost confidence, or gained least, since the step before.
#[derive(Debug)]
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
    fn reopen(&mut self, chosen: &[usize], filled: bool, step: &mut Step<'_>) -> Result<Vec<usize>> {
        let canvas = step.canvas;
        let end = step.block.range.end;
        let gaps: Vec<usize> = canvas.gaps().take_while(|&position| position < end).collect();
        let confidence: Vec<f64> = step.beliefs(&gaps)?.iter().map(|belief| belief.first).collect();

        self.last.resize(canvas.len(), 0.0);
        let gain = |(&position, now): (&usize, &f64)| (position, now - self.last[position]);
        let decided = |(position, _): &(usize, f64)| !canvas.is_masked(*position) || chosen.contains(position);
        let gains: Vec<(usize, f64)> = gaps.iter().zip(&confidence).map(gain).filter(decided).collect();

        // Positions of later blocks have not been looked at: whatever they show next is all gain.
        self.last[end..].fill(f64::NEG_INFINITY);
        gaps.iter().zip(confidence).for_each(|(&position, now)| self.last[position] = now);
        if filled {
            return Ok(Vec::new());
        }
        let count = (self.least / 2).max(chosen.len().div_ceil(8)).min(chosen.len().saturating_sub(1));
        Ok(lowest(gains, count))
    }

    fn reads(&self, canvas: &Canvas, block: &Block) -> Vec<Target> {
        decided(canvas, 0..block.range.end).map(Target::Position).collect()
    }

    fn reads_masked(&self) -> bool {
        true
    }

    fn settled(&self, _block: &Block) -> usize {
        0
    }
}

/// The gaps among `positions` that are filled.
fn decided(canvas: &Canvas, positions: Range<usize>) -> impl Iterator<Item = usize> {
    positions.filter(|&position| canvas.is_gap(position) && !canvas.is_masked(position))
}

/// The `count` positions with the lowest values, ascending by position; of equals the lower position.
fn lowest(mut pairs: Vec<(usize, f64)>, count: usize) -> Vec<usize> {
    pairs.sort_by(|(p, a), (q, b)| a.total_cmp(b).then(p.cmp(q)));
    let mut positions: Vec<usize> = pairs.into_iter().take(count).map(|(position, _)| position).collect();
    positions.sort_unstable();
    positions
}
