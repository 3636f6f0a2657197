//! The sampler alone: a run that the caller feeds with logits.

use std::time::Instant;

use lacuna::catalogue::Params;
use lacuna::{Predictor, Token};
use lacuna_models::{Convention, Job, Kind, Plan, PlanContext, Record, Template};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{Logits, tokens};
use crate::errors::raise;
use crate::numbers::{position, token, whole};
use crate::options::request;
use crate::outputs::{Answer, Answers, GivenOutputs, MAX_VOCABULARY, ModelOutput};
use crate::record::{Result, Step};

const MAX_LAYERS: usize = 1 << 16;

/// A text on its way from masks to tokens, stepped with the answers of any model.
///
/// `tokens` are a prompt, which gets `gen_length` masks behind it, or any text with masks, which are filled. `mask_token` is the id
/// that stands for "undecided". `end_tokens` end the text, the first of them is the end-of-text token. `vocabulary` is what the
/// first logits have room for, if it is not told. `layers` is how many layers there are, of which `dos` takes the one a sixth of
/// the way up if `layer` is not told. `shifted` models predict position i from row i - 1, as Dream does; temperature then means
/// what it means to Dream. `help(lacunalm.Options)` explains the options.
///
/// >>> run = lacuna.Run(prompt, mask_token=126336, gen_length=128, strategy="confidence+eb")
/// >>> while not run.finished:
/// ...     run.step(model(run.tokens))
#[pyclass(module = "lacunalm")]
pub(crate) struct Run {
    job: Job,
    plan: Plan,
    ends: Vec<Token>,
    given: GivenOutputs,
    /// Answers of all steps that succeeded.
    log: Vec<Answer>,
    begun: Instant,
    /// The arguments that it was made with.
    setup: Py<PyDict>,
}

#[pymethods]
impl Run {
    #[new]
    #[pyo3(signature = (tokens, *, mask_token, end_tokens = None, vocabulary = None, layers = None, shifted = false, **options))]
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = tokens)] tokens: Vec<Token>,
        mask_token: &Bound<'_, PyAny>,
        end_tokens: Option<Bound<'_, PyAny>>,
        vocabulary: Option<&Bound<'_, PyAny>>,
        layers: Option<&Bound<'_, PyAny>>,
        shifted: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let mask_token = token("mask_token", mask_token)?;
        let count = |name, most: usize| move |given| whole(name, given, 1..=most as u64).map(|number| number as usize);
        let vocabulary = vocabulary.map(count("vocabulary", MAX_VOCABULARY)).transpose()?;
        let layers = layers.map(count("layers", MAX_LAYERS)).transpose()?;
        let wrong =
            |_| PyValueError::new_err("end_tokens must be a list of token ids, which are whole numbers, 0 or more");
        let end_tokens = end_tokens.as_ref().map_or_else(|| Ok(Vec::new()), self::tokens).map_err(wrong)?;
        let setup = options.map_or_else(|| Ok(PyDict::new(py)), |options| options.copy())?;
        setup.set_item("tokens", &tokens)?;
        setup.set_item("mask_token", mask_token)?;
        setup.set_item("end_tokens", &end_tokens)?;
        setup.set_item("vocabulary", vocabulary)?;
        setup.set_item("layers", layers)?;
        setup.set_item("shifted", shifted)?;
        let request = request(options)?;
        if request.word("layer").is_some() && layers.is_none() {
            return Err(PyValueError::new_err("layer='all' requires layers=N"));
        }
        let context = |layers: usize| PlanContext {
            convention: if shifted { Convention::Dream } else { Convention::Llada },
            layers,
            end: end_tokens.first().copied(),
            ends: end_tokens.clone(),
            recommended: Params::new(),
        };
        // An order may bring layers of its own.
        let plan = request.plan_for(&context(layers.unwrap_or(1))).map_err(raise)?;
        let named = plan.layers().into_iter().max().map_or(1, |layer| layer.saturating_add(1));
        let layers = layers.unwrap_or(named);
        if layers > MAX_LAYERS {
            let why = format!("the order uses layer {}, but {MAX_LAYERS} layers are the most", layers - 1);
            return Err(PyValueError::new_err(why));
        }
        let largest = tokens.iter().chain(&end_tokens).copied().fold(mask_token, Token::max);
        if vocabulary.is_some_and(|vocabulary| mask_token as usize >= vocabulary) {
            let why = format!("mask_token is {mask_token}, which is not in the vocabulary");
            return Err(PyValueError::new_err(why));
        }
        let given = GivenOutputs::new(mask_token, vocabulary, layers, shifted, largest);
        let job = start(tokens, &plan, request.integer("gen_length").or(request.integer("max_tokens")), &given)
            .map_err(raise)?;
        Ok(Self { job, plan, ends: end_tokens, given, log: Vec::new(), begun: Instant::now(), setup: setup.unbind() })
    }

    /// The canvas: the prompt and everything decided so far, the mask token where undecided.
    #[getter]
    fn tokens(&self) -> &[Token] {
        self.job.run.canvas().tokens()
    }

    /// With guidance, the canvas without its prompt, whose logits are to be given as well.
    #[getter]
    fn unguided(&self) -> Option<Vec<Token>> {
        (self.plan.options.guidance > 0.0).then(|| self.job.run.canvas().without_prompt())
    }

    /// The layers whose attention is to be given; empty if none is needed.
    #[getter]
    fn layers(&self) -> Vec<usize> {
        self.plan.layers()
    }

    /// True if there is nothing left to do.
    #[getter]
    fn finished(&self) -> bool {
        self.job.run.is_finished()
    }

    /// Forward passes so far.
    #[getter]
    fn nfe(&self) -> usize {
        self.job.run.forwards()
    }

    /// Rows of the logits that were looked at so far.
    #[getter]
    fn rows_read(&self) -> usize {
        self.job.run.rows_read()
    }

    /// Positions that forward passes have computed so far.
    #[getter]
    fn rows_computed(&self) -> usize {
        self.job.run.rows_computed()
    }

    /// Changes of each step so far.
    #[getter]
    fn steps(&self) -> Vec<Step> {
        self.job.run.trace().deltas.iter().map(Step::from).collect()
    }

    /// The result, once the run is finished.
    #[getter]
    fn result(&self) -> PyResult<Result> {
        if !self.finished() {
            return Err(PyValueError::new_err("the run is not finished: step it until run.finished is true"));
        }
        let record = Record::without_text(&self.job.summary(&self.plan), &self.ends);
        Ok(Result::new(record, &self.job.run.trace().deltas))
    }

    /// Takes one step with what the model made of `run.tokens`, and returns what it changed.
    ///
    /// `logits` is an array [length, vocabulary]: a torch tensor, an array of numpy or its kin, a buffer of floats, a list of
    /// lists; or a function that gets a list of row numbers and returns these rows. Of tensors only the rows that are needed
    /// leave their device.
    ///
    /// `attention` is needed for `dos`: the softmax of the layer named by `run.layers`, as [heads, length, length] (row: who
    /// attends), or averaged over heads, [length, length], or ready scores for each position, [length]. For several layers it
    /// is a list with one such array for each layer of the model, or a dict by layer.
    ///
    /// A leading dimension of 1 is passed over. `unguided` are the logits for `run.unguided`, which guidance needs.
    #[pyo3(signature = (logits, attention = None, *, unguided = None))]
    fn step(
        &mut self,
        py: Python<'_>,
        logits: &Bound<'_, PyAny>,
        attention: Option<Py<PyAny>>,
        unguided: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Step> {
        if self.finished() {
            return Err(PyValueError::new_err("the run is finished: there is nothing left to decide"));
        }
        if unguided.is_some() != (self.plan.options.guidance > 0.0) {
            let why = "with guidance, and only then, a step needs unguided: the logits for run.unguided";
            return Err(PyValueError::new_err(why));
        }
        let length = self.job.run.canvas().len();
        let mut outputs = vec![ModelOutput { logits: Logits::of(logits, length)?, attention }];
        if let Some(unguided) = unguided {
            outputs.push(ModelOutput { logits: Logits::of(unguided, length)?, attention: None });
        }
        self.given.set(outputs);
        let stepped = py.detach(|| Job::step(std::slice::from_mut(&mut self.job), &mut self.given));
        let answers = self.given.clear(stepped.is_ok());
        stepped.map_err(raise)?;
        self.log.extend(answers);
        self.job.took = self.begun.elapsed();
        Ok(Step::from(self.job.run.trace().deltas.last().expect("a step was taken")))
    }

    /// Writes tokens by hand, {position: token}, in place of masks or of other tokens; returns the changes. The next step sees them.
    fn commit(&mut self, tokens: &Bound<'_, PyDict>) -> PyResult<Step> {
        let written = tokens.iter().map(|(at, written)| Ok((position(&at)?, token("a token id", &written)?)));
        self.change(written.collect::<PyResult<_>>()?, Vec::new())
    }

    /// Makes decided positions masks again by hand; returns what it changed.
    fn reopen(&mut self, positions: Vec<Bound<'_, PyAny>>) -> PyResult<Step> {
        self.change(Vec::new(), positions.iter().map(position).collect::<PyResult<_>>()?)
    }

    /// Pickles as its arguments and what was answered at each step, from which it is taken again.
    #[expect(clippy::type_complexity, reason = "what pickle asks for")]
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Py<PyDict>, Answers))> {
        let restore = py.import("lacunalm._native")?.getattr("restore_run")?;
        Ok((restore, (self.setup.clone_ref(py), self.given.answers(&self.log))))
    }

    fn __repr__(&self) -> String {
        let canvas = self.job.run.canvas();
        let (gaps, masked) = (canvas.gaps().count(), canvas.masked().count());
        format!("Run(strategy={:?}, decided={} of {gaps}, nfe={})", self.plan.strategy.name, gaps - masked, self.nfe())
    }
}

impl Run {
    fn change(&mut self, written: Vec<(usize, Token)>, reopened: Vec<usize>) -> PyResult<Step> {
        self.job.run.change(&written, &reopened).map_err(raise)?;
        self.log.push(Answer::Changed((written, reopened)));
        self.job.took = self.begun.elapsed();
        Ok(Step::from(self.job.run.trace().deltas.last().expect("a change was recorded")))
    }
}

/// A run that was pickled: its steps are taken again with the answers that it had.
#[pyfunction]
pub(crate) fn restore_run(py: Python<'_>, setup: &Bound<'_, PyDict>, answers: Answers) -> PyResult<Py<Run>> {
    let run = py.get_type::<Run>().call((), Some(setup))?.cast_into::<Run>()?;
    {
        let Run { job, given, log, .. } = &mut *run.borrow_mut();
        log.clone_from(&answers.1);
        given.replay(answers, job).map_err(raise)?;
    }
    Ok(run.unbind())
}

/// A prompt gets its tail of masks; a canvas that has masks is filled as it is.
fn start(tokens: Vec<Token>, plan: &Plan, gen_length: Option<usize>, given: &GivenOutputs) -> lacuna::Result<Job> {
    let model = given.description();
    if !tokens.contains(&model.mask) {
        return Ok(Job::new(plan.answer(&tokens, model)?, tokens.len(), Kind::Answer));
    }
    if gen_length.is_some() {
        let why = "the tokens have masks already, so leave out gen_length and max_tokens";
        return Err(lacuna::Error::Incompatible(why.into()));
    }
    Ok(Job::new(plan.fill(&Template::of_tokens(tokens, model.mask)?, true, model)?, 0, Kind::Fill))
}
