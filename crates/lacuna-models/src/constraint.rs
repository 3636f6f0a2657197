//! Constraints on what a run writes.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use lacuna::catalogue::Params;
use lacuna::{CONSTRAINTS, Canvas, Error, Fit, Result, Token, TokenSet};
use lacuna_constrain::{Cache, Compiled, Constraint, Ending, Options};

use crate::Checkpoint;

/// Bytes of compiled constraints that are kept.
const CACHE_BYTES: usize = 256 << 20;
static COMPILED: LazyLock<Cache> = LazyLock::new(|| Cache::new(CACHE_BYTES));

/// The parameter that constrains the text, if one is given.
pub(crate) fn named(params: &Params) -> Result<Option<&'static str>> {
    let given = |name: &&str| params.get(name).is_some() && params.flag(name) != Some(false);
    let mut names = CONSTRAINTS.into_iter().filter(given);
    match (names.next(), names.next()) {
        (Some(name), Some(other)) => Err(Error::BadConstraint {
            name: other,
            why: format!("there is another constraint ({name}): give only one"),
        }),
        (name, _) => Ok(name),
    }
}

/// The constraint that is given, and the parameter that it is given by.
pub(crate) fn given(params: &Params) -> Result<Option<(&'static str, Constraint)>> {
    let Some(name) = named(params)? else { return Ok(None) };
    let text = || params.word(name).unwrap_or_default().to_string();
    let constraint = match name {
        "regex" => Constraint::Regex(text()),
        "choices" => Constraint::Choices(params.texts(name).unwrap_or_default().to_vec()),
        "json_schema" => {
            let schema = serde_json::from_str(&text());
            let unread = |error| Error::BadConstraint { name, why: format!("not JSON: {error}") };
            Constraint::JsonSchema(schema.map_err(unread)?)
        }
        "grammar" => Constraint::Grammar(text()),
        _ => Constraint::JsonObject,
    };
    Ok(Some((name, constraint)))
}

/// A constraint, given by this name, for the tokens of a checkpoint.
pub(crate) fn compile(name: &'static str, constraint: &Constraint, checkpoint: &Checkpoint) -> Result<Arc<Compiled>> {
    let compiled = COMPILED.compile(constraint, checkpoint.vocabulary()?, &Options::default());
    compiled.map_err(|refused| Error::BadConstraint { name, why: refused.to_string() })
}

/// A constraint that every gap of a canvas meets: all positions of a run of gaps together. An answer is one gap.
#[derive(Clone, Debug)]
pub struct EachGap {
    /// The constraint.
    pub compiled: Arc<Compiled>,
    /// Ending of a gap's text.
    pub ending: Ending,
}

/// The gaps of a canvas, each under the constraint.
#[derive(Debug)]
struct Gaps(Vec<(Range<usize>, lacuna_constrain::Fit)>);

impl lacuna::Constraint for EachGap {
    fn begin(&self, canvas: &Canvas) -> Result<Box<dyn Fit>> {
        let mut gaps = Vec::new();
        let mut end = 0;
        while let Some(start) = (end..canvas.len()).find(|&position| canvas.is_gap(position)) {
            end = (start..canvas.len()).find(|&position| !canvas.is_gap(position)).unwrap_or(canvas.len());
            let token = |position| (!canvas.is_masked(position)).then(|| canvas.tokens()[position]);
            let tokens: Vec<Option<Token>> = (start..end).map(token).collect();
            let fit = lacuna_constrain::Fit::new(&self.compiled, &tokens, self.ending);
            let drafted = tokens.iter().any(Option::is_some);
            let unmeetable = |why: lacuna_constrain::Impossible| match why.shortest {
                None if drafted => Error::Incompatible("the draft does not meet the constraint: correct it".into()),
                shortest => Error::Unmeetable { length: why.length, shortest },
            };
            gaps.push((start..end, fit.map_err(unmeetable)?));
        }
        Ok(Box::new(Gaps(gaps)))
    }
}

impl Gaps {
    /// The gap that a position is in, and its place there.
    fn find(&mut self, position: usize) -> Option<(&mut lacuna_constrain::Fit, usize)> {
        let (gap, fit) = self.0.iter_mut().find(|(gap, _)| gap.contains(&position))?;
        Some((fit, position - gap.start))
    }
}

impl Fit for Gaps {
    fn allowed(&mut self, position: usize) -> Option<TokenSet> {
        let (fit, place) = self.find(position)?;
        Some(fit.allowed(place).clone().into())
    }

    fn write(&mut self, position: usize, token: Token) -> bool {
        self.find(position).is_none_or(|(fit, place)| fit.commit(place, token).is_ok())
    }

    fn reopen(&mut self, position: usize) {
        if let Some((fit, place)) = self.find(position) {
            fit.reopen(place);
        }
    }
}
