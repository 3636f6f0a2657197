//! PC-Sampler: early positions and rare tokens first.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;

use super::{Order, RankBy};
use crate::catalogue::{Default, Kind, Need, Parameter, Part, Range};
use crate::{Error, Result, StepContext, Token};

/// PC-Sampler: a weight that falls along the block, times how much a token's probability says beyond its frequency in a corpus:
/// `e^(−decay · j) · min(−p · ln f, most)` at the j-th position.
#[derive(Clone, Debug)]
pub struct PositionPrior {
    /// Rate at which the weight falls.
    pub decay: f64,
    /// Upper bound on the second factor.
    pub most: f64,
    /// Frequencies of tokens.
    pub frequencies: Frequencies,
}

/// Frequencies of tokens in a corpus, as PC-Sampler's files have them.
#[derive(Clone, Debug, Deserialize)]
pub struct Frequencies {
    /// Tokens of the corpus.
    #[serde(rename = "num_token")]
    total: f64,
    /// Count of each token; those that are missing count once.
    #[serde(rename = "p_baseline_dict")]
    counts: HashMap<Token, f64>,
}

const FREQUENCIES: Parameter = Parameter::new(
    "frequencies",
    Kind::File,
    Default::Required,
    "frequencies of tokens in a corpus: JSON with num_token and p_baseline_dict, as PC-Sampler has them",
);
const DECAY: Parameter = Parameter::new(
    "position_decay",
    Kind::Number(Range::closed(0.0, 1000.0)),
    Default::Number(0.25),
    "how fast the weight of a position falls along the block; 0 does not prefer early positions",
);
const FREQUENCY_CAP: Parameter = Parameter::new(
    "frequency_cap",
    Kind::Number(Range::above(0.0, 1e6)),
    Default::Number(10.0),
    "upper bound on -p ln f, with f the frequency of the token",
);

pub(super) fn part() -> Part {
    Part::order("prior", "early positions and tokens that are rarer than the model finds them (PC-Sampler)", |given| {
        let frequencies = Frequencies::parse(given.word("frequencies"))?;
        let (decay, most) = (given.number("position_decay"), given.number("frequency_cap"));
        Ok(Arc::new(PositionPrior { decay, most, frequencies }))
    })
    .needs(&[Need::Beliefs])
    .parameters(&[FREQUENCIES, DECAY, FREQUENCY_CAP])
}

impl Frequencies {
    /// Reads the text of a file.
    pub fn parse(text: &str) -> Result<Self> {
        let refuse = |why: String| Err(Error::parameter("frequencies", "not usable".to_string(), why));
        match serde_json::from_str::<Self>(text) {
            Ok(read) if read.total > 0.0 && read.counts.values().all(|count| *count >= 0.0) => Ok(read),
            Ok(_) => refuse("must have counts of 0 or more of a num_token above 0".into()),
            Err(error) => refuse(format!("must be JSON with num_token and p_baseline_dict: {error}")),
        }
    }

    /// The frequency of a token.
    pub fn of(&self, token: Token) -> f64 {
        self.counts.get(&token).copied().unwrap_or(1.0) / self.total
    }
}

impl Order for PositionPrior {
    fn ranks_by(&self) -> RankBy<'_> {
        RankBy::BELIEFS
    }

    fn score(&self, context: &StepContext<'_>) -> Result<Vec<f64>> {
        let start = context.block().range.start;
        let score = |&position: &usize| {
            let belief = context.belief(position);
            let surprise = -belief.probability * (self.frequencies.of(belief.token) + 1e-9).ln();
            (-self.decay * position.saturating_sub(start) as f64).exp() * surprise.min(self.most)
        };
        Ok(context.candidates().iter().map(score).collect())
    }
}
