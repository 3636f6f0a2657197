//! Credit: tokens that stay on top gain weight (dInfer).

use super::unroll::{EXPECTED_TPF, UNROLL, Unroll};
use super::{Entry, Pace, Reads, THRESHOLD};
use crate::catalogue::{Default, Kind, Parameter, Part, Range};
use crate::{Block, Ranked, Result};

/// dInfer's credit: in every step the most probable token of a position gathers credit, which is added to its logit; then the
/// first of the ranking is committed, and every position whose confidence reaches a threshold or the highest confidence.
#[derive(Clone, Debug)]
pub struct CreditThreshold {
    threshold: f64,
    rule: CreditRule,
    unroll: Unroll,
}

/// Parameters of gathering and using credit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CreditRule {
    /// Factor of `ln(1 + credit)`, which is added to a logit.
    pub weight: f64,
    /// Exponent of the probability that is gathered in a step.
    pub power: f64,
    /// Share of the credit that is left after a step.
    pub decay: f64,
}

/// Positions so close to the highest confidence go with it, as in the official code.
const CLOSE: f64 = 1e-5;

const WEIGHT: Parameter = Parameter::new(
    "credit_weight",
    Kind::Number(Range::closed(0.0, 1000.0)),
    Default::Number(0.7),
    "factor of ln(1 + credit), which is added to a token's logit",
);
const POWER: Parameter = Parameter::new(
    "credit_power",
    Kind::Number(Range::closed(0.0, 1000.0)),
    Default::Number(0.2),
    "exponent of the probability that the best token gathers as credit in a step",
);
const DECAY: Parameter = Parameter::new(
    "credit_decay",
    Kind::Number(Range::closed(0.0, 1.0)),
    Default::Number(0.8),
    "share of the credit that is left after a step",
);

pub(super) fn part() -> Part {
    let about = "threshold, with tokens that were the best before raised by their credit (dInfer)";
    Part::pace("credit", about, |given| {
        let [weight, power, decay] = ["credit_weight", "credit_power", "credit_decay"].map(|name| given.number(name));
        let rule = CreditRule { weight, power, decay };
        Ok(Box::new(CreditThreshold { threshold: given.number("threshold"), rule, unroll: Unroll::of(given) }))
    })
    .parameters(&[THRESHOLD.default(Default::Number(0.9)), WEIGHT, POWER, DECAY, UNROLL, EXPECTED_TPF])
}

impl Pace for CreditThreshold {
    fn enter(&mut self, _entry: &Entry<'_>) -> Result<()> {
        self.unroll.enter();
        Ok(())
    }

    fn reads(&self, _block: &Block, _candidates: usize) -> Reads {
        Reads::All
    }

    fn choose(&mut self, ranked: &Ranked<'_>) -> Result<Vec<usize>> {
        self.unroll.step(ranked);
        let confidence = |rank: usize| ranked.beliefs()[rank].probability;
        let highest = (0..ranked.positions().len()).map(confidence).fold(0.0, f64::max);
        let least = self.threshold.min(highest - CLOSE);
        Ok(ranked.filter(|rank| rank == 0 || confidence(rank) >= least))
    }

    fn needs_another_pass(&self, block: &Block) -> bool {
        self.unroll.needs_another_pass(block)
    }

    fn credit(&self) -> Option<CreditRule> {
        Some(self.rule)
    }
}
