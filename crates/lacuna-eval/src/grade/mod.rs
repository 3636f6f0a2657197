//! Graders: whether an answer is right.

mod code;
pub mod math;
mod number;

pub use code::{code_of, completion};
pub use number::{NumberRule, exact_match, gold, normalize};

use serde::{Deserialize, Serialize};

/// Verdict of a grader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// True if it is right.
    pub correct: bool,
    /// Reason in a few words.
    pub reason: String,
}

impl Verdict {
    /// A right answer.
    pub fn right(reason: impl Into<String>) -> Self {
        Self { correct: true, reason: reason.into() }
    }

    /// A wrong answer.
    pub fn wrong(reason: impl Into<String>) -> Self {
        Self { correct: false, reason: reason.into() }
    }
}
