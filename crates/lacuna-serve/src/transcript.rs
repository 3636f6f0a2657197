//! The client's view of a run while it is decoded: a text that only grows.

use std::ops::Range;

use lacuna::{Canvas, Resize, Token};
use lacuna_models::{Specials, Text};

use crate::api::ApiError;
use crate::scheduler::Progress;

/// A decoder's sign for bytes that are no character, or not yet.
const UNFINISHED: char = '\u{fffd}';

/// Follows a run and tells its text as far as it is final.
pub(crate) struct Transcript {
    canvas: Canvas,
    /// The positions whose text is sent.
    region: Range<usize>,
    /// The position that they never go beyond, as the canvas grows.
    longest: usize,
    /// Tokens that end the text.
    ends: Vec<Token>,
    /// Strings that end the text; they are not part of it.
    stops: Vec<String>,
    /// The meaning of an open end: a text with gaps is whole when they are filled, an answer was cut off.
    open_end: Finish,
    sent: String,
    scores: Option<Scores>,
    /// Once it is decided why the text ends.
    finish: Option<Finish>,
    completion_tokens: usize,
}

/// The reason for a text's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Finish {
    /// The model ended it, a stop string came, or all gaps are filled.
    Stop,
    /// There was no room for more.
    Length,
    /// It is a call of a function.
    #[serde(rename = "tool_calls")]
    ToolCalls,
}

/// An addition to a text.
#[derive(Debug, Default)]
pub(crate) struct TextDelta {
    pub(crate) text: String,
    pub(crate) tokens: Vec<Scored>,
    pub(crate) finish: Option<Finish>,
}

/// A token of the text and how probable the model found it when it was decided.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scored {
    pub(crate) text: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) logprob: f64,
    /// The most probable tokens in that step, if they were asked for.
    pub(crate) alternatives: Vec<Alternative>,
    /// Its start in the text, in characters.
    pub(crate) offset: usize,
}

/// A token that could have been decided instead, or the same.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Alternative {
    pub(crate) text: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) logprob: f64,
}

/// The log probability of a token that has none to speak of: JSON has no infinities. OpenAI's API says the same.
const LEAST_LOGPROB: f64 = -9999.0;

/// The log probabilities of a text's tokens.
struct Scores {
    /// For each position, of its token and of the most probable ones.
    logprobs: Vec<(f64, Vec<(Token, f64)>)>,
    /// For each token of the text, how many bytes and characters the text has with it.
    lengths: Vec<(usize, usize)>,
    sent: usize,
    /// Their mean, that of the token which ends the text included, once it has ended.
    mean: Option<f64>,
}

impl Transcript {
    /// Follows a run that starts from `canvas`.
    pub(crate) fn new(
        canvas: Canvas,
        region: Range<usize>,
        longest: usize,
        ends: Vec<Token>,
        stops: Vec<String>,
        open_end: Finish,
    ) -> Self {
        let (sent, scores, finish) = (String::new(), None, None);
        Self { canvas, region, longest, ends, stops, open_end, sent, scores, finish, completion_tokens: 0 }
    }

    /// Tells probabilities too.
    pub(crate) fn scored(mut self) -> Self {
        let logprobs = vec![(0.0, Vec::new()); self.canvas.len()];
        self.scores = Some(Scores { logprobs, lengths: Vec::new(), sent: 0, mean: None });
        self
    }

    /// The canvas as it stands.
    pub(crate) fn canvas(&self) -> &Canvas {
        &self.canvas
    }

    /// The position at which its text begins.
    pub(crate) fn from(&self) -> usize {
        self.region.start
    }

    /// The position that its text never goes beyond.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// The number of tokens given: everything that is no gap.
    pub(crate) fn prompt_tokens(&self) -> usize {
        self.canvas.len() - self.canvas.gaps().count()
    }

    /// The number of generated tokens in the text, once it has ended.
    pub(crate) fn completion_tokens(&self) -> usize {
        self.completion_tokens
    }

    /// Mean log probability of the tokens up to the one that ends the text, if it is scored and has ended.
    pub(crate) fn mean_logprob(&self) -> f64 {
        self.scores.as_ref().and_then(|scores| scores.mean).unwrap_or(f64::NEG_INFINITY)
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// Takes in a step and tells what is new.
    pub(crate) fn follow(&mut self, progress: &Progress, text: &Text) -> Result<TextDelta, ApiError> {
        let whole = self.region.end == self.canvas.len().min(self.longest);
        progress.delta.apply(&mut self.canvas);
        if whole {
            self.region.end = self.canvas.len().min(self.longest);
        }
        if let Some(scores) = &mut self.scores {
            for commit in progress.delta.committed.iter().chain(&progress.delta.edited) {
                let logprob = commit.probability.ln().max(LEAST_LOGPROB);
                scores.logprobs[commit.position] = (logprob, commit.alternatives.clone());
            }
            if let Some(Resize { at, tokens, length }) = &progress.delta.resized {
                scores.logprobs.splice(at..at, tokens.iter().map(|_| (0.0, Vec::new())));
                scores.logprobs.truncate(*length);
            }
        }
        let region = &self.canvas.tokens()[self.region.clone()];
        let settled = &region[..progress.settled.saturating_sub(self.region.start).min(region.len())];
        let end = settled.iter().position(|token| self.ends.contains(token));
        let mut tokens = &settled[..end.unwrap_or(settled.len())];
        let ended = end.is_some() || progress.finished;

        let mut all = text.decode(tokens, Specials::Skip)?;
        let stop = self.stops.iter().filter_map(|stop| all.find(stop.as_str())).min();
        if let Some(at) = stop {
            all.truncate(at);
            tokens = &tokens[..count_tokens(tokens, at, text)?];
        } else if !ended {
            all.truncate(final_length(&all, &self.stops));
        }
        if progress.finished || stop.is_some() {
            let natural = end.is_some() || stop.is_some();
            self.finish = Some(if natural { Finish::Stop } else { self.open_end });
            let written = self.region.clone().zip(tokens).filter(|(position, _)| self.canvas.is_gap(*position));
            self.completion_tokens = written.count();
            if let Some(scores) = &mut self.scores {
                let counted = tokens.len() + usize::from(end == Some(tokens.len()));
                let logprobs = &scores.logprobs[self.region.start..][..counted];
                let sum: f64 = logprobs.iter().map(|(logprob, _)| logprob).sum();
                scores.mean = (counted > 0).then(|| sum / counted as f64);
            }
        }
        let Some(new) = all.strip_prefix(&self.sent) else {
            return Err(ApiError::internal("the tokenizer wrote a text anew that was sent already"));
        };
        let mut delta = TextDelta { text: new.into(), tokens: Vec::new(), finish: self.finish };
        if let Some(scores) = &mut self.scores {
            delta.tokens = scores.send(tokens, self.region.start, all.len(), self.finish.is_some(), text)?;
        }
        self.sent = all;
        Ok(delta)
    }
}

impl Scores {
    /// The tokens whose text lies within the first `sent` bytes, or all if nothing will follow, that were not sent yet.
    fn send(
        &mut self,
        tokens: &[Token],
        start: usize,
        sent: usize,
        last: bool,
        text: &Text,
    ) -> Result<Vec<Scored>, ApiError> {
        for count in self.lengths.len()..tokens.len() {
            let written = text.decode(&tokens[..=count], Specials::Skip)?;
            let written = written.trim_end_matches(UNFINISHED);
            self.lengths.push((written.len(), written.chars().count()));
        }
        let mut scored = Vec::new();
        while self.sent < tokens.len() && (last || self.lengths[self.sent].0 <= sent) {
            let (logprob, alternatives) = &self.logprobs[start + self.sent];
            let alternative = |&(token, other): &(Token, f64)| {
                // The same number to the last bit where it is the same token.
                let logprob = if token == tokens[self.sent] { *logprob } else { other };
                let (text, bytes) = (text.decode(&[token], Specials::Keep)?, text.token_bytes(token));
                Ok(Alternative { text, bytes, logprob: logprob.max(LEAST_LOGPROB) })
            };
            scored.push(Scored {
                text: text.decode(&tokens[self.sent..=self.sent], Specials::Keep)?,
                bytes: text.token_bytes(tokens[self.sent]),
                logprob: *logprob,
                alternatives: alternatives.iter().map(alternative).collect::<Result<_, ApiError>>()?,
                offset: self.sent.checked_sub(1).map_or(0, |before| self.lengths[before].1),
            });
            self.sent += 1;
        }
        Ok(scored)
    }
}

/// The part of a growing text that can be sent, in bytes: it may end within a character, or within what may become a stop string.
fn final_length(text: &str, stops: &[String]) -> usize {
    let whole = text.trim_end_matches(UNFINISHED);
    let begun = |stop: &String| {
        let partial = (1..stop.len()).rev().filter(|&length| stop.is_char_boundary(length));
        partial.into_iter().find(|&length| whole.ends_with(&stop[..length])).unwrap_or(0)
    };
    whole.len() - stops.iter().map(begun).max().unwrap_or(0)
}

/// The number of `tokens` that it takes to write the first `bytes` bytes of their text.
fn count_tokens(tokens: &[Token], bytes: usize, text: &Text) -> Result<usize, ApiError> {
    for count in 0..tokens.len() {
        if text.decode(&tokens[..count], Specials::Skip)?.len() >= bytes {
            return Ok(count);
        }
    }
    Ok(tokens.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_become_a_stop_string_or_a_character_is_held_back() {
        let stops = ["####".to_string(), "\n\nQ".to_string(), "é!".to_string()];
        for (text, sent) in [
            ("abc", "abc"),
            ("abc#", "abc"),
            ("abc###", "abc"),
            ("a#b", "a#b"),
            ("abc\n", "abc"),
            ("abc\n\n", "abc"),
            ("abc\n\n\n", "abc\n"),
            ("abcé", "abc"),
            ("abc\u{fffd}\u{fffd}", "abc"),
            ("abc#\u{fffd}", "abc"),
            ("", ""),
        ] {
            assert_eq!(&text[..final_length(text, &stops)], sent, "{text:?}");
        }
        assert_eq!(final_length("abc#", &[]), 4);
    }
}
