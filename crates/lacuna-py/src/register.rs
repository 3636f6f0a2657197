//! Orders and paces written in Python, registered under a name.

use std::sync::Arc;

use lacuna::catalogue::{Build, Need, Parameter, Part, PartParams, Section, parts, register};
use lacuna::{AttentionSource, Block, Error, Order, Pace, RankBy, Ranked, Reads, Result, StepContext, sources};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::arrays::{doubles, floats, integers};
use crate::errors::{raise, wrap};

/// The candidates of one step, as an order in Python sees them. A batch of runs comes in one call: every array has one entry per
/// candidate, those of the first run first.
#[pyclass(frozen, get_all, module = "lacunalm")]
pub(crate) struct Candidates {
    /// int64 [n]: the masked positions that may be filled.
    positions: Py<PyAny>,
    /// int64 [n]: which of `canvases` each belongs to.
    runs: Py<PyAny>,
    /// int64 [n]: steps that its run has taken before.
    steps: Py<PyAny>,
    /// int64 [n]: index of the block being decoded.
    blocks: Py<PyAny>,
    /// float64 [n]: random numbers in (0, 1), keyed by seed, step and position.
    uniform: Py<PyAny>,
    /// float32 [sources, n]: dependency score of each attention source.
    dependency: Py<PyAny>,
    /// int64 [n]: the token that would be committed; None if the order does not use beliefs.
    token: Option<Py<PyAny>>,
    /// float64 [n]: probability of `token`.
    probability: Option<Py<PyAny>>,
    /// float64 [n]: largest probability.
    first: Option<Py<PyAny>>,
    /// float64 [n]: second largest probability.
    second: Option<Py<PyAny>>,
    /// float64 [n]: entropy in nats.
    entropy: Option<Py<PyAny>>,
    /// The canvas of each run: token ids, with the mask token at undecided positions.
    canvases: Vec<Vec<u32>>,
    /// Id of the mask token.
    mask_token: u32,
}

/// A ranking, as a pace in Python sees it.
#[pyclass(frozen, get_all, module = "lacunalm")]
pub(crate) struct RankedPositions {
    /// int64 [n]: the candidates, best first.
    positions: Py<PyAny>,
    /// float64 [n]: their scores in the order.
    scores: Py<PyAny>,
    /// int64 [m]: the tokens that would be committed, of the first m that the pace reads.
    token: Py<PyAny>,
    /// float64 [m]: probability of `token`.
    probability: Py<PyAny>,
    /// float64 [m]: second largest probability.
    second: Py<PyAny>,
    /// float64 [m]: entropy in nats.
    entropy: Py<PyAny>,
    /// Steps taken before.
    step: usize,
    /// Index of the block being decoded.
    block: usize,
    /// Steps taken in this block before.
    block_step: usize,
    /// The canvas: token ids, with the mask token at undecided positions.
    canvas: Vec<u32>,
    /// Id of the mask token.
    mask_token: u32,
}

#[derive(Debug)]
struct PyOrder {
    score: Py<PyAny>,
    attention: Vec<AttentionSource>,
    beliefs: bool,
    known: bool,
}

impl PyOrder {
    fn call(&self, py: Python<'_>, contexts: &[StepContext<'_>]) -> PyResult<Vec<f64>> {
        let each = |value: &dyn Fn(&StepContext<'_>, usize) -> f64| -> Vec<f64> {
            contexts.iter().flat_map(|context| context.candidates().iter().map(move |&at| value(context, at))).collect()
        };
        let whole = |value: &dyn Fn(usize, &StepContext<'_>, usize) -> usize| -> Vec<i64> {
            let runs = contexts.iter().enumerate();
            runs.flat_map(|(run, context)| context.candidates().iter().map(move |&at| value(run, context, at) as i64))
                .collect()
        };
        let count: usize = contexts.iter().map(|context| context.candidates().len()).sum();
        let mut dependency = Vec::with_capacity(self.attention.len() * count);
        for source in 0..self.attention.len() {
            for context in contexts {
                dependency.extend(context.candidates().iter().map(|&at| context.dependency()[source][at]));
            }
        }
        let belief = |value: fn(&lacuna::Belief) -> f64| -> PyResult<Option<Py<PyAny>>> {
            let values = || each(&|context, at| value(context.belief(at)));
            self.beliefs.then(|| doubles(py, &values())).transpose()
        };
        let tokens = || whole(&|_, context, at| context.belief(at).token as usize);
        let candidates = Candidates {
            positions: integers(py, &whole(&|_, _, at| at))?,
            runs: integers(py, &whole(&|run, _, _| run))?,
            steps: integers(py, &whole(&|_, context, _| context.step()))?,
            blocks: integers(py, &whole(&|_, context, _| context.block().index))?,
            uniform: doubles(py, &each(&|context, at| context.draw(at).uniform(u64::MAX)))?,
            dependency: floats(py, &dependency, vec![self.attention.len(), count])?,
            token: self.beliefs.then(|| integers(py, &tokens())).transpose()?,
            probability: belief(|belief| belief.probability)?,
            first: belief(|belief| belief.first)?,
            second: belief(|belief| belief.second)?,
            entropy: belief(|belief| belief.entropy)?,
            canvases: contexts.iter().map(|context| context.canvas().tokens().to_vec()).collect(),
            mask_token: contexts.first().map_or(0, |context| context.canvas().mask()),
        };
        numbers(self.score.bind(py).call1((candidates,))?)
    }
}

impl Order for PyOrder {
    fn ranks_by(&self) -> RankBy<'_> {
        match self.known {
            true => RankBy::Known,
            false => RankBy::Rule { attention: &self.attention, beliefs: self.beliefs },
        }
    }

    /// It may: it is shown random draws.
    fn draws(&self) -> bool {
        true
    }

    fn score(&self, context: &StepContext<'_>) -> Result<Vec<f64>> {
        Ok(self.score_batch(std::slice::from_ref(context))?.remove(0))
    }

    fn score_batch(&self, contexts: &[StepContext<'_>]) -> Result<Vec<Vec<f64>>> {
        let mut scores = &Python::attach(|py| self.call(py, contexts)).map_err(wrap)?[..];
        let wanted: usize = contexts.iter().map(|context| context.candidates().len()).sum();
        if scores.len() != wanted {
            return Err(Error::BadScores { given: scores.len(), wanted });
        }
        let mut next = |context: &StepContext<'_>| {
            let (these, rest) = scores.split_at(context.candidates().len());
            scores = rest;
            these.to_vec()
        };
        Ok(contexts.iter().map(&mut next).collect())
    }
}

#[derive(Clone, Debug)]
struct PyPace {
    choose: Arc<Py<PyAny>>,
    reads: Reads,
}

impl Pace for PyPace {
    fn reads(&self, _block: &Block, _candidates: usize) -> Reads {
        self.reads
    }

    fn choose(&mut self, ranked: &Ranked<'_>) -> Result<Vec<usize>> {
        Python::attach(|py| self.call(py, ranked)).map_err(wrap)
    }
}

impl PyPace {
    fn call(&self, py: Python<'_>, ranked: &Ranked<'_>) -> PyResult<Vec<usize>> {
        let belief =
            |value: fn(&lacuna::Belief) -> f64| doubles(py, &ranked.beliefs().iter().map(value).collect::<Vec<f64>>());
        let (context, block) = (ranked.context(), ranked.block());
        let shown = RankedPositions {
            positions: integers(py, &ranked.positions().iter().map(|&at| at as i64).collect::<Vec<_>>())?,
            scores: doubles(py, ranked.scores())?,
            token: integers(py, &ranked.beliefs().iter().map(|belief| i64::from(belief.token)).collect::<Vec<_>>())?,
            probability: belief(|belief| belief.probability)?,
            second: belief(|belief| belief.second)?,
            entropy: belief(|belief| belief.entropy)?,
            step: context.step(),
            block: block.index,
            block_step: block.step,
            canvas: context.canvas().tokens().to_vec(),
            mask_token: context.canvas().mask(),
        };
        let chosen = self.choose.bind(py).call1((shown,))?;
        if let Ok(count) = chosen.extract::<usize>() {
            return Ok(ranked.first(count));
        }
        let list = if chosen.hasattr("tolist")? { chosen.call_method0("tolist")? } else { chosen };
        list.extract::<Vec<usize>>().map_err(|_| {
            PyTypeError::new_err("a pace must return how many of the first positions to commit, or a list of positions")
        })
    }
}

/// Numbers that a callback returned: a list, an array of numpy or its kin, a tensor.
fn numbers(given: Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    let list = if given.hasattr("tolist")? { given.call_method0("tolist")? } else { given };
    list.extract::<Vec<f64>>()
        .map_err(|_| PyTypeError::new_err("an order must return one number for each candidate, in one dimension"))
}

/// Registers an order under a name, which then goes wherever a built-in order goes.
///
/// `score(candidates)` is called once a step with a `lacunalm.Candidates` and returns one number per candidate; the highest is filled
/// first. Runs that are decoded in one batch come in one call. `attention` lists the layers whose dependency scores it uses, or is
/// True for those that the options `layer` and `heads` name. With `beliefs=False` nothing is read before the order is known, as for
/// `dos`; with `known=True` it is called before the forward pass and sees neither.
#[pyfunction]
#[pyo3(signature = (name, score, *, attention = None, beliefs = None, known = false, about = None))]
pub(crate) fn register_order(
    name: String,
    score: Py<PyAny>,
    attention: Option<&Bound<'_, PyAny>>,
    beliefs: Option<bool>,
    known: bool,
    about: Option<String>,
) -> PyResult<()> {
    Python::attach(|py| callable(score.bind(py), "score"))?;
    let by_option = attention.is_some_and(|given| given.extract::<bool>().unwrap_or(false));
    let layers: Vec<usize> = match attention {
        Some(given) if given.extract::<bool>().is_err() => match given.extract::<usize>() {
            Ok(layer) => vec![layer],
            Err(_) => {
                given.extract().map_err(|_| PyTypeError::new_err("attention: expected layers such as [4], or True"))?
            }
        },
        _ => Vec::new(),
    };
    let uses_attention = by_option || !layers.is_empty();
    let beliefs = beliefs.unwrap_or(!uses_attention && !known);
    if known && (uses_attention || beliefs) {
        return Err(PyValueError::new_err(
            "an order that is known before the forward pass sees no attention and no beliefs",
        ));
    }
    let score = Arc::new(score);
    let build = move |given: &PartParams<'_>| -> Result<Arc<dyn Order>> {
        let attention = match by_option {
            true => sources(given.integers("layer"), given.integers("heads")),
            false if layers.is_empty() => Vec::new(),
            false => sources(Some(layers.clone()), None),
        };
        let score = Python::attach(|py| score.clone_ref(py));
        Ok(Arc::new(PyOrder { score, attention, beliefs, known }))
    };
    let mut needs = Vec::new();
    if uses_attention {
        needs.push(Need::Attention);
    }
    if beliefs {
        needs.push(Need::Beliefs);
    }
    let about = about.unwrap_or_else(|| "an order written in Python".into());
    let mut part = Part::new(name, about, Build::Order(Box::new(build))).needs(&needs);
    if by_option {
        let dos = parts(Section::Order).into_iter().find(|part| part.parameter("layer").is_some());
        let parameters: Vec<Parameter> = dos.map(|part| part.parameters.clone()).unwrap_or_default();
        part = part.parameters(&parameters);
    }
    register(part).map_err(raise)
}

/// Registers a pace under a name, which then goes wherever a built-in pace goes.
///
/// `choose(ranked)` gets a `lacunalm.RankedPositions` and returns how many of the first positions to commit, or a list of positions.
/// `reads` is "all" if it uses the beliefs of all candidates, or the number of first positions whose beliefs it uses.
#[pyfunction]
#[pyo3(signature = (name, choose, *, reads = None, about = None))]
pub(crate) fn register_pace(
    name: String,
    choose: Py<PyAny>,
    reads: Option<&Bound<'_, PyAny>>,
    about: Option<String>,
) -> PyResult<()> {
    Python::attach(|py| callable(choose.bind(py), "choose"))?;
    let reads = match reads.map(|reads| (reads.extract::<usize>(), reads.extract::<String>())) {
        None => Reads::All,
        Some((Ok(count), _)) => Reads::First(count),
        Some((_, Ok(word))) if word == "all" => Reads::All,
        Some(_) => return Err(PyValueError::new_err("reads: expected \"all\" or a number of positions")),
    };
    let choose = Arc::new(choose);
    let build =
        move |_: &PartParams<'_>| -> Result<Box<dyn Pace>> { Ok(Box::new(PyPace { choose: choose.clone(), reads })) };
    let about = about.unwrap_or_else(|| "a pace written in Python".into());
    register(Part::new(name, about, Build::Pace(Box::new(build)))).map_err(raise)
}

fn callable(given: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
    if given.is_callable() { Ok(()) } else { Err(PyTypeError::new_err(format!("{name}: expected a function"))) }
}
