//! A text while it emerges.

use std::sync::{Mutex, MutexGuard, PoisonError};

use lacuna::Token;
use lacuna_models::{Job, Plan, Specials};
use pyo3::PyClassInitializer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;

use crate::errors::raise;
use crate::model::Model;
use crate::record::{Frame, Result, Step};

/// Placeholder for an undecided token.
const OPEN: &str = "░";

/// The steps of a text, taken one by one as they are asked for. Threads that share it take turns.
#[pyclass(frozen, module = "lacunalm")]
pub(crate) struct Stream {
    pub(crate) model: Py<Model>,
    /// The replica of the model that decodes it.
    pub(crate) replica: usize,
    plan: Plan,
    stops: Vec<String>,
    progress: Mutex<Progress>,
}

/// Progress of a text.
pub(crate) struct Progress {
    /// There until it is dropped.
    job: Option<Job>,
    /// Byte at which a stop string ends the text.
    cut: Option<usize>,
}

impl Progress {
    pub(crate) fn job(&self) -> &Job {
        self.job.as_ref().expect("it is not dropped")
    }

    pub(crate) fn finished(&self) -> bool {
        self.cut.is_some() || self.job().run.is_finished()
    }

    /// The job, if it is not finished.
    pub(crate) fn open_job(&mut self) -> Option<&mut Job> {
        if self.finished() { None } else { self.job.as_mut() }
    }

    /// Tokens after the prompt.
    fn tokens(&self) -> &[Token] {
        let Job { run, from, .. } = self.job();
        &run.canvas().tokens()[*from..run.text_end()]
    }

    /// Tokens after the prompt up to the first mask.
    fn decided(&self) -> &[Token] {
        let (tokens, mask) = (self.tokens(), self.job().run.canvas().mask());
        &tokens[..tokens.iter().position(|token| *token == mask).unwrap_or(tokens.len())]
    }
}

impl Stream {
    pub(crate) fn new(model: Py<Model>, job: Job, plan: Plan, stops: Vec<String>) -> Self {
        let replica = model.get().next_replica();
        Self { model, replica, plan, stops, progress: Mutex::new(Progress { job: Some(job), cut: None }) }
    }

    pub(crate) fn lock<'a>(&'a self, py: Python<'_>) -> MutexGuard<'a, Progress> {
        self.progress.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the text if a stop string stands in it, with nothing open before.
    pub(crate) fn look_for_stops(&self, progress: &mut Progress) -> PyResult<()> {
        if self.stops.is_empty() {
            return Ok(());
        }
        let model = self.model.get();
        let visible = progress.job().kind.visible(progress.decided(), &model.ends);
        let text = model.checkpoint.text().and_then(|codec| codec.decode(visible, Specials::Skip)).map_err(raise)?;
        progress.cut = self.stops.iter().filter_map(|stop| text.find(stop.as_str())).min();
        Ok(())
    }

    /// Takes a step, if there is one left.
    fn advance(&self, py: Python<'_>, progress: &mut Progress) -> PyResult<bool> {
        let Some(job) = progress.open_job() else { return Ok(false) };
        self.model.get().step(py, vec![(self.replica, job)])?;
        self.look_for_stops(progress)?;
        Ok(true)
    }

    fn text(&self, progress: &Progress) -> PyResult<Option<String>> {
        let model = self.model.get();
        let Ok(codec) = model.checkpoint.text() else { return Ok(None) };
        let mask = progress.job().run.canvas().mask();
        let visible = progress.job().kind.visible(progress.tokens(), &model.ends);
        let pieces = visible.chunk_by(|a, b| (*a == mask) == (*b == mask));
        let written = |piece: &[Token]| match piece[0] == mask {
            true => Ok(OPEN.repeat(piece.len())),
            false => codec.decode(piece, Specials::Skip),
        };
        let text: String = pieces.map(written).collect::<lacuna_models::Result<_>>().map_err(raise)?;
        Ok(Some(text[..progress.cut.map_or(text.len(), |cut| text.floor_char_boundary(cut))].to_string()))
    }

    fn result_of(&self, progress: &Progress) -> PyResult<Result> {
        let job = progress.job();
        let mut record = job.record(&self.plan, &self.model.get().checkpoint).map_err(raise)?;
        if let Some(cut) = progress.cut {
            record.tokens = progress.decided().to_vec();
            if let Some(text) = &mut record.text {
                text.truncate(text.floor_char_boundary(cut));
            }
        }
        Ok(Result::new(record, &job.run.trace().deltas))
    }
}

#[pymethods]
impl Stream {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<Frame>>> {
        let mut progress = self.lock(py);
        if !self.advance(py, &mut progress)? {
            return Ok(None);
        }
        let step = Step::from(progress.job().run.trace().deltas.last().expect("a step was taken"));
        let frame = Frame { tokens: progress.tokens().to_vec(), text: self.text(&progress)? };
        Py::new(py, PyClassInitializer::from(step).add_subclass(frame)).map(Some)
    }

    /// Takes the remaining steps and returns what came of it.
    fn finish(&self, py: Python<'_>) -> PyResult<Result> {
        let mut progress = self.lock(py);
        while self.advance(py, &mut progress)? {}
        self.result_of(&progress)
    }

    /// True if every step is taken.
    #[getter]
    fn finished(&self, py: Python<'_>) -> bool {
        self.lock(py).finished()
    }

    /// Changes of each step so far.
    #[getter]
    fn steps(&self, py: Python<'_>) -> Vec<Step> {
        self.lock(py).job().run.trace().deltas.iter().map(Step::from).collect()
    }

    /// The result, once every step is taken.
    #[getter]
    fn result(&self, py: Python<'_>) -> PyResult<Result> {
        let progress = self.lock(py);
        if !progress.finished() {
            return Err(PyValueError::new_err("the text is not finished: take the remaining steps first"));
        }
        self.result_of(&progress)
    }
}

impl Drop for Stream {
    /// Whoever stops early leaves nothing behind in the model.
    fn drop(&mut self) {
        let progress = self.progress.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(job) = progress.job.take().filter(|job| !job.run.is_finished()) {
            // A process that was forked off cannot reach some models; there it leaves nothing behind either.
            let _ = Python::attach(|py| self.model.get().abandon(py, self.replica, job));
        }
    }
}
