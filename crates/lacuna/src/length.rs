//! Lengths: how many positions the canvas has.

use std::collections::BTreeMap;
use std::fmt::Debug;

use dyn_clone::DynClone;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Default, Kind, Parameter, Part, Range};
use crate::{Canvas, StepContext, Target, Token};

/// Decides how many positions the canvas has while it is decoded.
pub trait Length: DynClone + Debug + Send + Sync {
    /// Rows whose beliefs it uses, as far as they are computed.
    fn rows(&self, _canvas: &Canvas) -> Vec<Target> {
        Vec::new()
    }

    /// True if this step only measures: nothing is committed in it.
    fn only_measures(&self) -> bool {
        false
    }

    /// Change of the canvas, which may have `most` positions, after `chosen` are committed.
    fn resize(&mut self, _chosen: &[usize], _most: usize, _context: &StepContext<'_>) -> Option<Resize> {
        None
    }

    /// True if the length never changes.
    fn is_fixed(&self) -> bool {
        false
    }
}

dyn_clone::clone_trait_object!(Length);

/// A change of a canvas's length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resize {
    /// Position before which tokens are inserted.
    pub at: usize,
    /// The inserted tokens, which are gaps.
    pub tokens: Vec<Token>,
    /// Length of the canvas after that; what lies behind it is cut off.
    pub length: usize,
}

const END_TOKEN: Parameter = Parameter::new(
    "end_token",
    Kind::Integer { least: 0, most: 1 << 31 },
    Default::Required,
    "token whose confidence at the end of the canvas tells that there is room enough; the model's end-of-text token if it has one",
);
const END_CHECK: Parameter = Parameter::new(
    "end_check",
    Kind::Integer { least: 1, most: 65_536 },
    Default::Number(32.0),
    "positions at the end of the canvas with the end token whose confidence is averaged",
);
const CONFIDENCE: Kind = Kind::Number(Range::closed(0.0, 1.0));
const END_CONFIDENCE: Parameter = Parameter::new(
    "end_confidence",
    CONFIDENCE,
    Default::Number(0.5),
    "confidence in the end below which masks are appended before the first token is decided",
);
const EXPAND_CONFIDENCE: Parameter = Parameter::new(
    "expand_confidence",
    CONFIDENCE,
    Default::Number(0.9),
    "confidence in the end below which a step makes several masks of its least confident one",
);
const EXPAND_BELOW: Parameter = Parameter::new(
    "expand_below",
    CONFIDENCE,
    Default::Number(0.1),
    "confidence below which a mask may become several",
);
const EXPAND_BY: Parameter = Parameter::new(
    "expand_by",
    Kind::Integer { least: 2, most: 65_536 },
    Default::Number(8.0),
    "masks that are appended at a time, and that one mask becomes",
);

pub(crate) fn parts() -> Vec<Part> {
    vec![
        Part::length("fixed", "as long as at the start", |_| Ok(Box::new(Fixed))),
        Part::length(
            "daedal",
            "masks are added at the end while no end is in sight, and where the model is least confident (DAEDAL)",
            |given| {
                let [enough, expand, below] =
                    ["end_confidence", "expand_confidence", "expand_below"].map(|name| given.number(name));
                let (end, check) = (given.integer("end_token") as Token, given.integer("end_check"));
                Ok(Box::new(Daedal::new(
                    end,
                    check,
                    enough,
                    Expansion { below, by: given.integer("expand_by"), expand },
                )))
            },
        )
        .parameters(&[END_TOKEN, END_CHECK, END_CONFIDENCE, EXPAND_CONFIDENCE, EXPAND_BELOW, EXPAND_BY]),
    ]
}

/// A length that never changes.
#[derive(Clone, Debug)]
pub struct Fixed;

impl Length for Fixed {
    fn is_fixed(&self) -> bool {
        true
    }
}

/// DAEDAL's growing canvas. How sure the model is of the end tokens at the end of the canvas tells whether there is room enough.
/// Before the first token is decided, masks are appended until there is; then some end tokens, decided. While there is not, every
/// step makes several masks of the one that the model is least confident of.
#[derive(Clone, Debug)]
pub struct Daedal {
    end: Token,
    check: usize,
    enough: f64,
    expansion: Expansion,
    /// True once decoding has begun.
    measured: bool,
    /// Confidence in the end token, where it is the best, as last computed.
    ends: BTreeMap<usize, f64>,
}

/// Rule by which a mask becomes several.
#[derive(Clone, Copy, Debug)]
pub struct Expansion {
    /// Confidence that the mask stays below.
    pub below: f64,
    /// Number of masks that it becomes.
    pub by: usize,
    /// Confidence in the end that the canvas stays below.
    pub expand: f64,
}

impl Daedal {
    /// A canvas that is long enough when the mean confidence in the last `check` positions with the end token is `enough`.
    pub fn new(end: Token, check: usize, enough: f64, expansion: Expansion) -> Self {
        Self { end, check, enough, expansion, measured: false, ends: BTreeMap::new() }
    }

    /// Mean confidence in the last end tokens; those that are missing count 0.
    fn confidence(&mut self, context: &StepContext<'_>) -> f64 {
        for position in context.canvas().gaps() {
            match context.try_belief(position) {
                Some(belief) if belief.token == self.end => drop(self.ends.insert(position, belief.probability)),
                Some(_) => drop(self.ends.remove(&position)),
                None => {}
            }
        }
        self.ends.values().rev().take(self.check).sum::<f64>() / self.check as f64
    }

    /// Longer by masks while no end is in sight; then by end tokens, once.
    fn measure(&mut self, confidence: f64, canvas: &Canvas, most: usize) -> (usize, Vec<Token>) {
        let room = most.saturating_sub(canvas.len());
        self.measured = confidence >= self.enough || room == 0;
        let tokens = match self.measured {
            true => vec![self.end; (self.check / 2).min(room)],
            false => vec![canvas.mask(); self.expansion.by.min(room)],
        };
        (canvas.len(), tokens)
    }

    /// The least confident of the candidates that are not chosen, if it becomes several.
    fn expands(&self, chosen: &[usize], context: &StepContext<'_>) -> Option<usize> {
        let left = context.candidates().iter().filter(|position| !chosen.contains(position));
        let known = left.filter_map(|&position| Some((position, context.try_belief(position)?.probability)));
        let unsure = known.filter(|(_, probability)| *probability < self.expansion.below);
        unsure.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(position, _)| position)
    }
}

impl Length for Daedal {
    fn rows(&self, canvas: &Canvas) -> Vec<Target> {
        canvas.gaps().map(Target::Position).collect()
    }

    fn only_measures(&self) -> bool {
        !self.measured
    }

    fn resize(&mut self, chosen: &[usize], most: usize, context: &StepContext<'_>) -> Option<Resize> {
        let canvas = context.canvas();
        let confidence = self.confidence(context);
        let (at, tokens) = if !self.measured {
            self.measure(confidence, canvas, most)
        } else if confidence < self.expansion.expand && canvas.len() < most {
            (self.expands(chosen, context)? + 1, vec![canvas.mask(); self.expansion.by - 1])
        } else {
            return None;
        };
        if tokens.is_empty() {
            return None;
        }
        // Positions move, and everything is computed in the next pass.
        self.ends.clear();
        Some(Resize { at, length: most.min(canvas.len() + tokens.len()), tokens })
    }
}
