//! Scoring given texts: what is asked, and what is told.

use lacuna::{Direction, Error, Likelihood, Passage, Result, Score, Token};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Checkpoint, Record, Specials};

/// Samples of the estimate unless another number is asked for, and their seed: LLaDA's published settings.
const SAMPLES: usize = 128;
const SEED: u64 = 1234;
const MAX_SAMPLES: usize = 4096;
/// The names of the ways to score.
const ORDERS: [&str; 4] = ["estimate", "left", "right", "random"];

/// A scoring request. Absent fields are as in LLaDA's evaluation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoreRequest {
    /// `estimate`, LLaDA's Monte Carlo estimate, or the order in which tokens are scored one by one: `left`, `right` or `random`.
    pub order: Option<String>,
    /// The order as steps, each a list of places in the text, from 0. What is in no step is given.
    pub steps: Option<Vec<Vec<usize>>>,
    /// Samples of the estimate.
    pub samples: Option<usize>,
    /// Seed of its masks, or of the random order.
    pub seed: Option<u64>,
    /// Scale of classifier-free guidance.
    pub guidance: Option<f64>,
}

impl ScoreRequest {
    /// The scale of guidance.
    pub fn scale(&self) -> Result<f32> {
        let scale = self.guidance.unwrap_or(0.0);
        match (0.0..=1000.0).contains(&scale) {
            true => Ok(scale as f32),
            false => Err(Error::parameter("guidance", scale.to_string(), "must be a number from 0 to 1000")),
        }
    }

    /// The way to score a passage.
    pub fn likelihood(&self, passage: &Passage) -> Result<Likelihood> {
        let order = self.order.as_deref();
        let unused =
            |name, given: bool, by: &str| if given { Err(Error::unused(name, by.to_string())) } else { Ok(()) };
        let seed = self.seed.unwrap_or(SEED);
        if let Some(steps) = &self.steps {
            unused("order", order.is_some(), "steps, which are one")?;
            unused("samples", self.samples.is_some(), "steps")?;
            unused("seed", self.seed.is_some(), "steps")?;
            let place = |&place: &usize| passage.prompt.saturating_add(place);
            let steps: Vec<Vec<usize>> = steps.iter().map(|step| step.iter().map(place).collect()).collect();
            if steps.iter().all(Vec::is_empty) {
                return Err(Error::parameter("steps", "empty", "must name places in the text"));
            }
            let length = passage.tokens.len() - passage.prompt.min(passage.tokens.len());
            if let Some(stray) = steps.iter().flatten().find(|&&position| position >= passage.tokens.len()) {
                let expected = format!("must be below {length}, the number of the text's tokens");
                return Err(Error::parameter("steps", (stray - passage.prompt).to_string(), expected));
            }
            return Ok(Likelihood::Along(steps));
        }
        let direction = match order.unwrap_or(ORDERS[0]) {
            "estimate" => {
                let samples = self.samples.unwrap_or(SAMPLES);
                if samples > MAX_SAMPLES {
                    let expected = format!("must be at most {MAX_SAMPLES}");
                    return Err(Error::parameter("samples", samples.to_string(), expected));
                }
                return Ok(Likelihood::MonteCarlo { samples, seed });
            }
            "left" => Direction::Left,
            "right" => Direction::Right,
            "random" => Direction::Random { seed },
            other => {
                let expected = format!("must be one of {}", ORDERS.join(", "));
                return Err(Error::parameter("order", other, expected));
            }
        };
        let by = format!("order {}", order.unwrap_or_default());
        unused("samples", self.samples.is_some(), &by)?;
        unused("seed", self.seed.is_some() && !matches!(direction, Direction::Random { .. }), &by)?;
        Ok(Likelihood::one_by_one(direction, passage))
    }
}

/// The score of a text, as one line of JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScoreRecord {
    /// The user's identifier of the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Value>,
    /// The log-likelihood, or the estimate of a lower bound on it, in nats.
    pub loglikelihood: f64,
    /// Standard error of the estimate, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standard_error: Option<f64>,
    /// The log-likelihood divided by the number of tokens.
    pub mean_logprob: f64,
    /// Number of tokens that were scored.
    pub tokens: usize,
    /// Forward passes of the model.
    pub nfe: usize,
    /// Along an order, the scored tokens by their place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<ScoredToken>,
}

/// A token that was scored.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScoredToken {
    /// Its place in the text, from 0.
    pub place: usize,
    /// Its id.
    pub token: Token,
    /// Its text; empty if the model has no tokenizer.
    pub text: String,
    /// The logarithm of its probability.
    pub logprob: f64,
    /// The step in which it was scored, from 0.
    pub step: usize,
}

impl ScoreRecord {
    /// Names of its fields, but for `id`.
    pub const FIELDS: [&str; 6] = ["loglikelihood", "standard_error", "mean_logprob", "tokens", "nfe", "logprobs"];

    /// The record of a passage's score.
    pub fn of(score: &Score, passage: &Passage, checkpoint: &Checkpoint) -> crate::Result<Self> {
        let mut logprobs = Vec::new();
        for (step, scored) in score.steps.iter().enumerate() {
            for &(position, logprob) in scored {
                let token = passage.tokens[position];
                let text = checkpoint.text().ok().map(|codec| codec.decode(&[token], Specials::Keep)).transpose()?;
                let text = text.unwrap_or_default();
                logprobs.push(ScoredToken { place: position - passage.prompt, token, text, logprob, step });
            }
        }
        logprobs.sort_by_key(|token| token.place);
        Ok(Self {
            id: None,
            loglikelihood: score.loglikelihood,
            standard_error: score.standard_error,
            mean_logprob: score.loglikelihood / score.tokens.max(1) as f64,
            tokens: score.tokens,
            nfe: score.forwards,
            logprobs,
        })
    }
}

impl Record {
    /// The text of a recorded run, and the order in which its tokens were decided for good.
    pub fn passage(&self) -> Result<(Passage, Likelihood)> {
        let trace = self.trace()?;
        let mut steps = vec![Vec::new(); trace.deltas.len()];
        for (position, step) in trace.decided(trace.deltas.len()).into_iter().enumerate() {
            step.into_iter().for_each(|step| steps[step].push(position));
        }
        let passage = Passage { tokens: trace.replay().tokens().to_vec(), prompt: self.prompt_tokens };
        Ok((passage, Likelihood::Along(steps)))
    }
}

impl Checkpoint {
    /// A text behind a prompt. A prompt that stays as it is is cut from its text as lm-evaluation-harness does: spaces at its end belong
    /// to the text, and both are tokenized together. An empty prompt is none.
    pub fn passage(&self, prompt: &str, system: Option<&str>, raw: bool, text: &str) -> crate::Result<Passage> {
        let codec = self.text()?;
        let encode = |text: &str| if text.is_empty() { Ok(Vec::new()) } else { codec.encode(text) };
        let plain = raw || (!codec.can_chat() && system.is_none());
        if prompt.is_empty() || plain {
            let begin = prompt.trim_end();
            let given = encode(begin)?;
            let whole = encode(&format!("{prompt}{text}"))?;
            return Ok(Passage { prompt: given.len().min(whole.len()), tokens: whole });
        }
        let given = self.encode_prompt(prompt, system, raw)?;
        Ok(Passage { prompt: given.len(), tokens: [given, encode(text)?].concat() })
    }
}
