//! The record of a run: what `--format json` prints and `lacuna replay` reads.

use lacuna::{Canvas, Commit, Delta, Token, Trace};
use lacuna_models::Plan;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::{Engine, Job, Kind};

/// One run, as one line of JSON.
#[derive(Serialize, Deserialize)]
pub(crate) struct Record {
    /// What the user called the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<Value>,
    /// The visible text; null if the model has no tokenizer.
    pub(crate) text: Option<String>,
    /// The generated ids, or for a filled text all ids. A run that stopped early ends with its end-of-text token.
    pub(crate) tokens: Vec<Token>,
    /// Forward passes of the model.
    pub(crate) nfe: usize,
    /// Rows of the model's output that were read.
    pub(crate) rows_read: usize,
    /// What each step changed.
    pub(crate) steps: Vec<StepRecord>,
    /// Whether this is an answer, which ends at its end-of-text token, or a text that was filled.
    #[serde(default)]
    pub(crate) kind: Kind,
    /// How it was decoded.
    pub(crate) strategy: String,
    /// The layers whose attention set the order, if any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) layers: Vec<usize>,
    /// How many tokens the prompt has.
    pub(crate) prompt_tokens: usize,
    /// How long decoding took.
    pub(crate) seconds: f64,
    /// Tokens of the visible text for each of these seconds.
    pub(crate) tokens_per_second: f64,
    /// The canvas before the first step.
    pub(crate) canvas: Vec<Token>,
    /// The id that stands for "undecided" in it.
    pub(crate) mask_token: Token,
}

/// What one step changed.
#[derive(Serialize, Deserialize)]
pub(crate) struct StepRecord {
    /// The block that was decoded.
    pub(crate) block: usize,
    /// Positions and their tokens, ascending.
    pub(crate) unmasked: Vec<(usize, Token)>,
    /// Positions that were masked again after that, ascending.
    pub(crate) remasked: Vec<usize>,
}

impl Record {
    /// What is to be kept of a finished job.
    pub(crate) fn of(job: &Job, plan: &Plan, engine: &Engine) -> anyhow::Result<Self> {
        let step = |delta: &Delta| StepRecord {
            block: delta.block,
            unmasked: delta.committed.iter().map(|commit| (commit.position, commit.token)).collect(),
            remasked: delta.reopened.clone(),
        };
        let start = &job.run.trace().start;
        Ok(Self {
            id: job.id.clone(),
            text: job.text(engine)?,
            tokens: job.tokens(engine).to_vec(),
            nfe: job.run.forwards(),
            rows_read: job.run.rows_read(),
            steps: job.run.trace().deltas.iter().map(step).collect(),
            kind: job.kind,
            strategy: plan.strategy.clone(),
            layers: plan.layers().to_vec(),
            prompt_tokens: job.from,
            seconds: job.took.as_secs_f64(),
            tokens_per_second: job.tokens_per_second(engine),
            canvas: start.tokens().to_vec(),
            mask_token: start.mask(),
        })
    }

    /// The trace that this records. Probabilities are not recorded, so those of the trace are unknown.
    pub(crate) fn trace(&self) -> anyhow::Result<Trace> {
        let start = Canvas::new(self.canvas.clone(), self.mask_token)?;
        anyhow::ensure!(self.prompt_tokens < start.len(), "its prompt is longer than its canvas");
        let mut canvas = start.clone();
        let mut deltas = Vec::new();
        for (number, step) in self.steps.iter().enumerate() {
            let unknown = f64::NAN;
            let commit = |&(position, token): &(usize, Token)| Commit {
                position,
                token,
                probability: unknown,
                entropy: unknown,
                score: unknown,
            };
            let writable = |&position: &usize| position < canvas.len() && canvas.is_gap(position);
            let legal = step.unmasked.iter().all(|(position, token)| writable(position) && *token != self.mask_token)
                && step.remasked.iter().all(writable);
            anyhow::ensure!(legal, "step {number} changes a position that is no gap of its canvas");
            let delta = Delta {
                block: step.block,
                committed: step.unmasked.iter().map(commit).collect(),
                reopened: step.remasked.clone(),
            };
            delta.apply(&mut canvas);
            deltas.push(delta);
        }
        Ok(Trace { start, deltas })
    }
}
