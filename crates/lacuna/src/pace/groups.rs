//! The best of every run of masks (dInfer's hierarchy).

use std::collections::HashSet;

use super::unroll::{EXPECTED_TPF, UNROLL, Unroll};
use super::{Entry, Pace, Reads, THRESHOLD};
use crate::catalogue::{Default, Kind, Parameter, Part, PartParams, Range};
use crate::{Block, Canvas, Ranked, Result, StepContext, Target};

/// dInfer's hierarchy: the best of every run of neighbouring masks, and every position whose confidence exceeds a threshold.
///
/// If tokens below a confidence are reopened ([`Regroup`](crate::Regroup)), these and the masks form the runs together.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    groups: Groups,
    remask: Option<f64>,
    unroll: Unroll,
}

/// The rule that chooses from runs of neighbouring positions.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    /// Every position with more confidence is chosen.
    threshold: Option<f64>,
    /// The best of a run is chosen only with more confidence than this.
    low: Option<f64>,
}

/// No threshold unless one is given.
pub(crate) const OPTIONAL_THRESHOLD: Parameter = THRESHOLD.default(Default::Depends("none"));
pub(crate) const LOW_THRESHOLD: Parameter = Parameter::new(
    "low_threshold",
    Kind::Number(Range::closed(0.0, 1.0)),
    Default::Depends("none"),
    "confidence that the best of a run must exceed",
);
/// Confidence below which a token is reopened.
pub(crate) const REMASK_THRESHOLD: Parameter = Parameter::new(
    "remask_threshold",
    Kind::Number(Range::closed(0.0, 1.0)),
    Default::Depends("none"),
    "confidence below which a decided position counts as masked",
);

pub(super) fn part() -> Part {
    Part::pace("hierarchy", "the best of every run of masks, and all above threshold (dInfer)", |given| {
        let remask = given.optional_number("remask_threshold");
        Ok(Box::new(Hierarchy { groups: Groups::of(given), remask, unroll: Unroll::of(given) }))
    })
    .parameters(&[OPTIONAL_THRESHOLD, LOW_THRESHOLD, REMASK_THRESHOLD, UNROLL, EXPECTED_TPF])
}

impl Groups {
    pub(crate) fn of(given: &PartParams<'_>) -> Self {
        Self { threshold: given.optional_number("threshold"), low: given.optional_number("low_threshold") }
    }

    /// Chooses at least `least` of some positions with their confidence, the best first.
    fn choose(&self, pool: &[(usize, f64)], least: usize) -> Vec<usize> {
        let mut positions: Vec<usize> = pool.iter().map(|(position, _)| *position).collect();
        positions.sort_unstable();
        // Along a run, position and index grow together.
        let run = |position: usize| position - positions.partition_point(|&other| other < position);
        let mut runs = HashSet::new();
        let passes = |&(position, confidence): &(usize, f64)| {
            let leads = runs.insert(run(position)) && self.low.is_none_or(|low| confidence > low);
            leads || self.threshold.is_some_and(|threshold| confidence > threshold)
        };
        let (mut chosen, rest): (Vec<_>, Vec<_>) = pool.iter().copied().partition(passes);
        let missing = least.saturating_sub(chosen.len());
        chosen.extend(rest.into_iter().take(missing));
        chosen.into_iter().map(|(position, _)| position).collect()
    }

    /// Decided positions of the block with less confidence than `remask`, and what is chosen of these and the masks.
    pub(crate) fn with_unsure(&self, remask: f64, context: &StepContext<'_>) -> (Vec<usize>, Vec<usize>) {
        let decided = context.canvas().decided_in(context.block().range.clone());
        // What a cache does not compute is taken for granted.
        let doubted = |position: &usize| context.try_belief(*position).is_some_and(|belief| belief.first < remask);
        let unsure: Vec<usize> = decided.filter(doubted).collect();
        let members = context.candidates().iter().chain(&unsure);
        let mut pool: Vec<(usize, f64)> = members.map(|&p| (p, context.belief(p).first)).collect();
        pool.sort_by(|(p, a), (q, b)| b.total_cmp(a).then(p.cmp(q)));
        let chosen = self.choose(&pool, unsure.len() + 1);
        (unsure, chosen)
    }
}

impl Pace for Hierarchy {
    fn enter(&mut self, _entry: &Entry<'_>) -> Result<()> {
        self.unroll.enter();
        Ok(())
    }

    fn reads(&self, _block: &Block, _candidates: usize) -> Reads {
        Reads::All
    }

    fn rows(&self, canvas: &Canvas, block: &Block) -> Vec<Target> {
        let decided = canvas.decided_in(block.range.clone()).filter(|_| self.remask.is_some());
        decided.map(Target::Position).collect()
    }

    fn choose(&mut self, ranked: &Ranked<'_>) -> Result<Vec<usize>> {
        self.unroll.step(ranked);
        let Some(remask) = self.remask else {
            let confidence = ranked.beliefs().iter().map(|belief| belief.probability);
            let pool: Vec<(usize, f64)> = ranked.positions().iter().copied().zip(confidence).collect();
            return Ok(self.groups.choose(&pool, 1));
        };
        let (_, mut chosen) = self.groups.with_unsure(remask, ranked.context());
        chosen.retain(|&position| ranked.context().canvas().is_masked(position));
        Ok(chosen)
    }

    fn needs_another_pass(&self, block: &Block) -> bool {
        self.unroll.needs_another_pass(block)
    }
}
