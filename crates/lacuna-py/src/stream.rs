//! A text while it emerges.

use lacuna::Token;
use lacuna_models::{Job, Plan, Specials};
use pyo3::PyClassInitializer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::raise;
use crate::model::Model;
use crate::record::{Frame, Result, Step};

/// What is shown where nothing is decided.
const OPEN: &str = "░";

/// The steps of an answer, taken one by one as they are asked for.
#[pyclass(module = "lacuna")]
pub(crate) struct Stream {
    model: Py<Model>,
    /// There until it is dropped.
    job: Option<Job>,
    plan: Plan,
}

impl Stream {
    pub(crate) fn new(model: Py<Model>, job: Job, plan: Plan) -> Self {
        Self { model, job: Some(job), plan }
    }

    fn job(&self) -> &Job {
        self.job.as_ref().expect("it is not dropped")
    }

    /// What stands there, from behind the prompt.
    fn tokens(&self) -> &[Token] {
        let Job { run, from, .. } = self.job();
        &run.canvas().tokens()[*from..run.text_end()]
    }

    fn text(&self) -> PyResult<Option<String>> {
        let model = self.model.get();
        let (visible, mask) = (self.job().kind.visible(self.tokens(), &model.ends), self.job().run.canvas().mask());
        let Ok(codec) = model.checkpoint.text() else { return Ok(None) };
        let pieces = visible.chunk_by(|a, b| (*a == mask) == (*b == mask));
        let written = |piece: &[Token]| match piece[0] == mask {
            true => Ok(OPEN.repeat(piece.len())),
            false => codec.decode(piece, Specials::Skip),
        };
        pieces.map(written).collect::<lacuna_models::Result<_>>().map(Some).map_err(raise)
    }
}

#[pymethods]
impl Stream {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Py<Frame>>> {
        let job = self.job.as_mut().expect("it is not dropped");
        if !self.model.get().step(py, std::slice::from_mut(job))? {
            return Ok(None);
        }
        let step = Step::from(self.job().run.trace().deltas.last().expect("a step was taken"));
        let frame = Frame { tokens: self.tokens().to_vec(), text: self.text()? };
        Py::new(py, PyClassInitializer::from(step).add_subclass(frame)).map(Some)
    }

    /// What came of it, once every step is taken.
    #[getter]
    fn result(&self) -> PyResult<Result> {
        if !self.job().run.is_finished() {
            return Err(PyValueError::new_err("the text is not finished: take the remaining steps first"));
        }
        self.model.get().result(self.job(), &self.plan)
    }
}

impl Drop for Stream {
    /// Whoever stops early leaves nothing behind in the model.
    fn drop(&mut self) {
        if let Some(job) = self.job.take().filter(|job| !job.run.is_finished()) {
            Python::attach(|py| self.model.get().ask(py, |predictor| job.run.abandon(predictor)));
        }
    }
}
