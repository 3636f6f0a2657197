//! A model that computes elsewhere: what it answers is handed in.

use std::collections::{HashMap, VecDeque};

use lacuna::{
    AttentionSource, Belief, Description, Error, Observation, Predictor, Previous, Result, Row, Token, View, Visibility,
};
use lacuna_models::{Job, believe};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rayon::prelude::*;

use crate::arrays::{Logits, dependency};
use crate::errors::wrap;
use crate::pool::SHARED;

/// Upper bound on the positions of a canvas.
const MAX_LENGTH: usize = 1 << 24;
/// The size of a vocabulary that is not known yet: more tokens than any model has.
const UNKNOWN: usize = 1 << 22;

/// A predictor that knows what it is given before each step.
pub(crate) struct GivenOutputs {
    description: Description,
    /// The largest token id in use.
    largest: Token,
    /// For each view of the step.
    logits: Vec<Logits>,
    attention: Option<Py<PyAny>>,
    previous: HashMap<usize, Previous>,
    /// Replacement for `previous` once the step has succeeded.
    fresh: HashMap<usize, Previous>,
    /// Answers of all steps that succeeded.
    log: Vec<Answer>,
    /// The same of the step under way.
    current: Vec<Answer>,
    /// Answers that are given again while a run is restored.
    replayed: VecDeque<Answer>,
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
            vocabulary: vocabulary.unwrap_or(UNKNOWN),
            mask,
            layers,
            // How many there are shows when attention is handed in.
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
            logits: Vec::new(),
            attention: None,
            previous: HashMap::new(),
            fresh: HashMap::new(),
            log: Vec::new(),
            current: Vec::new(),
            replayed: VecDeque::new(),
        }
    }

    /// Takes the answers for the coming step: logits for each of its views, and attention for the first.
    pub(crate) fn set(&mut self, logits: Vec<Logits>, attention: Option<Py<PyAny>>) {
        self.logits = logits;
        self.attention = attention;
    }

    /// Lets go of the answers. What they leave to be remembered counts if the step has succeeded.
    pub(crate) fn clear(&mut self, succeeded: bool) {
        self.logits.clear();
        self.attention = None;
        let (fresh, current) = (std::mem::take(&mut self.fresh), std::mem::take(&mut self.current));
        if succeeded {
            self.previous.extend(fresh);
            self.log.extend(current);
        }
    }

    /// Everything that it takes to restore a run.
    pub(crate) fn answers(&self) -> Answers {
        let kept = |(&position, previous): (&usize, &Previous)| (position, previous.logits.clone(), previous.log_total);
        (self.description.vocabulary, self.log.clone(), self.previous.iter().map(kept).collect())
    }

    /// Takes the steps of a restored run again.
    pub(crate) fn replay(&mut self, (vocabulary, log, previous): Answers, job: &mut Job) -> Result<()> {
        self.description.vocabulary = vocabulary;
        self.replayed = log.into();
        while let Some(answer) = self.replayed.front() {
            if let Answer::Changed((written, reopened)) = answer.clone() {
                self.replayed.pop_front();
                self.change(written, reopened, job)?;
                continue;
            }
            Job::step([&mut *job], self)?;
            self.clear(true);
        }
        let kept = |(position, logits, log_total)| (position, Previous { logits, log_total });
        self.previous = previous.into_iter().map(kept).collect();
        Ok(())
    }

    /// Changes a run by hand.
    pub(crate) fn change(&mut self, written: Vec<(usize, Token)>, reopened: Vec<usize>, job: &mut Job) -> Result<()> {
        job.run.change(&written, &reopened)?;
        self.log.push(Answer::Changed((written, reopened)));
        Ok(())
    }

    fn dependency(&self, sources: &[AttentionSource], tokens: &[Token]) -> PyResult<Vec<Vec<f32>>> {
        if sources.is_empty() {
            return Ok(Vec::new());
        }
        let masked: Vec<bool> = tokens.iter().map(|&token| token == self.description.mask).collect();
        Python::attach(|py| {
            let Some(attention) = &self.attention else {
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
        if vocabulary != UNKNOWN && width != vocabulary {
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

    /// The beliefs of rows, which predict from these rows of the logits.
    fn believe(&mut self, rows: &[Row<'_>], wanted: &[usize]) -> Result<Vec<Belief>> {
        let guide = rows.iter().find_map(|row| row.guide);
        let unguided = guide.map(|guide| &self.logits[guide.view]);
        let on_device = Python::attach(|py| self.logits[0].reduce(py, rows, wanted, unguided)).map_err(wrap)?;
        if let Some((width, beliefs)) = on_device {
            self.fit(width)?;
            let check = |(row, belief): (&Row<'_>, Option<Belief>)| {
                belief.ok_or(Error::NotFinite { position: row.target.position() })
            };
            return rows.iter().zip(beliefs).map(check).collect();
        }
        let take = |logits: &Logits| Python::attach(|py| logits.rows(py, wanted)).map_err(wrap);
        let (logits, unguided) = (take(&self.logits[0])?, unguided.map(take).transpose()?);
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
            let mut kept = previous.get(&row.target.position()).filter(|_| row.remember).cloned();
            believe(row, scratch, &mut kept).map(|belief| (belief, kept))
        };
        let all = || rows.par_iter().enumerate().map_init(Default::default, |scratch, at| one(scratch, (at.0, at.1)));
        let read: Vec<_> = SHARED.run(|| all().collect::<Result<_>>()).map_err(wrap)??;
        let mut beliefs = Vec::with_capacity(rows.len());
        for (row, (belief, kept)) in rows.iter().zip(read) {
            self.fresh.extend(kept.map(|kept| (row.target.position(), kept)));
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
        let seen: Vec<Vec<Vec<f32>>> = match self.replayed.pop_front() {
            Some(Answer::Seen(seen)) => seen,
            Some(answer) => return Err(out_of_step(&answer)),
            None => {
                let seen = views.iter().map(|view| self.dependency(view.attention, view.tokens));
                seen.collect::<PyResult<_>>().map_err(wrap)?
            }
        };
        self.current.push(Answer::Seen(seen.clone()));
        Ok(seen.into_iter().map(|dependency| Observation { dependency, ..Observation::default() }).collect())
    }

    fn read(&mut self, rows: &[Row<'_>]) -> Result<Vec<Belief>> {
        let predicting = |position: usize| if self.description.shifted { position.saturating_sub(1) } else { position };
        let wanted: Vec<usize> = rows.iter().map(|row| predicting(row.target.position())).collect();
        let beliefs = match self.replayed.pop_front() {
            Some(Answer::Read(believed)) if believed.len() == rows.len() => believed.iter().map(read).collect(),
            Some(answer) => return Err(out_of_step(&answer)),
            None => self.believe(rows, &wanted)?,
        };
        self.current.push(Answer::Read(beliefs.iter().map(write).collect()));
        Ok(beliefs)
    }

    fn forget(&mut self, _run: u64) {
        self.previous.clear();
        self.fresh.clear();
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
