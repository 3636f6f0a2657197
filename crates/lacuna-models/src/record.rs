//! The record of a run: what `--format json` prints, the server sends and `lacuna replay` reads.

use std::ops::Range;

use lacuna::{Canvas, Commit, Delta, Error, Pass, Resize, Token, Trace, Tried};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Checkpoint, Plan, Specials};

/// Kind of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A prompt's answer: it ends at the first end-of-text token.
    #[default]
    Answer,
    /// A text with gaps: it ends where it ends.
    Fill,
}

impl Kind {
    /// The part of `tokens` that is visible.
    pub fn visible<'a>(self, tokens: &'a [Token], ends: &[Token]) -> &'a [Token] {
        let end = tokens.iter().position(|token| self == Kind::Answer && ends.contains(token));
        &tokens[..end.unwrap_or(tokens.len())]
    }

    /// Number of tokens of the visible text in a range that a run has written.
    pub fn written(self, canvas: &Canvas, range: Range<usize>, ends: &[Token]) -> usize {
        let visible = range.start..range.start + self.visible(&canvas.tokens()[range], ends).len();
        visible.filter(|&position| canvas.is_gap(position) && !canvas.is_masked(position)).count()
    }
}

/// A finished run and the part of it that is shown.
#[derive(Clone, Copy, Debug)]
pub struct RunSummary<'a> {
    /// Everything that happened.
    pub trace: &'a Trace,
    /// The canvas that it led to.
    pub canvas: &'a Canvas,
    /// Decoding plan.
    pub plan: &'a Plan,
    /// First position shown; the prompt is before it.
    pub from: usize,
    /// End of the positions shown.
    pub to: usize,
    /// Kind of the run.
    pub kind: Kind,
    /// Forward passes of the model.
    pub nfe: usize,
    /// Rows of the model's output that were read.
    pub rows_read: usize,
    /// Positions that forward passes computed.
    pub rows_computed: usize,
    /// Decoding time in seconds.
    pub seconds: f64,
}

impl RunSummary<'_> {
    /// Mean log-probability of the tokens that were written, up to the one that ends the text, each in the step that decided it.
    pub fn mean_logprob(&self, ends: &[Token]) -> Option<f64> {
        let visible = self.kind.visible(&self.canvas.tokens()[self.from..self.to], ends).len();
        let end = self.to.min(self.from + visible + 1);
        let probabilities = self.trace.probabilities();
        let written: Vec<f64> =
            probabilities[self.from..end].iter().flatten().copied().filter(|p| !p.is_nan()).collect();
        let logprob = |probability: &f64| probability.max(f64::MIN_POSITIVE).ln();
        (!written.is_empty()).then(|| written.iter().map(logprob).sum::<f64>() / written.len() as f64)
    }
}

/// One run, as one line of JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The user's identifier of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Value>,
    /// The visible text; null if the model has no tokenizer.
    pub text: Option<String>,
    /// The generated ids, or for a filled text all ids. A run that stopped early ends with its end-of-text token.
    pub tokens: Vec<Token>,
    /// Forward passes of the model.
    pub nfe: usize,
    /// Rows of the model's output that were read.
    pub rows_read: usize,
    /// Positions that forward passes computed; 0 if that was not recorded.
    #[serde(default)]
    pub rows_computed: usize,
    /// Changes of each step.
    pub steps: Vec<StepRecord>,
    /// Kind: an answer, which ends at its end-of-text token, or a text that was filled.
    #[serde(default)]
    pub kind: Kind,
    /// Strategy.
    pub strategy: String,
    /// The layers whose attention set the order, if any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<usize>,
    /// Number of prompt tokens.
    pub prompt_tokens: usize,
    /// Decoding time in seconds.
    pub seconds: f64,
    /// Tokens of the visible text for each of these seconds.
    pub tokens_per_second: f64,
    /// Mean log-probability of the tokens that were written, up to the one that ends the text, each in the step that decided it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_logprob: Option<f64>,
    /// The canvas before the first step.
    pub canvas: Vec<Token>,
    /// The id that stands for "undecided" in it.
    pub mask_token: Token,
    /// Position and text of each of its tokens behind the prompt: what was there before the first step. Empty if the model has no tokenizer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub given: Vec<(usize, String)>,
    /// The drafts in it, each from a position to before another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drafts: Vec<(usize, usize)>,
    /// The tokens of drafts that are others at the end: position, old token, new token. None if there is no draft.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<Vec<(usize, Token, Token)>>,
}

/// Changes of one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// The block that was decoded.
    pub block: usize,
    /// Purpose of its forward pass, if it is not to decide positions.
    #[serde(default, skip_serializing_if = "Pass::denoises")]
    pub kind: Pass,
    /// Positions and their tokens, ascending.
    pub unmasked: Vec<(usize, Token)>,
    /// Decided positions whose token was replaced, and the new tokens, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edited: Vec<(usize, Token)>,
    /// Positions that were masked again after that, ascending.
    pub remasked: Vec<usize>,
    /// Figures of the tokens, committed and edited, if kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Vec<Detail>>,
    /// The dependency score of each position that was masked before the step, if that was watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependency: Option<Vec<(usize, f32)>>,
    /// Change of the canvas's length after the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resized: Option<Resize>,
    /// Lengths that were tried for a gap of unknown length, with their scores; the step took the best.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<Tried>,
}

/// A token that was decided, and what the model thought of it. Numbers that are not finite are left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Detail {
    /// Position.
    pub position: usize,
    /// Token.
    pub token: Token,
    /// Its text; empty if the model has no tokenizer.
    pub text: String,
    /// Probability of the token.
    pub probability: Option<f64>,
    /// The entropy of the model's belief in nats.
    pub entropy: Option<f64>,
    /// The score by which the order ranked it.
    pub score: Option<f64>,
    /// The most probable tokens there, the most probable first, if they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub top_logprobs: Vec<TopLogprob>,
}

/// One of the most probable tokens at a position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopLogprob {
    /// Its id.
    pub token: Token,
    /// Its text; empty if the model has no tokenizer.
    pub text: String,
    /// The logarithm of its probability.
    pub logprob: f64,
}

impl Detail {
    /// Figures of a decided token with this `text`.
    pub fn of(commit: &Commit, text: String) -> Self {
        let top = |&(token, logprob): &(Token, f64)| TopLogprob { token, text: String::new(), logprob };
        let finite = |number: f64| Some(number).filter(|number| number.is_finite());
        Self {
            position: commit.position,
            token: commit.token,
            text,
            probability: finite(commit.probability),
            entropy: finite(commit.entropy),
            score: finite(commit.score),
            top_logprobs: commit.alternatives.iter().map(top).collect(),
        }
    }
}

impl Record {
    /// Names of its fields, but for `id`.
    pub const FIELDS: [&str; 18] = [
        "text",
        "tokens",
        "nfe",
        "rows_read",
        "rows_computed",
        "steps",
        "kind",
        "strategy",
        "layers",
        "prompt_tokens",
        "seconds",
        "tokens_per_second",
        "mean_logprob",
        "canvas",
        "mask_token",
        "given",
        "drafts",
        "changed",
    ];

    /// The record of a run of a checkpoint.
    pub fn of(summary: &RunSummary<'_>, checkpoint: &Checkpoint) -> crate::Result<Self> {
        let ends = checkpoint.ends();
        let visible = summary.kind.visible(&summary.canvas.tokens()[summary.from..summary.to], &ends);
        let Ok(codec) = checkpoint.text() else { return Ok(Self::without_text(summary, &ends)) };
        let text = codec.decode(visible, Specials::Skip)?;
        let mut record = Self { text: Some(text), ..Self::without_text(summary, &ends) };
        for (position, &token) in record.canvas.iter().enumerate().skip(summary.from) {
            if token != record.mask_token {
                record.given.push((position, codec.decode(&[token], Specials::Keep)?));
            }
        }
        for detail in record.steps.iter_mut().flat_map(|step| step.details.iter_mut().flatten()) {
            detail.text = codec.decode(&[detail.token], Specials::Keep)?;
            for top in &mut detail.top_logprobs {
                top.text = codec.decode(&[top.token], Specials::Keep)?;
            }
        }
        Ok(record)
    }

    /// The record of a run of any model; `ends` are its end-of-text tokens.
    pub fn without_text(summary: &RunSummary<'_>, ends: &[Token]) -> Self {
        let RunSummary { trace, canvas, plan, from, to, kind, nfe, rows_read, rows_computed, seconds } = *summary;
        let shown = &canvas.tokens()[from..to];
        let visible = kind.visible(shown, ends);
        let tokens = match shown.contains(&canvas.mask()) {
            true => &shown[..shown.len().min(visible.len() + 1)],
            false => shown,
        };
        let step = |delta: &Delta| StepRecord {
            block: delta.block,
            kind: delta.kind,
            unmasked: delta.committed.iter().map(|commit| (commit.position, commit.token)).collect(),
            edited: delta.edited.iter().map(|commit| (commit.position, commit.token)).collect(),
            remasked: delta.reopened.clone(),
            details: Some(
                delta.committed.iter().chain(&delta.edited).map(|commit| Detail::of(commit, String::new())).collect(),
            ),
            dependency: None,
            resized: delta.resized.clone(),
            tried: delta.tried.clone(),
        };
        let drafts = drafts(&trace.start);
        Self {
            id: None,
            text: None,
            tokens: tokens.to_vec(),
            nfe,
            rows_read,
            rows_computed,
            steps: trace.deltas.iter().map(step).collect(),
            kind,
            strategy: plan.strategy.name.clone(),
            layers: plan.layers(),
            prompt_tokens: from,
            seconds,
            tokens_per_second: kind.written(canvas, from..to, ends) as f64 / seconds.max(f64::MIN_POSITIVE),
            mean_logprob: summary.mean_logprob(ends),
            canvas: trace.start.tokens().to_vec(),
            mask_token: trace.start.mask(),
            given: Vec::new(),
            changed: (!drafts.is_empty()).then(|| trace.changed()),
            drafts,
        }
    }

    /// The trace that this records. Probabilities that were not kept are NaN in it.
    pub fn trace(&self) -> lacuna::Result<Trace> {
        let unfit = |why: String| Err(Error::Incompatible(why.into()));
        let drafts: Vec<Range<usize>> = self.drafts.iter().map(|&(start, end)| start..end).collect();
        let start = Canvas::with_drafts(self.canvas.clone(), self.mask_token, &drafts)?;
        if self.prompt_tokens >= start.len() {
            return unfit("its prompt is longer than its canvas".into());
        }
        let mut canvas = start.clone();
        let mut deltas = Vec::new();
        for (number, step) in self.steps.iter().enumerate() {
            let detail = |position| step.details.iter().flatten().find(|detail| detail.position == position);
            let commit = |&(position, token): &(usize, Token)| {
                let known = |number: fn(&Detail) -> Option<f64>| detail(position).and_then(number).unwrap_or(f64::NAN);
                let alternatives = detail(position).into_iter().flat_map(|detail| &detail.top_logprobs);
                Commit {
                    position,
                    token,
                    probability: known(|detail| detail.probability),
                    entropy: known(|detail| detail.entropy),
                    score: known(|detail| detail.score),
                    alternatives: alternatives.map(|top| (top.token, top.logprob)).collect(),
                }
            };
            let writable = |&position: &usize| position < canvas.len() && canvas.is_gap(position);
            let mut written = step.unmasked.iter().chain(&step.edited);
            let legal = written.all(|(position, token)| writable(position) && *token != self.mask_token)
                && step.remasked.iter().all(writable);
            if !legal {
                return unfit(format!("step {number} changes a position that is not a gap of its canvas"));
            }
            let fits = |Resize { at, tokens, length }: &Resize| {
                (self.prompt_tokens..=canvas.len()).contains(at)
                    && (self.prompt_tokens + 1..=canvas.len() + tokens.len()).contains(length)
            };
            if !step.resized.as_ref().is_none_or(fits) {
                return unfit(format!("step {number} changes the length of its canvas to one that it cannot have"));
            }
            let delta = Delta {
                block: step.block,
                kind: step.kind,
                committed: step.unmasked.iter().map(commit).collect(),
                edited: step.edited.iter().map(commit).collect(),
                reopened: step.remasked.clone(),
                resized: step.resized.clone(),
                tried: step.tried.clone(),
            };
            delta.apply(&mut canvas);
            deltas.push(delta);
        }
        Ok(Trace { start, deltas })
    }
}

/// The drafts of a canvas.
fn drafts(canvas: &Canvas) -> Vec<(usize, usize)> {
    let mut drafts: Vec<(usize, usize)> = Vec::new();
    for position in canvas.drafts_in(0..canvas.len()) {
        match drafts.last_mut() {
            Some((_, end)) if *end == position => *end += 1,
            _ => drafts.push((position, position + 1)),
        }
    }
    drafts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_those_of_a_record() {
        let text = r#"{"text":"","tokens":[7],"nfe":1,"rows_read":1,"rows_computed":1,"steps":[],"kind":"answer","strategy":"dos","layers":[0],
            "prompt_tokens":1,"seconds":1.0,"tokens_per_second":1.0,"mean_logprob":-0.5,"canvas":[6,5],"mask_token":5,
            "given":[[1,"a"]],"drafts":[[0,1]],"changed":[]}"#;
        let record: Record = serde_json::from_str(text).unwrap();
        let Value::Object(fields) = serde_json::to_value(record).unwrap() else { panic!("a record is an object") };
        assert_eq!(fields.keys().collect::<Vec<_>>(), Record::FIELDS);
    }
}
