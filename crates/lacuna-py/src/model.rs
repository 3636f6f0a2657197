//! The engine: a checkpoint, loaded.

use std::borrow::Cow;
use std::path::{PathBuf, absolute};
use std::process::id;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::{panic, thread};

use lacuna::{
    AttentionSource, Description, Draw, Observation, Passage, Row, Sampling, Scoring, Target, Token, TokenSet, View,
};
use lacuna_models::{
    Checkpoint, Device, Isa, Job, Kind, ModelInfo, Precision, Request, ScoreRecord, ScoreRequest, Specials, Template,
    load_replicas,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::arrays::{floats, tokens};
use crate::errors::{Error, raise};
use crate::numbers::{position, several, token, whole};
use crate::options::request;
use crate::pool::{Pool, SHARED};
use crate::prompt::PromptStyle;
use crate::stream::Stream;

/// A model on a device. `lacunalm.Model` says what it takes, and decodes with it.
#[pyclass(frozen, subclass, module = "lacunalm._native")]
pub(crate) struct Model {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) ends: Vec<Token>,
    /// The model on each of its devices.
    pub(crate) replicas: Vec<Mutex<Box<dyn lacuna_models::Model>>>,
    /// Number of texts that were begun: they take turns on the replicas.
    begun: AtomicUsize,
    description: Description,
    setup: Setup,
    /// Its own threads, if a number was given.
    pool: Option<Pool>,
    on_gpu: bool,
    /// The process that used it last.
    process: AtomicU32,
}

/// The arguments that a model was made with.
#[derive(Clone)]
struct Setup {
    path: Option<PathBuf>,
    device: String,
    precision: Option<String>,
    isa: String,
    threads: Option<usize>,
    mask_token: Option<Token>,
    shifted: Option<bool>,
}

/// The process that has opened the GPU; 0 if none has.
static GPU_PROCESS: AtomicU32 = AtomicU32::new(0);

/// Texts whose canvases are made together.
const SCORE_BATCH: usize = 32;

/// Options that were checked for a model.
#[pyclass(frozen, module = "lacunalm._native")]
pub(crate) struct Plan(lacuna_models::Plan);

#[pymethods]
impl Plan {
    /// Refuses to look for the best of several samples if all of them would be alike.
    fn check_best_of(&self) -> PyResult<()> {
        self.0.check_best_of().map_err(raise)
    }
}

/// Output of a model for a canvas. numpy.asarray and torch.frombuffer take its memory as it is.
#[pyclass(frozen, get_all, module = "lacunalm")]
pub(crate) struct Seen {
    /// float32 [length, vocabulary]: the logits of every position, before any shift; of the rows asked for, if they were.
    logits: Py<PyAny>,
    /// For every layer float32 [length]: the dependency score of each position, 0 where there is no mask.
    dependency: Vec<Py<PyAny>>,
    /// float32 [length, length]: the attention that each position (row) pays to each (column), averaged over the heads of the layers
    /// asked for; None if none were.
    attention: Option<Py<PyAny>>,
}

impl Model {
    /// Begins to decode a template, behind a prompt if there is one.
    fn begin_template(
        slf: Py<Self>,
        request: &Request,
        template: Template,
        prompt: Option<&Bound<'_, PyAny>>,
        allow_eos: bool,
    ) -> PyResult<Stream> {
        let model = slf.get();
        let plan = request.plan(&model.checkpoint).map_err(raise)?;
        let prompt = match prompt {
            Some(prompt) => PromptStyle { system: None, raw: false }.encode(prompt, &model.checkpoint)?,
            None => Vec::new(),
        };
        let template = template.after(&prompt);
        let run = plan.fill(&template, allow_eos, &model.description).map_err(raise)?;
        Ok(Stream::new(slf, Job::new(run, prompt.len(), template.kind()), plan, Vec::new()))
    }

    /// A process that was forked off goes on with threads of its own. What cannot go on there is refused: a GPU's memory, and a
    /// model that another thread was using at that moment, whose state is anything.
    pub(crate) fn check_process(&self) -> PyResult<()> {
        let forked = self.process.load(Ordering::Relaxed) != id();
        if forked && self.on_gpu {
            return Err(Error::new_err(
                "a model on a GPU cannot be used in a process that was forked off: start processes with spawn, or load it there",
            ));
        }
        let busy = |replica: &Mutex<_>| matches!(replica.try_lock(), Err(TryLockError::WouldBlock));
        if forked && self.replicas.iter().any(busy) {
            return Err(Error::new_err(
                "the model was computing when this process was forked off: load it again here, or start processes with spawn",
            ));
        }
        self.process.store(id(), Ordering::Relaxed);
        Ok(())
    }

    /// A text to score behind a prompt. Texts are cut from texts, token ids are put together.
    fn passage(
        &self,
        prompt: Option<&Bound<'_, PyAny>>,
        text: &Bound<'_, PyAny>,
        style: PromptStyle<'_>,
    ) -> PyResult<Passage> {
        let words =
            |given: &Bound<'_, PyAny>| given.cast::<PyString>().map(|text| text.to_cow().map(Cow::into_owned)).ok();
        let (prompt_words, text_words) = (prompt.and_then(words).transpose()?, words(text).transpose()?);
        let PromptStyle { system, raw } = style;
        if let (Some(prompt), Some(text)) = (&prompt_words, &text_words) {
            return self.checkpoint.passage(prompt, system, raw, text).map_err(raise);
        }
        let given = prompt.map_or(Ok(Vec::new()), |prompt| style.encode(prompt, &self.checkpoint))?;
        let end = match text_words {
            Some(text) if text.is_empty() => Vec::new(),
            Some(text) => self.encode(&text)?,
            None => tokens(text)?,
        };
        Ok(Passage { prompt: given.len(), tokens: [given, end].concat() })
    }

    /// Asks a replica something, on the model's threads.
    fn ask_replica<T: Send>(
        &self,
        number: usize,
        work: impl FnOnce(&mut dyn lacuna_models::Model) -> T + Send,
    ) -> PyResult<T> {
        let mut locked = self.replicas[number].lock().unwrap_or_else(PoisonError::into_inner);
        let predictor = locked.as_mut();
        self.threads().run(|| work(predictor))
    }

    /// The threads that it computes with.
    pub(crate) fn threads(&self) -> &Pool {
        self.pool.as_ref().unwrap_or(&SHARED)
    }

    /// The folder or file that it was loaded from; none for the embedded one.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        self.setup.path.clone()
    }

    /// Asks the first replica something, with Python let go.
    pub(crate) fn ask<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut dyn lacuna_models::Model) -> T + Send,
    ) -> PyResult<T> {
        self.check_process()?;
        py.detach(|| self.ask_replica(0, work))
    }

    /// Drops what a replica remembers of a job that ends early.
    pub(crate) fn abandon(&self, py: Python<'_>, replica: usize, job: Job) -> PyResult<()> {
        self.check_process()?;
        py.detach(|| self.ask_replica(replica, |predictor| job.run.abandon(predictor)))
    }

    /// The replica for a new text.
    pub(crate) fn next_replica(&self) -> usize {
        self.begun.fetch_add(1, Ordering::Relaxed) % self.replicas.len()
    }

    /// Takes a step with each job on its replica; those of a replica share a forward pass, and replicas compute at the same time.
    /// Between steps signals are looked at: Ctrl-C ends it here. False if there was no job.
    pub(crate) fn step(&self, py: Python<'_>, jobs: Vec<(usize, &mut Job)>) -> PyResult<bool> {
        py.check_signals()?;
        self.check_process()?;
        let mut groups: Vec<Vec<&mut Job>> = self.replicas.iter().map(|_| Vec::new()).collect();
        jobs.into_iter().for_each(|(replica, job)| groups[replica].push(job));
        let mut groups = groups.into_iter().enumerate().filter(|(_, jobs)| !jobs.is_empty());
        let step = |(replica, jobs): (usize, Vec<&mut Job>)| {
            self.ask_replica(replica, |predictor| Job::step(jobs, predictor))?.map_err(raise)
        };
        let Some(first) = groups.next() else { return Ok(false) };
        py.detach(|| {
            thread::scope(|scope| {
                let threads: Vec<_> = groups.map(|group| scope.spawn(move || step(group))).collect();
                let mut outcome = step(first);
                for thread in threads {
                    outcome = outcome.and(thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic)));
                }
                outcome
            })
        })
    }
}

#[pymethods]
impl Model {
    #[new]
    #[pyo3(signature = (path = None, *, device = None, precision = None, isa = None, threads = None, mask_token = None, shifted = None))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn new(
        py: Python<'_>,
        path: Option<PathBuf>,
        device: Option<&Bound<'_, PyAny>>,
        precision: Option<String>,
        isa: Option<String>,
        threads: Option<&Bound<'_, PyAny>>,
        mask_token: Option<&Bound<'_, PyAny>>,
        shifted: Option<bool>,
    ) -> PyResult<Self> {
        // A torch.device is written like its name.
        let device =
            device.map_or_else(|| Ok("auto".to_string()), |device| Ok::<_, PyErr>(device.str()?.to_string()))?;
        let place: Device = device.parse().map_err(raise)?;
        let parsed = precision.as_deref().map(parse_precision).transpose()?;
        let isa = isa.unwrap_or_else(|| "auto".into());
        let chosen: Option<Isa> = match isa.as_str() {
            "auto" => None,
            name => Some(name.parse().map_err(raise)?),
        };
        let threads =
            threads.map(|given| whole("threads", given, 1..=65536)).transpose()?.map(|threads| threads as usize);
        let mask_token = mask_token.map(|given| token("mask_token", given)).transpose()?;
        let gpu_process = GPU_PROCESS.load(Ordering::Relaxed);
        if place != Device::Cpu && gpu_process != 0 && gpu_process != id() {
            return Err(Error::new_err(
                "this process was forked off one that uses the GPU, which it cannot: start processes with spawn, or set device=\"cpu\"",
            ));
        }
        let pool = threads.map(|threads| Pool::new(Some(threads)));
        // A worker of another process may stand in another folder.
        let path = path.map(|path| if path.exists() { absolute(&path).unwrap_or(path) } else { path });
        let setup = Setup { path, device, precision, isa, threads, mask_token, shifted };
        let load = || {
            Isa::choose(chosen)?;
            let mut checkpoint = setup.path.as_ref().map_or_else(Checkpoint::embedded, Checkpoint::open)?;
            if let Some(id) = mask_token {
                checkpoint = checkpoint.with_mask_token(id)?;
            }
            if let Some(shifted) = shifted {
                checkpoint = checkpoint.with_shift(shifted);
            }
            let replicas = load_replicas(&checkpoint, parsed, &place)?;
            Ok((checkpoint, replicas))
        };
        let loaded = py.detach(|| pool.as_ref().unwrap_or(&SHARED).run(load))?;
        let (checkpoint, replicas) = loaded.map_err(|error: lacuna_models::Error| raise(error))?;
        let (ends, description) = (checkpoint.ends(), replicas[0].description().clone());
        let on_gpu = !replicas[0].device().starts_with("cpu");
        if on_gpu {
            GPU_PROCESS.store(id(), Ordering::Relaxed);
        }
        let replicas = replicas.into_iter().map(Mutex::new).collect();
        let (begun, process) = (AtomicUsize::new(0), AtomicU32::new(id()));
        Ok(Self { checkpoint, ends, replicas, begun, description, setup, pool, on_gpu, process })
    }

    /// Pickles as its arguments: unpickling loads the model again.
    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<((Option<PathBuf>,), Bound<'py, PyDict>)> {
        let Setup { path, device, precision, isa, threads, mask_token, shifted } = self.setup.clone();
        let named = PyDict::new(py);
        named.set_item("device", device)?;
        named.set_item("precision", precision)?;
        named.set_item("isa", isa)?;
        named.set_item("threads", threads)?;
        named.set_item("mask_token", mask_token)?;
        named.set_item("shifted", shifted)?;
        Ok(((path,), named))
    }

    /// A model does not change, so that a copy is the model itself.
    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }

    /// Answers a prompt step by step: an iterator over the steps as they happen.
    ///
    /// A prompt is text, a chat of messages, or token ids. Text gets the model's chat template, with `system` as its system
    /// message, unless it is to stay `raw`. The text ends before the first of the `stop` strings. `lacunalm.Options` explains the
    /// options.
    #[pyo3(signature = (prompt, *, system = None, raw = false, stop = None, **options))]
    fn stream(
        slf: Py<Self>,
        prompt: &Bound<'_, PyAny>,
        system: Option<&str>,
        raw: bool,
        stop: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Stream> {
        let plan = slf.get().plan(options)?;
        Self::begin(slf, &plan, prompt, None, system, raw, stop)
    }

    /// Checks options for this model, so that several texts can be begun with them.
    #[pyo3(signature = (**options))]
    fn plan(&self, options: Option<&Bound<'_, PyDict>>) -> PyResult<Plan> {
        request(options)?.plan(&self.checkpoint).map(Plan).map_err(raise)
    }

    /// Begins to answer a prompt with checked options, as `stream` does, with a seed of its own.
    #[pyo3(signature = (plan, prompt, *, seed = None, system = None, raw = false, stop = None))]
    fn begin(
        slf: Py<Self>,
        plan: &Plan,
        prompt: &Bound<'_, PyAny>,
        seed: Option<u64>,
        system: Option<&str>,
        raw: bool,
        stop: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Stream> {
        let (model, mut plan) = (slf.get(), plan.0.clone());
        plan.options.seed = seed.unwrap_or(plan.options.seed);
        let prompt = PromptStyle::new(system, raw)?.encode(prompt, &model.checkpoint)?;
        let run = plan.answer(&prompt, &model.description).map_err(raise)?;
        let (job, stops) = (Job::new(run, prompt.len(), Kind::Answer), stops(stop)?);
        Ok(Stream::new(slf, job, plan, stops))
    }

    /// Fills the gaps of a text step by step, as `fill` does at once.
    #[pyo3(signature = (text, *, prompt = None, allow_eos = false, **options))]
    fn stream_fill(
        slf: Py<Self>,
        text: &Bound<'_, PyAny>,
        prompt: Option<&Bound<'_, PyAny>>,
        allow_eos: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Stream> {
        let (model, request) = (slf.get(), without_lengths(options)?);
        let (request, template) = match text.cast::<PyString>() {
            Ok(text) => {
                let text = text.to_cow()?;
                let request = request.for_text(&text, &model.checkpoint).map_err(raise)?;
                (request, model.checkpoint.encode_template(&text))
            }
            Err(_) => (request, Template::of_tokens(tokens(text)?, model.description.mask)),
        };
        Self::begin_template(slf, &request, template.map_err(raise)?, prompt, allow_eos)
    }

    /// Revises a finished text step by step; `revise` does it in one call.
    #[pyo3(signature = (text, *, prompt = None, **options))]
    fn stream_revise(
        slf: Py<Self>,
        text: &str,
        prompt: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Stream> {
        let (model, request) = (slf.get(), without_lengths(options)?);
        if text.is_empty() {
            return Err(PyValueError::new_err("the text is empty: give one to revise"));
        }
        let request =
            request.for_draft(&model.checkpoint).and_then(|request| request.for_text(text, &model.checkpoint));
        let template = model.checkpoint.encode_draft(text).map_err(raise)?;
        Self::begin_template(slf, &request.map_err(raise)?, template, prompt, false)
    }

    /// Takes one step with each of these streams that is not finished; they share a forward pass. False if there was none.
    fn advance(slf: &Bound<'_, Self>, mut streams: Vec<Py<Stream>>) -> PyResult<bool> {
        let (py, model) = (slf.py(), slf.get());
        if streams.iter().any(|stream| !stream.get().model.is(slf)) {
            return Err(PyValueError::new_err("a stream is advanced by the model that it belongs to"));
        }
        // In one order for all threads, so that none waits for another that waits for it.
        streams.sort_by_key(|stream| stream.as_ptr() as usize);
        streams.dedup_by_key(|stream| stream.as_ptr() as usize);
        let mut all: Vec<_> = streams.iter().map(|stream| stream.get().lock(py)).collect();
        let open: Vec<bool> = all.iter().map(|progress| !progress.finished()).collect();
        let places = streams.iter().map(|stream| stream.get().replica);
        let jobs = places.zip(&mut all).filter_map(|(replica, progress)| Some((replica, progress.open_job()?)));
        let any = model.step(py, jobs.collect())?;
        for ((stream, progress), _) in streams.iter().zip(&mut all).zip(open).filter(|(_, open)| *open) {
            stream.get().look_for_stops(progress)?;
        }
        Ok(any)
    }

    /// Number of its replicas, one for each GPU that `device` names.
    #[getter]
    fn replicas(&self) -> usize {
        self.replicas.len()
    }

    /// Recommended batch size for many texts, on each replica.
    #[getter]
    fn default_batch(&self, py: Python<'_>) -> PyResult<usize> {
        self.ask(py, |predictor| predictor.default_batch())
    }

    /// Scores texts behind prompts, as JSON, in which `request` is written, too; `lacunalm.Model.score` says what it is.
    #[pyo3(signature = (pairs, request, *, system = None, raw = false, batch = None))]
    fn score_pairs(
        &self,
        py: Python<'_>,
        pairs: Vec<(Option<Bound<'_, PyAny>>, Bound<'_, PyAny>)>,
        request: &str,
        system: Option<&str>,
        raw: bool,
        batch: Option<usize>,
    ) -> PyResult<String> {
        let request: ScoreRequest =
            serde_json::from_str(request).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let scale = request.scale().map_err(raise)?;
        let mut asked = Vec::with_capacity(pairs.len());
        for (prompt, text) in pairs {
            let passage = self.passage(prompt.as_ref(), &text, PromptStyle::new(system, raw)?)?;
            let likelihood = request.likelihood(&passage).map_err(raise)?;
            asked.push((passage, likelihood));
        }
        let batch = match batch {
            Some(batch) => batch,
            None => self.default_batch(py)?,
        };
        let mut records = Vec::with_capacity(asked.len());
        for some in asked.chunks(SCORE_BATCH) {
            let mut scoring = Scoring::new(some.to_vec(), scale, &self.description).map_err(raise)?;
            while !scoring.is_finished() {
                py.check_signals()?;
                self.ask(py, |predictor| scoring.step(batch, usize::MAX, predictor))?.map_err(raise)?;
            }
            for (score, (passage, _)) in scoring.scores().iter().zip(some) {
                records.push(ScoreRecord::of(score, passage, &self.checkpoint).map_err(raise)?);
            }
        }
        serde_json::to_string(&records).map_err(|error| Error::new_err(error.to_string()))
    }

    /// Log-probabilities of tokens: for each canvas, of each (position, token) of its targets, given what the canvas shows.
    ///
    /// The canvases share a forward pass.
    fn log_probabilities(
        &self,
        py: Python<'_>,
        canvases: Vec<Bound<'_, PyAny>>,
        targets: Vec<Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)>>,
    ) -> PyResult<Vec<Vec<f64>>> {
        let target =
            |(at, named): &(Bound<'_, PyAny>, Bound<'_, PyAny>)| Ok((position(at)?, token("a token id", named)?));
        let targets = targets.iter().map(|targets| targets.iter().map(target).collect());
        let targets: Vec<Vec<(usize, Token)>> = targets.collect::<PyResult<_>>()?;
        let canvases: Vec<Vec<Token>> = canvases.iter().map(tokens).collect::<PyResult<_>>()?;
        if canvases.len() != targets.len() {
            let why = format!("there are {} canvases, but targets for {}", canvases.len(), targets.len());
            return Err(PyValueError::new_err(why));
        }
        for (canvas, targets) in canvases.iter().zip(&targets) {
            for &(position, token) in targets {
                if position >= canvas.len() || token as usize >= self.description.vocabulary {
                    let why =
                        format!("there is no token {token} or no position {position} in a canvas of {}", canvas.len());
                    return Err(PyValueError::new_err(why));
                }
            }
        }
        let (sampling, draw) = (Sampling::default(), Draw::new(0, 0, 0));
        let allowed = TokenSet::all_but(self.description.vocabulary, &[]);
        let read = self.ask(py, |predictor| -> lacuna::Result<_> {
            let views: Vec<View<'_>> = canvases.iter().map(|tokens| View { tokens, ..View::default() }).collect();
            predictor.observe(&views)?;
            let rows = targets.iter().enumerate().flat_map(|(view, targets)| {
                let row = |&(position, token): &(usize, Token)| Row {
                    scored_token: Some(token),
                    ..Row::new(view, Target::Position(position), &sampling, &allowed, draw)
                };
                targets.iter().map(row).collect::<Vec<_>>()
            });
            predictor.read(&rows.collect::<Vec<_>>())
        })?;
        let mut read = read.map_err(raise)?.into_iter().map(|belief| belief.scored.unwrap_or(0.0).ln());
        Ok(targets.iter().map(|targets| read.by_ref().take(targets.len()).collect()).collect())
    }

    /// One forward pass over a canvas: its logits, the dependency scores of every layer, and the attention of the layer or the
    /// layers that `attention` names, averaged. Of the logits only the `rows` are computed, if they are given.
    #[pyo3(signature = (tokens, *, attention = None, rows = None))]
    fn probe(
        &self,
        tokens: Bound<'_, PyAny>,
        attention: Option<&Bound<'_, PyAny>>,
        rows: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Seen> {
        Ok(self.probe_batch(tokens.py(), vec![tokens], attention, rows.map(|rows| vec![rows]))?.remove(0))
    }

    /// `probe` of several canvases, which may differ in length, in one forward pass; `rows` has a list for each of them.
    #[pyo3(signature = (canvases, *, attention = None, rows = None))]
    fn probe_batch(
        &self,
        py: Python<'_>,
        canvases: Vec<Bound<'_, PyAny>>,
        attention: Option<&Bound<'_, PyAny>>,
        rows: Option<Vec<Bound<'_, PyAny>>>,
    ) -> PyResult<Vec<Seen>> {
        let canvases: Vec<Vec<Token>> = canvases.iter().map(tokens).collect::<PyResult<_>>()?;
        let named = attention.map_or_else(|| Ok(Vec::new()), |named| several("attention", named))?;
        let rows = rows.map(|rows| rows_of(&rows, &canvases)).transpose()?;
        if canvases.is_empty() {
            return Ok(Vec::new());
        }
        let sources: Vec<AttentionSource> =
            (0..self.description.layers).map(|layer| AttentionSource { layer, heads: Vec::new() }).collect();
        let seen = self.ask(py, |predictor| -> lacuna::Result<Vec<_>> {
            let view = |tokens| View { tokens, attention: &sources, matrix: &named, ..View::default() };
            let seen = predictor.observe(&canvases.iter().map(|tokens| view(tokens)).collect::<Vec<_>>())?;
            let logits = |(number, seen): (usize, Observation)| {
                Ok((logits_of(predictor, number, rows.as_ref().map(|rows| &*rows[number]))?, seen))
            };
            seen.into_iter().enumerate().map(logits).collect()
        })?;
        let seen = seen.map_err(raise)?.into_iter().zip(&canvases);
        let seen = seen.map(|((logits, Observation { dependency, matrix, .. }), tokens)| {
            let length = tokens.len();
            let dependency = dependency.iter().map(|scores| floats(py, scores, vec![length]));
            let dependency = dependency.collect::<PyResult<_>>()?;
            let attention = (!named.is_empty()).then(|| floats(py, &matrix, vec![length, length])).transpose()?;
            let logits = floats(py, &logits.concat(), vec![logits.len(), self.description.vocabulary])?;
            Ok(Seen { logits, dependency, attention })
        });
        seen.collect()
    }

    /// The tokens of a text; no template and no special token is added.
    fn encode(&self, text: &str) -> PyResult<Vec<Token>> {
        self.checkpoint.text().and_then(|codec| codec.encode(text)).map_err(raise)
    }

    /// The tokens of a prompt or a chat, as `generate` gives them to the model.
    #[pyo3(signature = (prompt, *, system = None, raw = false))]
    fn encode_prompt(&self, prompt: &Bound<'_, PyAny>, system: Option<&str>, raw: bool) -> PyResult<Vec<Token>> {
        PromptStyle::new(system, raw)?.encode(prompt, &self.checkpoint)
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

    /// Facts about the model, as `lacuna inspect --format json` prints them.
    #[getter]
    fn description<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let info = self.ask(py, |predictor| ModelInfo::of(&self.checkpoint, predictor))?.map_err(raise)?;
        let json = serde_json::to_string(&info).map_err(|error| Error::new_err(error.to_string()))?;
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

    /// Vocabulary size.
    #[getter]
    fn vocabulary(&self) -> usize {
        self.description.vocabulary
    }

    /// Number of layers.
    #[getter]
    fn layers(&self) -> usize {
        self.description.layers
    }

    /// Maximum number of positions of a canvas.
    #[getter]
    fn context(&self) -> usize {
        self.description.context
    }

    /// True if position i is predicted from the output at i - 1, as Dream does.
    #[getter]
    fn shifted(&self) -> bool {
        self.description.shifted
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (device, precision) = self.ask(py, |predictor| (predictor.device(), predictor.precision().name()))?;
        let device = if self.replicas.len() == 1 { device } else { format!("{} times {device}", self.replicas.len()) };
        Ok(format!("Model({:?}, device={device:?}, precision={precision:?})", self.checkpoint.name()))
    }
}

/// The rows that are asked for of each canvas.
fn rows_of(given: &[Bound<'_, PyAny>], canvases: &[Vec<Token>]) -> PyResult<Vec<Vec<usize>>> {
    let (lists, count) = (given.len(), canvases.len());
    if lists != count {
        return Err(PyValueError::new_err(format!("rows has {lists} lists for {count} canvases: give one for each")));
    }
    let check = |(given, tokens): (&Bound<'_, PyAny>, &Vec<Token>)| {
        let (rows, length) = (several("rows", given)?, tokens.len());
        if rows.is_empty() {
            return Err(PyValueError::new_err("rows is empty: name a row, or leave it out for all"));
        }
        match rows.iter().find(|row| **row >= length) {
            Some(row) => Err(PyValueError::new_err(format!("row {row} is not on a canvas of {length} positions"))),
            None => Ok(rows),
        }
    };
    given.iter().zip(canvases).map(check).collect()
}

/// The logits of these rows of a view, in this order; of all if none are given.
fn logits_of(
    model: &mut dyn lacuna_models::Model,
    view: usize,
    rows: Option<&[usize]>,
) -> lacuna_models::Result<Vec<Vec<f32>>> {
    let Some(rows) = rows else { return model.logits(view) };
    let mut ascending = rows.to_vec();
    ascending.sort_unstable();
    ascending.dedup();
    let logits = model.logits_at(view, Some(&ascending))?;
    Ok(rows.iter().map(|row| logits[ascending.partition_point(|other| other < row)].clone()).collect())
}

/// The options of a text that has its lengths in it.
fn without_lengths(options: Option<&Bound<'_, PyDict>>) -> PyResult<Request> {
    let request = request(options)?;
    if request.get("gen_length").is_some() || request.get("max_tokens").is_some() {
        return Err(PyValueError::new_err("the gaps have their lengths: leave out gen_length and max_tokens"));
    }
    Ok(request)
}

/// Says what is wrong with what `Model` and `Model.generate` are to be asked, without loading the weights. If they are on another
/// machine (`elsewhere`), a path that is not on this one is not missed.
#[pyfunction]
#[pyo3(signature = (path, elsewhere, /, *, precision = None, system = None, raw = false, stop = None, **options))]
pub(crate) fn check_options(
    path: Option<PathBuf>,
    elsewhere: bool,
    precision: Option<&str>,
    system: Option<&str>,
    raw: bool,
    stop: Option<&Bound<'_, PyAny>>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    precision.map(parse_precision).transpose()?;
    stops(stop)?;
    PromptStyle::new(system, raw)?;
    let request = request(options)?;
    request.check().map_err(raise)?;
    let checkpoint = match path.map_or_else(Checkpoint::embedded, Checkpoint::open) {
        Err(error) if elsewhere && error.is_absence() => return Ok(()),
        opened => opened.map_err(raise)?,
    };
    let (plan, description) = (request.plan(&checkpoint).map_err(raise)?, checkpoint.description().map_err(raise)?);
    let some_token = Token::from(description.mask == 0);
    plan.answer(&[some_token], &description).map(drop).map_err(raise)
}

fn parse_precision(name: &str) -> PyResult<Precision> {
    let known = Precision::ALL;
    let unknown = || {
        let names = known.map(Precision::name).join(", ");
        PyValueError::new_err(format!("unknown precision '{name}': use one of {names}"))
    };
    known.into_iter().find(|precision| precision.name() == name).ok_or_else(unknown)
}

/// Texts before which an answer ends: one, or a list.
fn stops(given: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<String>> {
    let Some(given) = given else { return Ok(Vec::new()) };
    let stops = given.extract::<String>().map(|stop| vec![stop]).or_else(|_| given.extract::<Vec<String>>());
    match stops {
        Ok(stops) if stops.iter().all(|stop| !stop.is_empty()) => Ok(stops),
        _ => Err(PyValueError::new_err("stop must be a text or a list of texts, none of them empty")),
    }
}
