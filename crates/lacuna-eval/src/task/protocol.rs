//! Protocols: the same benchmark is asked in many ways, which move scores more than strategies do. Each has a name that
//! stands in every result.

use super::Problem;
use crate::grade::Verdict;

/// Evaluation protocol: prompt, worked examples, stop texts and grading of a task.
pub struct Protocol {
    /// Its name.
    pub name: &'static str,
    /// The protocol it follows and its deviations from it.
    pub about: &'static str,
    /// The data files that it uses, in the order they are looked for.
    pub files: &'static [&'static str],
    /// Filter for the problems of the file.
    pub selects: fn(&Problem) -> bool,
    /// Worked examples that come before the question, other than those that are part of the prompt.
    pub shots: Shots,
    /// Builds the prompt.
    pub prompt: fn(&Problem, &[&Problem]) -> Prompt,
    /// Texts at which an answer is cut.
    pub stops: &'static [&'static str],
    /// Extraction and comparison, or the program to run.
    pub check: fn(&Problem, &str) -> Check,
    /// Seconds that a program may take.
    pub time_limit_s: u64,
}

/// Source of worked examples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shots {
    /// There are none, or they are written into the prompt.
    Fixed,
    /// Drawn from the training part for each question, as lm-eval draws them.
    Drawn {
        /// Number of examples.
        count: usize,
        /// The files of the training part.
        files: &'static [&'static str],
    },
}

/// A prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The turns of a chat, which the model's own template puts into text.
    pub turns: Vec<Turn>,
    /// Given start of the answer.
    pub prefix: String,
}

/// A turn of a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// `system`, `user` or `assistant`.
    pub role: &'static str,
    /// Text of the turn.
    pub content: String,
}

/// Grading of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// It is decided.
    Verdict(Verdict),
    /// A Python program that runs to its end if the answer is right.
    Program(String),
}

impl Prompt {
    /// A question alone.
    pub(super) fn user(content: impl Into<String>) -> Self {
        Self { turns: vec![Turn { role: "user", content: content.into() }], prefix: String::new() }
    }

    /// With a system message before it.
    pub(super) fn with_system(mut self, content: &str) -> Self {
        self.turns.insert(0, Turn { role: "system", content: content.into() });
        self
    }

    /// With the beginning of the answer.
    pub(super) fn with_prefix(self, prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), ..self }
    }
}

impl Protocol {
    /// The text up to the first stop.
    pub fn cut<'a>(&self, text: &'a str) -> &'a str {
        let end = self.stops.iter().filter_map(|stop| text.find(stop)).min();
        &text[..end.unwrap_or(text.len())]
    }
}

/// For protocols that use every problem of their file.
pub(super) fn every(_: &Problem) -> bool {
    true
}
