//! The engine: a checkpoint, loaded.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use lacuna::{AttentionSource, Canvas, Description, Token, View};
use lacuna_models::{Checkpoint, Device, Facts, GAP, Isa, Job, Kind, Plan, Precision, Specials};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use crate::arrays::{floats, tokens};
use crate::errors::{Error, raise};
use crate::options::request;
use crate::prompt::{Wording, several};
use crate::record::Result;
use crate::stream::Stream;

/// A model that decodes: the embedded one, or one in the Hugging Face layout or in GGUF.
///
/// `device` is "auto", "cpu" or "cuda"; `precision` is "f32", "bf16", "int8" or "fp8", the checkpoint's own if it is not told.
/// `isa` is the CPU's instruction set for all models of the process: "amx", "avx512bf16", "avx512", "avx2" or "scalar";
/// "auto" is the one that LACUNA_ISA names, or else the fastest. `mask_token` is for checkpoints that do not name theirs,
/// `shifted` for those that do not tell whether a position is predicted from the row before it (A2D).
/// Several threads may use a model: their steps take turns, and Python is let go while they compute.
#[pyclass(frozen, module = "lacuna")]
pub(crate) struct Model {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) ends: Vec<Token>,
    predictor: Mutex<Box<dyn lacuna_models::Model>>,
    description: Description,
}

/// What a model makes of a canvas. numpy.asarray and torch.frombuffer take its memory as it is.
#[pyclass(frozen, get_all, module = "lacuna")]
pub(crate) struct Seen {
    /// float32 [length, vocabulary]: the logits of every position, before any shift.
    logits: Py<PyAny>,
    /// For every layer float32 [length]: the dependency score of each position, 0 where there is no mask.
    dependency: Vec<Py<PyAny>>,
}

impl Model {
    /// Asks the predictor something, with Python let go.
    pub(crate) fn ask<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut dyn lacuna_models::Model) -> T + Send,
    ) -> T {
        py.detach(|| work(self.predictor.lock().unwrap_or_else(PoisonError::into_inner).as_mut()))
    }

    /// Takes a step with each job that is not finished. Between steps signals are looked at: Ctrl-C ends it here.
    pub(crate) fn step(&self, py: Python<'_>, jobs: &mut [Job]) -> PyResult<bool> {
        py.check_signals()?;
        self.ask(py, |predictor| Job::step(jobs, predictor)).map_err(raise)
    }

    /// Steps `jobs` together until all are finished.
    fn decode_jobs(&self, py: Python<'_>, mut jobs: Vec<Job>, plan: &Plan) -> PyResult<Vec<Result>> {
        loop {
            match self.step(py, &mut jobs) {
                Ok(true) => {}
                Ok(false) => return jobs.iter().map(|job| self.result(job, plan)).collect(),
                Err(error) => {
                    self.ask(py, |predictor| jobs.into_iter().for_each(|job| job.run.abandon(predictor)));
                    return Err(error);
                }
            }
        }
    }

    pub(crate) fn result(&self, job: &Job, plan: &Plan) -> PyResult<Result> {
        let record = job.record(plan, &self.checkpoint).map_err(raise)?;
        Ok(Result::new(record, &job.run.trace().deltas))
    }

    fn answer(&self, prompt: &Bound<'_, PyAny>, wording: Wording<'_>, plan: &Plan) -> PyResult<Job> {
        let prompt = wording.encode(prompt, &self.checkpoint)?;
        let run = plan.answer(&prompt, &self.description).map_err(raise)?;
        Ok(Job::new(run, prompt.len(), Kind::Answer))
    }
}

#[pymethods]
impl Model {
    #[new]
    #[pyo3(signature = (path = None, *, device = "auto", precision = None, isa = "auto", mask_token = None, shifted = None))]
    fn new(
        py: Python<'_>,
        path: Option<PathBuf>,
        device: &str,
        precision: Option<&str>,
        isa: &str,
        mask_token: Option<Token>,
        shifted: Option<bool>,
    ) -> PyResult<Self> {
        let device = match device {
            "auto" => Device::Auto,
            "cpu" => Device::Cpu,
            "cuda" => Device::Cuda,
            other => {
                return Err(PyValueError::new_err(format!("there is no device '{other}'; there are auto, cpu, cuda")));
            }
        };
        let precision = precision.map(parse_precision).transpose()?;
        let isa: Option<Isa> = match isa {
            "auto" => None,
            name => Some(name.parse().map_err(raise)?),
        };
        let load = || {
            Isa::choose(isa)?;
            let mut checkpoint = path.map_or_else(Checkpoint::embedded, Checkpoint::open)?;
            if let Some(id) = mask_token {
                checkpoint = checkpoint.with_mask_token(id)?;
            }
            if let Some(shifted) = shifted {
                checkpoint = checkpoint.with_shift(shifted);
            }
            let predictor = lacuna_models::load(&checkpoint, precision, device)?;
            Ok((checkpoint, predictor))
        };
        let (checkpoint, predictor) = py.detach(load).map_err(|error: lacuna_models::Error| raise(error))?;
        let (ends, description) = (checkpoint.ends(), predictor.description().clone());
        Ok(Self { checkpoint, ends, predictor: Mutex::new(predictor), description })
    }

    /// Answers a prompt, or each of a list of prompts.
    ///
    /// A prompt is text, a chat of messages, or token ids. Text gets the model's chat template, with `system` as its system
    /// message, unless it is to stay `raw`. Of a list, `batch` prompts share a forward pass; it changes no answer. What else
    /// can be told is in `lacuna.Options`.
    #[pyo3(signature = (prompt, *, system = None, raw = false, batch = None, **options))]
    fn generate<'py>(
        &self,
        prompt: &Bound<'py, PyAny>,
        system: Option<&str>,
        raw: bool,
        batch: Option<usize>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = prompt.py();
        let plan = request(options)?.plan(&self.checkpoint).map_err(raise)?;
        let wording = Wording { system, raw };
        let Some(prompts) = several(prompt)? else {
            let job = self.answer(prompt, wording, &plan)?;
            return Ok(Bound::new(py, self.decode_jobs(py, vec![job], &plan)?.remove(0))?.into_any());
        };
        let mut jobs = Vec::with_capacity(prompts.len());
        for (number, prompt) in prompts.iter().enumerate() {
            jobs.push(self.answer(prompt, wording, &plan).or_else(|error| {
                error.value(py).call_method1("add_note", (format!("This is about prompt {number} of the list."),))?;
                Err(error)
            })?);
        }
        let batch = batch.unwrap_or_else(|| self.ask(py, |predictor| predictor.usual_batch()));
        if batch == 0 {
            return Err(PyValueError::new_err("batch is 0, but it must be 1 or more"));
        }
        let results = PyList::empty(py);
        while !jobs.is_empty() {
            let later = jobs.split_off(batch.min(jobs.len()));
            self.decode_jobs(py, jobs, &plan)?
                .into_iter()
                .try_for_each(|result| results.append(result.into_pyobject(py)?))?;
            jobs = later;
        }
        Ok(results.into_any())
    }

    /// Answers a prompt step by step: an iterator over the steps as they happen.
    #[pyo3(signature = (prompt, *, system = None, raw = false, **options))]
    fn stream(
        slf: Py<Self>,
        prompt: &Bound<'_, PyAny>,
        system: Option<&str>,
        raw: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Stream> {
        let model = slf.get();
        let plan = request(options)?.plan(&model.checkpoint).map_err(raise)?;
        let job = model.answer(prompt, Wording { system, raw }, &plan)?;
        Ok(Stream::new(slf, job, plan))
    }

    /// Fills the gaps of a text, in which `<gap:N>` stands for N tokens, or of token ids with masks.
    ///
    /// The text is the answer to `prompt`, if there is one. With `allow_eos` a gap may end the text.
    #[pyo3(signature = (text, *, prompt = None, allow_eos = false, **options))]
    fn fill(
        &self,
        text: &Bound<'_, PyAny>,
        prompt: Option<&Bound<'_, PyAny>>,
        allow_eos: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Result> {
        let request = request(options)?;
        if request.get("gen_length").is_some() || request.get("max_tokens").is_some() {
            return Err(PyValueError::new_err("the gaps have their lengths: leave out gen_length and max_tokens"));
        }
        let plan = request.plan(&self.checkpoint).map_err(raise)?;
        let prompt = match prompt {
            Some(prompt) => Wording { system: None, raw: false }.encode(prompt, &self.checkpoint)?,
            None => Vec::new(),
        };
        let (body, gap) = match text.cast::<PyString>() {
            Ok(text) => (self.checkpoint.encode_with_gaps(&text.to_cow()?).map_err(raise)?, GAP.to_string()),
            Err(_) => (tokens(text)?, format!("the mask token, {}", self.description.mask)),
        };
        let canvas = Canvas::new([&prompt[..], &body].concat(), self.description.mask)
            .map_err(|error| PyValueError::new_err(format!("{error}: write each gap as {gap}")))?;
        let run = plan.fill(canvas, allow_eos, &self.description).map_err(raise)?;
        Ok(self.decode_jobs(text.py(), vec![Job::new(run, prompt.len(), Kind::Fill)], &plan)?.remove(0))
    }

    /// What the model makes of a canvas: its logits, and the dependency scores of every layer.
    fn probe(&self, py: Python<'_>, #[pyo3(from_py_with = tokens)] tokens: Vec<Token>) -> PyResult<Seen> {
        let attention: Vec<AttentionSource> =
            (0..self.description.layers).map(|layer| AttentionSource { layer, heads: Vec::new() }).collect();
        let seen = self.ask(py, |predictor| -> lacuna::Result<_> {
            let view = View { tokens: &tokens, attention: &attention, ..View::default() };
            let seen = predictor.observe(&[view])?.remove(0);
            Ok((predictor.logits(0)?, seen.dependency))
        });
        let (logits, dependency) = seen.map_err(raise)?;
        let shape = vec![logits.len(), self.description.vocabulary];
        let dependency =
            dependency.iter().map(|scores| floats(py, scores, vec![scores.len()])).collect::<PyResult<_>>()?;
        Ok(Seen { logits: floats(py, &logits.concat(), shape)?, dependency })
    }

    /// The tokens of a text; no template and no special token is added.
    fn encode(&self, text: &str) -> PyResult<Vec<Token>> {
        self.checkpoint.text().and_then(|codec| codec.encode(text)).map_err(raise)
    }

    /// The tokens of a prompt or a chat, as `generate` gives them to the model.
    #[pyo3(signature = (prompt, *, system = None, raw = false))]
    fn encode_prompt(&self, prompt: &Bound<'_, PyAny>, system: Option<&str>, raw: bool) -> PyResult<Vec<Token>> {
        Wording { system, raw }.encode(prompt, &self.checkpoint)
    }

    /// The text of tokens, with or without the special ones.
    #[pyo3(signature = (tokens, *, special = false))]
    fn decode(&self, #[pyo3(from_py_with = tokens)] tokens: Vec<Token>, special: bool) -> PyResult<String> {
        let vocabulary = self.description.vocabulary;
        if let Some(position) = tokens.iter().position(|&token| token as usize >= vocabulary) {
            return Err(raise(lacuna::Error::TokenOutOfRange { token: tokens[position], position, vocabulary }));
        }
        let specials = if special { Specials::Keep } else { Specials::Skip };
        self.checkpoint.text().and_then(|codec| codec.decode(&tokens, specials)).map_err(raise)
    }

    /// What there is to know of it, as `lacuna inspect --format json` prints it.
    #[getter]
    fn description<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let facts = self.ask(py, |predictor| Facts::of(&self.checkpoint, predictor)).map_err(raise)?;
        let json = serde_json::to_string(&facts).map_err(|error| Error::new_err(error.to_string()))?;
        py.import("json")?.call_method1("loads", (json,))
    }

    /// The id of the mask token.
    #[getter]
    fn mask_token(&self) -> Token {
        self.description.mask
    }

    /// The tokens that end a text or a turn of a chat.
    #[getter]
    fn end_tokens(&self) -> &[Token] {
        &self.ends
    }

    /// How many token ids there are.
    #[getter]
    fn vocabulary(&self) -> usize {
        self.description.vocabulary
    }

    /// How many layers there are.
    #[getter]
    fn layers(&self) -> usize {
        self.description.layers
    }

    /// How many positions a canvas may have.
    #[getter]
    fn context(&self) -> usize {
        self.description.context
    }

    /// True if position i is predicted from the output at i - 1, as Dream does.
    #[getter]
    fn shifted(&self) -> bool {
        self.description.shifted
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let (device, precision) = self.ask(py, |predictor| (predictor.device(), predictor.precision().name()));
        format!("Model({:?}, device={device:?}, precision={precision:?})", self.checkpoint.name())
    }
}

fn parse_precision(name: &str) -> PyResult<Precision> {
    let known = [Precision::F32, Precision::Bf16, Precision::Int8, Precision::Fp8];
    let unknown = || {
        let names = known.map(Precision::name).join(", ");
        PyValueError::new_err(format!("there is no precision '{name}'; there are {names}"))
    };
    known.into_iter().find(|precision| precision.name() == name).ok_or_else(unknown)
}
