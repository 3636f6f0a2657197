//! What a run has done, as Python sees it.

use lacuna::{Delta, Pass, Token};
use lacuna_models::Record;
use pyo3::prelude::*;

use crate::errors::Error;

/// A position that was decided.
#[pyclass(frozen, get_all, eq, module = "lacuna")]
#[derive(Clone, PartialEq)]
pub(crate) struct Commit {
    /// Where, counted from the start of the prompt.
    position: usize,
    /// What.
    token: Token,
    /// How probable the model found it.
    probability: f64,
    /// The entropy of the model's belief in nats.
    entropy: f64,
    /// The score by which the order ranked it.
    score: f64,
}

#[pymethods]
impl Commit {
    fn __repr__(&self) -> String {
        let Self { position, token, probability, entropy, score } = self;
        format!(
            "Commit(position={position}, token={token}, probability={probability:.4}, entropy={entropy:.4}, \
             score={score:.4})"
        )
    }
}

/// What one step changed.
#[pyclass(frozen, get_all, eq, subclass, module = "lacuna")]
#[derive(Clone, PartialEq)]
pub(crate) struct Step {
    /// The block that was decoded.
    block: usize,
    /// Purpose of the forward pass: "denoise", "prefill" or "store".
    kind: &'static str,
    /// What was committed, ascending by position.
    committed: Vec<Commit>,
    /// Decided positions whose token was replaced, ascending.
    edited: Vec<Commit>,
    /// The positions that were reopened after that, ascending.
    reopened: Vec<usize>,
}

impl From<&Delta> for Step {
    fn from(delta: &Delta) -> Self {
        let commit = |commit: &lacuna::Commit| {
            let lacuna::Commit { position, token, probability, entropy, score } = *commit;
            Commit { position, token, probability, entropy, score }
        };
        let [committed, edited] = [&delta.committed, &delta.edited].map(|list| list.iter().map(commit).collect());
        let kind = match delta.kind {
            Pass::Denoise => "denoise",
            Pass::Prefill => "prefill",
            Pass::Store => "store",
        };
        Self { block: delta.block, kind, committed, edited, reopened: delta.reopened.clone() }
    }
}

#[pymethods]
impl Step {
    fn __repr__(&self) -> String {
        let committed: Vec<String> = self.committed.iter().map(Commit::__repr__).collect();
        format!("Step(block={}, committed=[{}], reopened={:?})", self.block, committed.join(", "), self.reopened)
    }
}

/// What one step changed, and what stands there now.
#[pyclass(frozen, get_all, extends = Step, module = "lacuna")]
pub(crate) struct Frame {
    /// The answer's tokens, the mask token where undecided.
    pub(crate) tokens: Vec<Token>,
    /// The visible text, ░ where undecided; None if the model has no tokenizer.
    pub(crate) text: Option<String>,
}

/// A decoded text and how it came about.
#[pyclass(frozen, module = "lacuna")]
pub(crate) struct Result {
    record: Record,
    steps: Vec<Step>,
}

impl Result {
    pub(crate) fn new(record: Record, deltas: &[Delta]) -> Self {
        Self { record, steps: deltas.iter().map(Step::from).collect() }
    }
}

#[pymethods]
impl Result {
    /// The visible text; None if the model has no tokenizer.
    #[getter]
    fn text(&self) -> Option<&str> {
        self.record.text.as_deref()
    }

    /// The generated ids, or for a filled text all ids. What stopped early ends with its end-of-text token.
    #[getter]
    fn tokens(&self) -> &[Token] {
        &self.record.tokens
    }

    /// Forward passes of the model.
    #[getter]
    fn nfe(&self) -> usize {
        self.record.nfe
    }

    /// Rows of the model's output that were read.
    #[getter]
    fn rows_read(&self) -> usize {
        self.record.rows_read
    }

    /// Positions that forward passes computed.
    #[getter]
    fn rows_computed(&self) -> usize {
        self.record.rows_computed
    }

    /// What each step changed.
    #[getter]
    fn steps(&self) -> Vec<Step> {
        self.steps.clone()
    }

    /// How it was decoded.
    #[getter]
    fn strategy(&self) -> &str {
        &self.record.strategy
    }

    /// The layers whose attention set the order; empty if it was not attention.
    #[getter]
    fn layers(&self) -> &[usize] {
        &self.record.layers
    }

    /// How many tokens the prompt has.
    #[getter]
    fn prompt_tokens(&self) -> usize {
        self.record.prompt_tokens
    }

    /// How long decoding took.
    #[getter]
    fn seconds(&self) -> f64 {
        self.record.seconds
    }

    /// Tokens of the visible text for each of these seconds.
    #[getter]
    fn tokens_per_second(&self) -> f64 {
        self.record.tokens_per_second
    }

    /// The record as a line of JSON, as `lacuna generate --format json` prints it and `lacuna replay` shows it.
    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.record).map_err(|error| Error::new_err(error.to_string()))
    }

    fn __repr__(&self) -> String {
        let Record { text, tokens, nfe, strategy, .. } = &self.record;
        let shown = match text {
            Some(text) => format!("text={text:?}"),
            None => format!("tokens={tokens:?}"),
        };
        format!("Result({shown}, nfe={nfe}, strategy={strategy:?})")
    }
}
