//! Revisions: which committed positions to reopen.

use std::fmt::Debug;
use std::ops::Range;

use dyn_clone::DynClone;

use crate::catalogue::{self, Default, Kind, Need, Parameter, Part};
use crate::pace::SABER_N;
use crate::{Block, Canvas, Result, Scene, Target};

/// Looks back after each step.
pub trait Revision: DynClone + Debug + Send + Sync {
    /// Rows whose beliefs it uses. They are read before [`reopen`](Self::reopen) is called, if they are needed.
    fn rows(&self, canvas: &Canvas, block: &Block) -> Vec<Target>;

    /// Whether those rows are needed after `chosen` are committed.
    fn reads_after(&self, _chosen: &[usize]) -> bool {
        true
    }

    /// The positions to reopen, ascending, after `chosen` are committed; `filled` if that leaves no mask up to the block's end.
    ///
    /// It must reopen fewer positions than were chosen over time, or the run would not end.
    fn reopen(&mut self, chosen: &[usize], filled: bool, scene: &Scene<'_>) -> Result<Vec<usize>>;

    /// A block begins.
    fn enter(&mut self) {}

    /// Whether it needs shadow rows ([`Scene::support`]).
    fn shadows(&self) -> bool {
        false
    }

    /// Positions before this one are not reopened any more while `block` is decoded.
    fn settled(&self, block: &Block) -> usize;
}

dyn_clone::clone_trait_object!(Revision);

const THRESHOLD_BACK: Parameter = Parameter::new(
    "threshold_back",
    Kind::Number(catalogue::Range::closed(0.0, 1.0)),
    Default::Number(0.9),
    "tokens with less support than this are reopened",
);

pub(crate) fn parts() -> Vec<Part> {
    let about = "tokens that the model doubts when it does not see them (WINO's second half)";
    vec![
        Part::revision("verify", about, |given| Ok(Box::new(Verify::new(given.number("threshold_back")))))
            .needs(&[Need::Shadows])
            .parameters(&[THRESHOLD_BACK]),
        Part::revision("backtrack", "tokens whose position has lost confidence (Saber's second half)", |given| {
            Ok(Box::new(Backtrack::new(given.integer("saber_n"))))
        })
        .needs(&[Need::Beliefs])
        .parameters(&[SABER_N]),
    ]
}

/// WINO's narrow-out: reopens tokens of the block that the model doubts once it sees everything around them but not themselves.
#[derive(Clone, Debug)]
pub struct Verify {
    threshold: f64,
    last_chosen: usize,
}

impl Verify {
    /// WINO's bound on how many tokens the first verification of a block may reopen.
    const AT_FIRST: usize = 30;

    /// Reopens tokens with less support than `threshold`.
    pub fn new(threshold: f64) -> Self {
        Self { threshold, last_chosen: Self::AT_FIRST }
    }
}

impl Revision for Verify {
    fn enter(&mut self) {
        self.last_chosen = Self::AT_FIRST;
    }

    fn rows(&self, canvas: &Canvas, block: &Block) -> Vec<Target> {
        decided(canvas, block.range.clone()).map(Target::Shadow).collect()
    }

    fn reads_after(&self, chosen: &[usize]) -> bool {
        chosen.len() > 1
    }

    fn reopen(&mut self, chosen: &[usize], _filled: bool, scene: &Scene<'_>) -> Result<Vec<usize>> {
        let most = std::mem::replace(&mut self.last_chosen, chosen.len()).saturating_sub(1);
        if !self.reads_after(chosen) {
            return Ok(Vec::new());
        }
        let decided = decided(scene.canvas(), scene.block().range.clone());
        let doubted = decided.map(|position| (position, scene.support(position))).filter(|(_, s)| *s < self.threshold);
        Ok(lowest(doubted.collect(), most))
    }

    fn shadows(&self) -> bool {
        true
    }

    fn settled(&self, block: &Block) -> usize {
        block.range.start
    }
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

    fn reopen(&mut self, chosen: &[usize], filled: bool, scene: &Scene<'_>) -> Result<Vec<usize>> {
        let (canvas, end) = (scene.canvas(), scene.block().range.end);
        let gaps: Vec<usize> = canvas.gaps().take_while(|&position| position < end).collect();
        let confidence: Vec<f64> = gaps.iter().map(|&position| scene.belief(position).first).collect();

        self.last.resize(canvas.len(), 0.0);
        let gain = |(&position, now): (&usize, &f64)| (position, now - self.last[position]);
        let decided = |(position, _): &(usize, f64)| !canvas.is_masked(*position) || chosen.contains(position);
        let gains: Vec<(usize, f64)> = gaps.iter().zip(&confidence).map(gain).filter(decided).collect();

        // Positions of later blocks have not been looked at: their next confidence is all gain.
        self.last[end..].fill(f64::NEG_INFINITY);
        gaps.iter().zip(confidence).for_each(|(&position, now)| self.last[position] = now);
        if filled {
            return Ok(Vec::new());
        }
        let count = (self.least / 2).max(chosen.len().div_ceil(8)).min(chosen.len().saturating_sub(1));
        Ok(lowest(gains, count))
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
