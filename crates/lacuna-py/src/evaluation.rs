//! Benchmarks for a model of the engine, or one of the caller's.

use std::path::PathBuf;
use std::sync::PoisonError;

use lacuna::catalogue::Params;
use lacuna::{Belief, Observation, Predictor, Replica, Row, Token, View, Wrapper};
use lacuna_cli::{CheckpointCodec, Measurement, Subject, describe_model, measure};
use lacuna_eval::run::{Entry, Part, Shard, TextCodec};
use lacuna_models::{Convention, PlanContext, Request};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::Logits;
use crate::errors::{Error, raise, wrap};
use crate::model::Model;
use crate::options::request;
use crate::outputs::{GivenOutputs, ModelOutput};
use crate::pool::Pool;

/// Batch size for a model of the caller's.
const DEFAULT_BATCH: usize = 8;

/// Parameters that say how long an answer is, where an evaluation has `gen_length`, or what a record has, where none is kept.
const NOT_HERE: [&str; 4] = ["max_tokens", "length", "draft", "top_logprobs"];

/// The keywords of `lacunalm.evaluate`, beside the options of decoding.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Keywords {
    tasks: Vec<String>,
    suite: Option<String>,
    data: Option<PathBuf>,
    out: PathBuf,
    protocol: Option<String>,
    preset: Option<PathBuf>,
    limit: Option<usize>,
    part: String,
    shard: String,
    batch: Option<usize>,
    gen_length: Vec<usize>,
    block_lengths: Vec<String>,
    each_layer: Option<String>,
    unconfined: bool,
    progress: bool,
}

impl Keywords {
    fn measurement(self, folder: Option<PathBuf>) -> PyResult<Measurement> {
        let part = match self.part.as_str() {
            "all" => Part::All,
            "tune" => Part::Tune,
            "test" => Part::Test,
            other => {
                return Err(PyValueError::new_err(format!("there is no part '{other}'; there are all, tune, test")));
            }
        };
        let shard: Shard = self.shard.parse().map_err(failed)?;
        Ok(Measurement {
            tasks: self.tasks,
            suite: self.suite,
            data: self.data.or(folder),
            out: self.out,
            protocol: self.protocol,
            preset: self.preset,
            limit: self.limit,
            part,
            shard,
            batch: self.batch,
            gen_length: self.gen_length,
            block_lengths: self.block_lengths,
            each_layer: self.each_layer,
            unconfined: self.unconfined,
        })
    }
}

/// Measures a loaded model; `lacunalm.evaluate` says how. Returns what results.json holds.
#[pyfunction]
#[pyo3(signature = (model, keywords, **options))]
pub(crate) fn evaluate_model(
    py: Python<'_>,
    model: &Model,
    keywords: Keywords,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<String> {
    let (request, progress) = (decoding(options)?, keywords.progress);
    let measurement = keywords.measurement(model.folder())?;
    model.check_process()?;
    let entries = py.detach(|| {
        let mut locked: Vec<_> =
            model.replicas.iter().map(|replica| replica.lock().unwrap_or_else(PoisonError::into_inner)).collect();
        let (facts, default_batch) = (describe_model(&model.checkpoint, locked[0].as_ref()), locked[0].default_batch());
        let mut replicas: Vec<_> =
            locked.iter_mut().map(|replica| Threaded { model: replica.as_mut(), pool: model.threads() }).collect();
        let subject = Subject {
            model: facts,
            context: PlanContext::of(&model.checkpoint),
            checkpoint: Some(&model.checkpoint),
            default_batch,
            replicas: replicas.iter_mut().map(|replica| replica as Replica<'_>).collect(),
            codec: &CheckpointCodec::of(&model.checkpoint).map_err(say)?,
        };
        measure(&measurement, &request, subject, progress).map_err(say)
    })?;
    written(&entries)
}

/// Properties of a model of the caller's.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Own {
    name: String,
    family: String,
    parameters: usize,
    precision: String,
    device: String,
    mask_token: Token,
    end_tokens: Vec<Token>,
    layers: Option<usize>,
    shifted: bool,
    /// `answers(canvases, layers)`: for each canvas its logits, and the attention of these layers.
    answers: Py<PyAny>,
    /// `render(turns)`, `encode(text)`, `decode(tokens)`.
    codec: Py<PyAny>,
}

/// Measures a model of the caller's.
#[pyfunction]
#[pyo3(signature = (own, keywords, **options))]
pub(crate) fn evaluate_own(
    py: Python<'_>,
    own: Own,
    keywords: Keywords,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<String> {
    let (request, progress) = (decoding(options)?, keywords.progress);
    let measurement = keywords.measurement(None)?;
    let Own { mask_token, end_tokens: ends, shifted, .. } = own;
    let largest = ends.iter().copied().fold(mask_token, Token::max);
    let layers = own.layers.unwrap_or(1);
    let mut called =
        Called { given: GivenOutputs::new(mask_token, None, layers, shifted, largest), answers: own.answers };
    let subject = Subject {
        model: lacuna_eval::run::Model {
            name: own.name,
            family: own.family,
            parameters: own.parameters,
            precision: own.precision,
            device: own.device,
        },
        context: PlanContext {
            convention: if shifted { Convention::Dream } else { Convention::Llada },
            layers,
            end: ends.first().copied(),
            ends: ends.clone(),
            recommended: Params::new(),
        },
        checkpoint: None,
        default_batch: DEFAULT_BATCH,
        replicas: vec![&mut called],
        codec: &OwnCodec { ends, object: own.codec },
    };
    let entries = py.detach(|| measure(&measurement, &request, subject, progress)).map_err(say)?;
    written(&entries)
}

/// The parameters of decoding.
fn decoding(options: Option<&Bound<'_, PyDict>>) -> PyResult<Request> {
    let request = request(options)?;
    match NOT_HERE.into_iter().find(|name| request.get(name).is_some()) {
        Some(name) => Err(PyValueError::new_err(format!(
            "{name} is not for an evaluation: gen_length is the number of tokens of an answer"
        ))),
        None => Ok(request),
    }
}

fn written(entries: &[Entry]) -> PyResult<String> {
    serde_json::to_string(entries).map_err(|error| Error::new_err(error.to_string()))
}

/// The exception for whatever ends an evaluation.
fn say(error: anyhow::Error) -> PyErr {
    match error.downcast::<lacuna_eval::Error>() {
        Ok(error) => failed(error),
        Err(other) => match other.downcast::<lacuna::Error>() {
            Ok(error) => raise(error),
            Err(other) => PyValueError::new_err(keywords(&format!("{other:#}"))),
        },
    }
}

fn failed(error: lacuna_eval::Error) -> PyErr {
    use lacuna_eval::Error as Kind;
    match error {
        Kind::Decoding(error) => raise(error),
        Kind::Model(error) => raise(lacuna::Error::Predictor(error)),
        error @ (Kind::NoPython { .. } | Kind::NoSandbox | Kind::Sandbox { .. }) => {
            Error::new_err(keywords(&error.to_string()))
        }
        error => PyValueError::new_err(keywords(&error.to_string())),
    }
}

/// A message with flags called as the keywords that they are here.
fn keywords(message: &str) -> String {
    let word = |word: &str| match word.strip_prefix("--") {
        Some(flag) => flag.replace('-', "_"),
        None => word.to_string(),
    };
    message.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// A model of the engine that computes on its threads, and that Ctrl-C stops between two forward passes.
struct Threaded<'a> {
    model: &'a mut dyn lacuna_models::Model,
    pool: &'a Pool,
}

impl Wrapper for Threaded<'_> {
    fn inner(&self) -> &dyn Predictor {
        self.model
    }

    fn inner_mut(&mut self) -> &mut dyn Predictor {
        self.model
    }

    fn observe(&mut self, views: &[View<'_>]) -> lacuna::Result<Vec<Observation>> {
        Python::attach(|py| py.check_signals()).map_err(wrap)?;
        self.pool.run(|| self.model.observe(views)).map_err(wrap)?
    }

    fn read(&mut self, rows: &[Row<'_>]) -> lacuna::Result<Vec<Belief>> {
        self.pool.run(|| self.model.read(rows)).map_err(wrap)?
    }
}

/// A model that is called for each forward pass.
struct Called {
    given: GivenOutputs,
    answers: Py<PyAny>,
}

impl Called {
    fn ask(&self, views: &[View<'_>]) -> PyResult<Vec<ModelOutput>> {
        let canvases: Vec<&[Token]> = views.iter().map(|view| view.tokens).collect();
        let mut layers: Vec<usize> = views.iter().flat_map(|view| view.attention).map(|source| source.layer).collect();
        layers.sort_unstable();
        layers.dedup();
        Python::attach(|py| {
            let answers: Vec<(Bound<'_, PyAny>, Option<Py<PyAny>>)> =
                self.answers.bind(py).call1((canvases, layers))?.extract()?;
            let outputs = views.iter().zip(answers).map(|(view, (logits, attention))| {
                Ok(ModelOutput { logits: Logits::of(&logits, view.tokens.len())?, attention })
            });
            outputs.collect()
        })
    }
}

impl Wrapper for Called {
    fn inner(&self) -> &dyn Predictor {
        &self.given
    }

    fn inner_mut(&mut self) -> &mut dyn Predictor {
        &mut self.given
    }

    fn observe(&mut self, views: &[View<'_>]) -> lacuna::Result<Vec<Observation>> {
        self.given.clear(true);
        self.given.set(self.ask(views).map_err(wrap)?);
        self.given.observe(views)
    }
}

/// The tokenizer of a model of the caller's.
struct OwnCodec {
    ends: Vec<Token>,
    object: Py<PyAny>,
}

impl OwnCodec {
    fn ask<'a, T: for<'py> FromPyObjectOwned<'py>>(
        &self,
        method: &str,
        given: impl for<'py> pyo3::call::PyCallArgs<'py> + 'a,
    ) -> lacuna_eval::Result<T> {
        Python::attach(|py| self.object.bind(py).call_method1(method, given)?.extract().map_err(Into::into))
            .map_err(|error: PyErr| lacuna_eval::Error::Model(Box::new(error)))
    }
}

impl TextCodec for OwnCodec {
    fn render(&self, turns: &[(&str, &str)]) -> lacuna_eval::Result<String> {
        self.ask("render", (turns.to_vec(),))
    }

    fn encode(&self, text: &str) -> lacuna_eval::Result<Vec<Token>> {
        self.ask("encode", (text,))
    }

    fn decode(&self, tokens: &[Token]) -> lacuna_eval::Result<String> {
        self.ask("decode", (tokens,))
    }

    fn ends(&self) -> &[Token] {
        &self.ends
    }
}
