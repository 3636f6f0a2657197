//! The record of a run, step by step.

use serde::{Deserialize, Serialize};

use crate::{Alternatives, Belief, Canvas, Resize, Token};

/// The first canvas and every change since.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// The canvas before the first step.
    pub start: Canvas,
    /// One change for each step.
    pub deltas: Vec<Delta>,
}

/// The changes of one step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Delta {
    /// The block that was decoded.
    pub block: usize,
    /// Purpose of the forward pass.
    #[serde(default, skip_serializing_if = "Pass::denoises")]
    pub kind: Pass,
    /// Committed tokens, ascending by position.
    pub committed: Vec<Commit>,
    /// Decided positions whose token was replaced, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edited: Vec<Commit>,
    /// Positions reopened after that, ascending.
    pub reopened: Vec<usize>,
    /// Change of the canvas's length after that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resized: Option<Resize>,
    /// Lengths that were tried for a gap of unknown length, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<Tried>,
}

/// A length that was tried for a gap.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// Masks of the gap.
    pub length: usize,
    /// Mean of ln p of their most probable tokens.
    pub score: f64,
}

/// The purpose of a forward pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pass {
    /// To decide positions.
    #[default]
    Denoise,
    /// Stores keys and values of the text before the first block, or before a block.
    Prefill,
    /// To store keys and values of a finished block.
    Store,
}

impl Pass {
    /// True if positions are decided.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
    pub fn denoises(&self) -> bool {
        *self == Self::Denoise
    }
}

/// A position that was decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Commit {
    /// Position.
    pub position: usize,
    /// Token.
    pub token: Token,
    /// Probability of the token.
    pub probability: f64,
    /// The entropy of the model's belief in nats.
    pub entropy: f64,
    /// The score by which the order ranked it.
    pub score: f64,
    /// The most probable tokens of that belief with their log-probabilities, if they were asked for ([`Options::alternatives`]).
    ///
    /// [`Options::alternatives`]: crate::Options::alternatives
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Alternatives,
}

impl Commit {
    /// The token of a belief, with score 0.
    pub fn of(position: usize, belief: &Belief) -> Self {
        let &Belief { token, probability, entropy, .. } = belief;
        Self { position, token, probability, entropy, score: 0.0, alternatives: Vec::new() }
    }
}

impl Trace {
    /// The canvases after each step, the first one before any.
    pub fn canvases(&self) -> impl Iterator<Item = Canvas> + '_ {
        let mut canvas = self.start.clone();
        let after = self.deltas.iter().map(move |delta| {
            delta.apply(&mut canvas);
            canvas.clone()
        });
        std::iter::once(self.start.clone()).chain(after)
    }

    /// For each position after so many steps, the step in which it was decided.
    pub fn decided(&self, steps: usize) -> Vec<Option<usize>> {
        let mut decided = vec![None; self.start.len()];
        for (step, delta) in self.deltas[..steps].iter().enumerate() {
            delta.committed.iter().chain(&delta.edited).for_each(|commit| decided[commit.position] = Some(step));
            delta.reopened.iter().for_each(|&position| decided[position] = None);
            if let Some(Resize { at, tokens, length }) = &delta.resized {
                decided.splice(at..at, tokens.iter().map(|token| (*token != self.start.mask()).then_some(step)));
                decided.truncate(*length);
            }
        }
        decided
    }

    /// The tokens of drafts that are others after all steps: position at the end, old token, new token, ascending.
    pub fn changed(&self) -> Vec<(usize, Token, Token)> {
        let token = |position: usize| self.start.is_draft(position).then(|| self.start.tokens()[position]);
        let mut drafted: Vec<Option<Token>> = (0..self.start.len()).map(token).collect();
        for Resize { at, tokens, length } in self.deltas.iter().filter_map(|delta| delta.resized.as_ref()) {
            drafted.splice(at..at, tokens.iter().map(|_| None));
            drafted.truncate(*length);
        }
        let end = self.replay();
        let change = |(position, token): (usize, Option<Token>)| Some((position, token?, end.tokens()[position]));
        let changes = drafted.into_iter().enumerate().filter_map(change);
        changes.filter(|(_, old, new)| old != new).collect()
    }

    /// For each position after all steps, the probability of its token in the step that decided it.
    pub fn probabilities(&self) -> Vec<Option<f64>> {
        let mut probabilities = vec![None; self.start.len()];
        for delta in &self.deltas {
            let written = delta.committed.iter().chain(&delta.edited);
            written.for_each(|commit| probabilities[commit.position] = Some(commit.probability));
            delta.reopened.iter().for_each(|&position| probabilities[position] = None);
            if let Some(Resize { at, tokens, length }) = &delta.resized {
                probabilities.splice(at..at, tokens.iter().map(|_| None));
                probabilities.truncate(*length);
            }
        }
        probabilities
    }

    /// The canvas after all steps.
    pub fn replay(&self) -> Canvas {
        let mut canvas = self.start.clone();
        self.deltas.iter().for_each(|delta| delta.apply(&mut canvas));
        canvas
    }
}

impl Delta {
    /// Makes this change.
    pub fn apply(&self, canvas: &mut Canvas) {
        self.committed.iter().chain(&self.edited).for_each(|commit| canvas.commit(commit.position, commit.token));
        self.reopened.iter().for_each(|&position| canvas.reopen(position));
        self.resized.iter().for_each(|resize| canvas.resize(resize));
    }
}
