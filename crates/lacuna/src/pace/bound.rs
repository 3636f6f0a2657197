//! The longest prefix of the ranking that keeps a bound.

use super::{Entry, Pace, Reads, STEPS, steps_in_block};
use crate::catalogue::{Default, Kind, Parameter, Part, Range};
use crate::{Block, Measure, Ranked, Result, StopRule};

/// The longest prefix of the ranking for which a rule holds. Nothing behind the first position that breaks it is used, so that
/// reading stops there.
#[derive(Clone, Debug)]
pub struct Bound {
    /// The rule.
    pub rule: StopRule,
    /// Most steps for the whole canvas: the last step of a block commits everything.
    pub steps: Option<usize>,
    in_block: usize,
}

const GAMMA: Parameter = Parameter::new(
    "gamma",
    Kind::Number(Range::closed(0.0, 1e6)),
    Default::Number(0.01),
    "entropy bound in nats: sum H - max H <= gamma",
);

const MIN_JOINT: Parameter = Parameter::new(
    "min_joint",
    Kind::Number(Range::above(0.0, 1.0)),
    Default::Number(0.9),
    "least product of the probabilities of all tokens of a step",
);

pub(super) fn parts() -> Vec<Part> {
    vec![
        Part::pace("eb", "as many as the entropy bound allows: sum H - max H <= gamma (EB-Sampler)", |given| {
            Ok(Box::new(Bound::entropy(given.number("gamma"))))
        })
        .parameters(&[GAMMA]),
        Part::pace("eb-steps", "as eb, and all that is left in the last step (RND1)", |given| {
            let steps = given.optional_integer("steps");
            Ok(Box::new(Bound { steps, ..Bound::entropy(given.number("gamma")) }))
        })
        .parameters(&[GAMMA, STEPS]),
        Part::pace("cumulative", "the longest prefix whose probabilities multiply to at least min_joint", |given| {
            Ok(Box::new(Bound::joint(given.number("min_joint"))))
        })
        .parameters(&[MIN_JOINT]),
    ]
}

impl Bound {
    /// EB-Sampler's bound: the joint entropy exceeds that of one member by at most `gamma`, `Σ H − max H ≤ γ`.
    pub fn entropy(gamma: f64) -> Self {
        Self::new(StopRule::Sum { measure: Measure::Entropy, spare_largest: true, bound: gamma })
    }

    /// The product of all probabilities is at least `least`.
    pub fn joint(least: f64) -> Self {
        Self::new(StopRule::Sum { measure: Measure::Surprisal, spare_largest: false, bound: -least.ln() })
    }

    fn new(rule: StopRule) -> Self {
        Self { rule, steps: None, in_block: 1 }
    }

    fn is_last(&self, block: &Block) -> bool {
        self.steps.is_some() && block.step + 1 >= self.in_block
    }
}

impl Pace for Bound {
    fn enter(&mut self, entry: &Entry<'_>) -> Result<()> {
        self.in_block = steps_in_block(self.steps, entry)?;
        Ok(())
    }

    fn reads(&self, block: &Block, _candidates: usize) -> Reads {
        if self.is_last(block) { Reads::All } else { Reads::While(self.rule) }
    }

    fn choose(&mut self, ranked: &Ranked<'_>) -> Result<Vec<usize>> {
        let count = match self.is_last(ranked.block()) {
            true => ranked.positions().len(),
            false => self.rule.prefix(ranked.scores(), ranked.beliefs()),
        };
        Ok(ranked.first(count))
    }
}
