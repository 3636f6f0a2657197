//! Records of runs, as Python sees them.

use std::hash::{DefaultHasher, Hash, Hasher};

use lacuna::{Delta, Pass, Token};
use lacuna_models::{Detail, Record};
use pyo3::PyClassInitializer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::errors::{Error, raise};

/// A position that was decided.
#[pyclass(frozen, get_all, eq, from_py_object, module = "lacunalm")]
#[derive(Clone, PartialEq)]
pub(crate) struct Commit {
    /// Position, counted from the start of the prompt.
    position: usize,
    /// Token id.
    token: Token,
    /// Probability of the token.
    probability: f64,
    /// The entropy of the model's belief in nats.
    entropy: f64,
    /// The score by which the order ranked it.
    score: f64,
    /// The most probable tokens and their log-probabilities, as many as `top_logprobs` asked for.
    top_logprobs: Vec<(Token, f64)>,
}

impl Commit {
    /// True if JSON cannot tell them apart.
    fn same(&self, other: &Self) -> bool {
        let same = |a: f64, b: f64| match a.is_finite() && b.is_finite() {
            true => (a - b).abs() <= f64::EPSILON * a.abs(),
            false => !a.is_finite() && !b.is_finite(),
        };
        (self.position, self.token) == (other.position, other.token)
            && same(self.probability, other.probability)
            && same(self.entropy, other.entropy)
            && same(self.score, other.score)
    }
}

#[pymethods]
impl Commit {
    #[new]
    #[pyo3(signature = (position, token, probability, entropy, score, top_logprobs = Vec::new()))]
    fn new(
        position: usize,
        token: Token,
        probability: f64,
        entropy: f64,
        score: f64,
        top_logprobs: Vec<(Token, f64)>,
    ) -> Self {
        Self { position, token, probability, entropy, score, top_logprobs }
    }

    fn __getnewargs__(&self) -> (usize, Token, f64, f64, f64, Vec<(Token, f64)>) {
        (self.position, self.token, self.probability, self.entropy, self.score, self.top_logprobs.clone())
    }

    fn __hash__(&self) -> u64 {
        hash(&(self.position, self.token))
    }

    fn __repr__(&self) -> String {
        let Self { position, token, probability, entropy, score, .. } = self;
        format!(
            "Commit(position={position}, token={token}, probability={probability:.4}, entropy={entropy:.4}, \
             score={score:.4})"
        )
    }
}

/// Changes of one step.
#[pyclass(frozen, get_all, eq, from_py_object, subclass, module = "lacunalm")]
#[derive(Clone, PartialEq)]
pub(crate) struct Step {
    /// The block that was decoded.
    block: usize,
    /// Purpose of the forward pass: "denoise", "prefill" or "store".
    kind: &'static str,
    /// Committed tokens, ascending by position.
    committed: Vec<Commit>,
    /// Decided positions whose token was replaced, ascending.
    edited: Vec<Commit>,
    /// The positions that were reopened after that, ascending.
    reopened: Vec<usize>,
}

const PASSES: [Pass; 3] = [Pass::Denoise, Pass::Prefill, Pass::Store];

fn name(pass: Pass) -> &'static str {
    match pass {
        Pass::Denoise => "denoise",
        Pass::Prefill => "prefill",
        Pass::Store => "store",
    }
}

impl From<&Delta> for Step {
    fn from(delta: &Delta) -> Self {
        let commit = |commit: &lacuna::Commit| {
            let lacuna::Commit { position, token, probability, entropy, score, ref alternatives } = *commit;
            Commit { position, token, probability, entropy, score, top_logprobs: alternatives.clone() }
        };
        let [committed, edited] = [&delta.committed, &delta.edited].map(|list| list.iter().map(commit).collect());
        Self { block: delta.block, kind: name(delta.kind), committed, edited, reopened: delta.reopened.clone() }
    }
}

impl Step {
    /// True if JSON cannot tell them apart.
    fn same(&self, other: &Self) -> bool {
        let all = |a: &[Commit], b: &[Commit]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b));
        (self.block, self.kind, &self.reopened) == (other.block, other.kind, &other.reopened)
            && all(&self.committed, &other.committed)
            && all(&self.edited, &other.edited)
    }
}

#[pymethods]
impl Step {
    #[new]
    fn new(
        block: usize,
        kind: &str,
        committed: Vec<Commit>,
        edited: Vec<Commit>,
        reopened: Vec<usize>,
    ) -> PyResult<Self> {
        let Some(kind) = PASSES.into_iter().map(name).find(|name| *name == kind) else {
            return Err(PyValueError::new_err(format!("there is no pass '{kind}'")));
        };
        Ok(Self { block, kind, committed, edited, reopened })
    }

    fn __getnewargs__(&self) -> (usize, &'static str, Vec<Commit>, Vec<Commit>, Vec<usize>) {
        (self.block, self.kind, self.committed.clone(), self.edited.clone(), self.reopened.clone())
    }

    fn __hash__(&self) -> u64 {
        hash(&(self.block, self.committed.iter().map(|commit| commit.position).collect::<Vec<_>>(), &self.reopened))
    }

    fn __repr__(&self) -> String {
        let committed: Vec<String> = self.committed.iter().map(Commit::__repr__).collect();
        format!("Step(block={}, committed=[{}], reopened={:?})", self.block, committed.join(", "), self.reopened)
    }
}

/// Changes of one step, and the text after it.
#[pyclass(frozen, get_all, extends = Step, module = "lacunalm")]
pub(crate) struct Frame {
    /// The answer's tokens, the mask token where undecided.
    pub(crate) tokens: Vec<Token>,
    /// The visible text, ░ where undecided; None if the model has no tokenizer.
    pub(crate) text: Option<String>,
}

#[pymethods]
impl Frame {
    #[new]
    fn new(
        block: usize,
        kind: &str,
        committed: Vec<Commit>,
        edited: Vec<Commit>,
        reopened: Vec<usize>,
        tokens: Vec<Token>,
        text: Option<String>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let step = Step::new(block, kind, committed, edited, reopened)?;
        Ok(PyClassInitializer::from(step).add_subclass(Self { tokens, text }))
    }

    #[expect(clippy::type_complexity, reason = "the arguments of a frame")]
    fn __getnewargs__(
        slf: PyRef<'_, Self>,
    ) -> (usize, &'static str, Vec<Commit>, Vec<Commit>, Vec<usize>, Vec<Token>, Option<String>) {
        let (block, kind, committed, edited, reopened) = slf.as_super().__getnewargs__();
        (block, kind, committed, edited, reopened, slf.tokens.clone(), slf.text.clone())
    }
}

/// A decoded text and how it came about.
///
/// `Result(line)` reads one that `to_json` or `lacuna generate --format json` wrote. Two are equal if everything is but the time
/// they took, as far as JSON can tell: it has no infinities, and its readers may round the last bit.
#[pyclass(frozen, module = "lacunalm")]
pub(crate) struct Result {
    record: Record,
    steps: Vec<Step>,
}

impl Result {
    pub(crate) fn new(record: Record, deltas: &[Delta]) -> Self {
        Self { record, steps: deltas.iter().map(Step::from).collect() }
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[pymethods]
impl Result {
    #[new]
    #[pyo3(signature = (line, steps = None))]
    fn read(line: &str, steps: Option<Vec<Step>>) -> PyResult<Self> {
        let record: Record = serde_json::from_str(line)
            .map_err(|error| PyValueError::new_err(format!("not a recorded run: {error}")))?;
        let steps = match steps {
            Some(steps) => steps,
            None => record.trace().map_err(raise)?.deltas.iter().map(Step::from).collect(),
        };
        Ok(Self { record, steps })
    }

    /// JSON has no infinities, so that the steps go beside it.
    fn __getnewargs__(&self) -> PyResult<(String, Vec<Step>)> {
        Ok((self.to_json()?, self.steps.clone()))
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        let Ok(other) = other.cast::<Self>() else { return false };
        let timeless =
            |result: &Self| Record { seconds: 0.0, tokens_per_second: 0.0, steps: Vec::new(), ..result.record.clone() };
        let (one, two) = (&self.steps, &other.get().steps);
        timeless(self) == timeless(other.get()) && one.len() == two.len() && one.iter().zip(two).all(|(a, b)| a.same(b))
    }

    fn __hash__(&self) -> u64 {
        hash(&self.record.tokens)
    }

    /// The decisions as a list of dicts, one for each token that a step committed or replaced: step, block, position, token,
    /// text, probability, entropy, score and edited. pandas.DataFrame takes it as it is.
    fn records<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for (number, (step, recorded)) in self.steps.iter().zip(&self.record.steps).enumerate() {
            let details = recorded.details.iter().flatten();
            let text = |commit: &Commit| {
                let same = |detail: &&Detail| (detail.position, detail.token) == (commit.position, commit.token);
                details.clone().find(same).map(|detail| detail.text.clone())
            };
            let written = step.committed.iter().map(|commit| (commit, false));
            for (commit, edited) in written.chain(step.edited.iter().map(|commit| (commit, true))) {
                let row = PyDict::new(py);
                row.set_item("step", number)?;
                row.set_item("block", step.block)?;
                row.set_item("position", commit.position)?;
                row.set_item("token", commit.token)?;
                row.set_item("text", text(commit))?;
                row.set_item("probability", commit.probability)?;
                row.set_item("entropy", commit.entropy)?;
                row.set_item("score", commit.score)?;
                row.set_item("edited", edited)?;
                list.append(row)?;
            }
        }
        Ok(list)
    }

    /// `records` as a frame of pandas.
    fn to_pandas<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("pandas")?.call_method1("DataFrame", (self.records(py)?,))
    }

    /// Draws when each position was decided, and how probable its token was; returns matplotlib's axes.
    #[pyo3(signature = (axes = None))]
    fn plot<'py>(slf: &Bound<'py, Self>, axes: Option<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("lacunalm.notebook")?.call_method1("plot", (slf, axes))
    }

    /// A picture as SVG: the canvas at a few moments, coloured by step, `columns` characters wide.
    #[pyo3(signature = (*, columns = 44))]
    fn svg<'py>(slf: &Bound<'py, Self>, columns: usize) -> PyResult<Bound<'py, PyAny>> {
        let named = PyDict::new(slf.py());
        named.set_item("columns", columns)?;
        slf.py().import("lacunalm.notebook")?.call_method("svg", (slf,), Some(&named))
    }

    /// The canvas as a notebook shows it: coloured by step, with a slider over the steps.
    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("lacunalm.notebook")?.call_method1("html", (slf,))
    }

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

    /// The tokens of the draft that are others now: (position, old token, new token); None if there was no draft.
    #[getter]
    fn changed(&self) -> Option<Vec<(usize, Token, Token)>> {
        self.record.changed.clone()
    }

    /// For each gap of unknown length, the lengths that were tried, each with its score: the mean of ln p of the most probable tokens.
    #[getter]
    fn tried(&self) -> Vec<Vec<(usize, f64)>> {
        let found = self.record.steps.iter().filter(|step| !step.tried.is_empty());
        found.map(|step| step.tried.iter().map(|tried| (tried.length, tried.score)).collect()).collect()
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

    /// Changes of each step.
    #[getter]
    fn steps(&self) -> Vec<Step> {
        self.steps.clone()
    }

    /// Strategy.
    #[getter]
    fn strategy(&self) -> &str {
        &self.record.strategy
    }

    /// The layers whose attention set the order; empty if it was not attention.
    #[getter]
    fn layers(&self) -> &[usize] {
        &self.record.layers
    }

    /// Number of prompt tokens.
    #[getter]
    fn prompt_tokens(&self) -> usize {
        self.record.prompt_tokens
    }

    /// Decoding time in seconds.
    #[getter]
    fn seconds(&self) -> f64 {
        self.record.seconds
    }

    /// Tokens of the visible text for each of these seconds.
    #[getter]
    fn tokens_per_second(&self) -> f64 {
        self.record.tokens_per_second
    }

    /// Mean log-probability of the tokens that were written, each in the step that decided it; None if there are none.
    #[getter]
    fn mean_logprob(&self) -> Option<f64> {
        self.record.mean_logprob
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
