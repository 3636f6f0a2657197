//! A predictor whose logits and attention are computed elsewhere and given before each step.

use std::collections::{HashMap, VecDeque};

use lacuna::{Belief, Description, Error, Observation, Predictor, Previous, Result, Row, Token, View, Visibility};
use lacuna_models::{Job, fast_belief};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rayon::prelude::*;

use crate::arrays::{Logits, dependency};
use crate::errors::wrap;
use crate::pool::SHARED;

/// Upper bound on the positions of a canvas.
const MAX_LENGTH: usize = 1 << 24;
/// Upper bound on the size of a vocabulary, and its size while it is not known.
pub(crate) const MAX_VOCABULARY: usize = 1 << 22;

/// A predictor that knows what it is given before each step.
pub(crate) struct GivenOutputs {
    description: Description,
    /// The largest token id in use.
    largest: Token,
    /// For each view of the step.
    outputs: Vec<ModelOutput>,
    /// The runs of the views.
    runs: Vec<u64>,
    previous: HashMap<(u64, usize), Previous>,
    /// Replacement for `previous` once the step has succeeded.
    fresh: HashMap<(u64, usize), Previous>,
    /// Answers of the step under way.
    answers: Vec<Answer>,
    /// Answers that are given again while a run is restored.
    replayed: VecDeque<Answer>,
}

/// Output of the model for a view.
pub(crate) struct ModelOutput {
    pub(crate) logits: Logits,
    pub(crate) attention: Option<Py<PyAny>>,
}

/// Something that was answered: the dependency scores of each view, or beliefs; or a change by hand.
#[derive(Clone, FromPyObject, IntoPyObject)]
pub(crate) enum Answer {
    Changed((Vec<(usize, Token)>, Vec<usize>)),
    Seen(Vec<Vec<Vec<f32>>>),
    Read(Vec<Believed>),
}

/// The fields of a [`Belief`].
type Believed = (Token, f64, f64, f64, f64, Option<f64>, Option<f64>, Option<(Token, f64)>, Vec<(Token, f64)>);

/// All answers of a run: the vocabulary, each answer, and the distributions that the next step is compared with.
pub(crate) type Answers = (usize, Vec<Answer>, Vec<(usize, Vec<f32>, f64)>);

fn write(belief: &Belief) -> Believed {
    let Belief { token, probability, first, second, entropy, divergence, scored, vote, ref alternatives } = *belief;
    (token, probability, first, second, entropy, divergence, scored, vote, alternatives.clone())
}

fn read(believed: &Believed) -> Belief {
    let (token, probability, first, second, entropy, divergence, scored, vote, ref alternatives) = *believed;
    let alternatives = alternatives.clone();
    Belief { token, probability, first, second, entropy, divergence, scored, vote, alternatives }
}

impl GivenOutputs {
    /// A model with this mask token. Its vocabulary, if not told, is what the first logits have room for.
    pub(crate) fn new(mask: Token, vocabulary: Option<usize>, layers: usize, shifted: bool, largest: Token) -> Self {
        let description = Description {
            vocabulary: vocabulary.unwrap_or(MAX_VOCABULARY),
            mask,
            layers,
            // The number of heads is known once attention is given.
            heads: usize::MAX,
            context: MAX_LENGTH,
            shadows: false,
            shifted,
            caches: false,
            credits: true,
            matrices: false,
            rollouts: false,
            refreshes: false,
            alternatives: true,
            visibility: Visibility::Full,
        };
        Self {
            description,
            largest,
            outputs: Vec::new(),
            runs: Vec::new(),
            previous: HashMap::new(),
            fresh: HashMap::new(),
            answers: Vec::new(),
            replayed: VecDeque::new(),
        }
    }

    /// Takes what the model made of each view of the coming step.
    pub(crate) fn set(&mut self, outputs: Vec<ModelOutput>) {
        self.outputs = outputs;
    }

    /// Drops the given outputs. Logits to compare with are stored if the step has succeeded. Returns the answers of the step.
    pub(crate) fn clear(&mut self, succeeded: bool) -> Vec<Answer> {
        self.outputs.clear();
        let (fresh, answers) = (std::mem::take(&mut self.fresh), std::mem::take(&mut self.answers));
        if succeeded {
            self.previous.extend(fresh);
        }
        answers
    }

    /// Everything that it takes to restore a run with these answers.
    pub(crate) fn answers(&self, log: &[Answer]) -> Answers {
        let kept = |(&(_, position), previous): (&(u64, usize), &Previous)| {
            (position, previous.logits.clone(), previous.log_total)
        };
        (self.description.vocabulary, log.to_vec(), self.previous.iter().map(kept).collect())
    }

    /// Takes the steps of a restored run again.
    pub(crate) fn replay(&mut self, (vocabulary, log, previous): Answers, job: &mut Job) -> Result<()> {
        self.description.vocabulary = vocabulary;
        self.replayed = log.into();
        while let Some(answer) = self.replayed.front() {
            if let Answer::Changed((written, reopened)) = answer.clone() {
                self.replayed.pop_front();
                job.run.change(&written, &reopened)?;
                continue;
            }
            Job::step([&mut *job], self)?;
            self.clear(true);
        }
        let run = self.runs.first().copied().unwrap_or_default();
        let kept = |(position, logits, log_total)| ((run, position), Previous { logits, log_total });
        self.previous = previous.into_iter().map(kept).collect();
        Ok(())
    }

    fn dependency(&self, number: usize, view: &View<'_>) -> PyResult<Vec<Vec<f32>>> {
        let (sources, tokens) = (view.attention, view.tokens);
        if sources.is_empty() {
            return Ok(Vec::new());
        }
        let masked: Vec<bool> = tokens.iter().map(|&token| token == self.description.mask).collect();
        Python::attach(|py| {
            let Some(attention) = &self.outputs[number].attention else {
                let layers: Vec<String> = sources.iter().map(|source| source.layer.to_string()).collect();
                let layers = layers.join(", ");
                let why =
                    format!("this order uses attention: give that of layer {layers} too, or choose another order");
                return Err(PyValueError::new_err(why));
            };
            let single = sources.len() == 1;
            sources.iter().map(|source| dependency(attention.bind(py), source, &masked, single)).collect()
        })
    }

    /// Checks that logits are for `width` tokens, which is the vocabulary's size from then on.
    fn fit(&mut self, width: usize) -> Result<()> {
        let vocabulary = self.description.vocabulary;
        if width > MAX_VOCABULARY {
            let why = format!("logits are for {width} tokens, but {MAX_VOCABULARY} is the most");
            return Err(Error::Incompatible(why.into()));
        }
        if vocabulary != MAX_VOCABULARY && width != vocabulary {
            return Err(Error::Incompatible(
                format!("logits are for {width} tokens, but the vocabulary has {vocabulary}").into(),
            ));
        }
        if width <= self.largest as usize {
            let why = format!("logits are for {width} tokens, but token {} is among those given", self.largest);
            return Err(Error::Incompatible(why.into()));
        }
        self.description.vocabulary = width;
        Ok(())
    }

    /// The beliefs of rows of one view.
    fn beliefs(&mut self, rows: &[Row<'_>]) -> Result<Vec<Belief>> {
        let Some(view) = rows.first().map(|row| row.view) else { return Ok(Vec::new()) };
        let (logits, run) = (&self.outputs[view].logits, self.runs[view]);
        let wanted: Vec<usize> = rows.iter().map(|row| self.description.row_of(row.target.position())).collect();
        let guide = rows.iter().find_map(|row| row.guide);
        let unguided = guide.map(|guide| &self.outputs[guide.view].logits);
        let on_device = Python::attach(|py| logits.reduce(py, rows, &wanted, unguided)).map_err(wrap)?;
        if let Some((width, beliefs)) = on_device {
            self.fit(width)?;
            let check = |(row, belief): (&Row<'_>, Option<Belief>)| {
                belief.ok_or(Error::NotFinite { position: row.target.position() })
            };
            return rows.iter().zip(beliefs).map(check).collect();
        }
        let take = |logits: &Logits| Python::attach(|py| logits.rows(py, &wanted)).map_err(wrap);
        let (logits, unguided) = (take(logits)?, unguided.map(take).transpose()?);
        self.fit(logits.width())?;
        if let Some(unguided) = &unguided {
            self.fit(unguided.width())?;
        }
        let previous = &self.previous;
        let one = |[scratch, other]: &mut [Vec<f32>; 2], (number, row): (usize, &Row<'_>)| {
            logits.copy(number, scratch);
            if let (Some(guide), Some(unguided)) = (guide, &unguided) {
                unguided.copy(number, other);
                guide.mix(scratch, other);
            }
            let mut kept = previous.get(&(run, row.target.position())).filter(|_| row.remember).cloned();
            fast_belief(row, scratch, &mut kept).map(|belief| (belief, kept))
        };
        let all = || rows.par_iter().enumerate().map_init(Default::default, |scratch, at| one(scratch, (at.0, at.1)));
        let read: Vec<_> = SHARED.run(|| all().collect::<Result<_>>()).map_err(wrap)??;
        let mut beliefs = Vec::with_capacity(rows.len());
        for (row, (belief, kept)) in rows.iter().zip(read) {
            self.fresh.extend(kept.map(|kept| ((run, row.target.position()), kept)));
            beliefs.push(belief);
        }
        Ok(beliefs)
    }
}

impl Predictor for GivenOutputs {
    fn description(&self) -> &Description {
        &self.description
    }

    fn observe(&mut self, views: &[View<'_>]) -> Result<Vec<Observation>> {
        self.runs = views.iter().map(|view| view.run).collect();
        let seen: Vec<Vec<Vec<f32>>> = match self.replayed.pop_front() {
            Some(Answer::Seen(seen)) => seen,
            Some(answer) => return Err(out_of_step(&answer)),
            None => {
                let seen = views.iter().enumerate().map(|(number, view)| self.dependency(number, view));
                seen.collect::<PyResult<_>>().map_err(wrap)?
            }
        };
        self.answers.push(Answer::Seen(seen.clone()));
        Ok(seen.into_iter().map(|dependency| Observation { dependency, ..Observation::default() }).collect())
    }

    fn read(&mut self, rows: &[Row<'_>]) -> Result<Vec<Belief>> {
        let beliefs = match self.replayed.pop_front() {
            Some(Answer::Read(believed)) if believed.len() == rows.len() => believed.iter().map(read).collect(),
            Some(answer) => return Err(out_of_step(&answer)),
            None => {
                let mut beliefs = Vec::with_capacity(rows.len());
                for rows in rows.chunk_by(|one, next| one.view == next.view) {
                    beliefs.extend(self.beliefs(rows)?);
                }
                beliefs
            }
        };
        self.answers.push(Answer::Read(beliefs.iter().map(write).collect()));
        Ok(beliefs)
    }

    fn forget(&mut self, run: u64) {
        self.previous.retain(|(of, _), _| *of != run);
        self.fresh.retain(|(of, _), _| *of != run);
    }
}

fn out_of_step(answer: &Answer) -> Error {
    let what = match answer {
        Answer::Seen(_) => "attention",
        Answer::Read(_) => "beliefs",
        Answer::Changed(_) => "a change by hand",
    };
    Error::Incompatible(format!("the pickled run is damaged: it has {what} where none is needed").into())
}
