//! Words: arithmetic word problems for the embedded model, from the generator in `training/`.

use super::data::Fields;
use super::gsm8k::by_value;
use super::protocol::every;
use super::{Check, Problem, Prompt, Protocol, Shots, Task};
use crate::grade::NumberRule;

pub(super) struct Words;

const PROTOCOLS: &[Protocol] = &[Protocol {
    name: "mini",
    about: "the question as one user turn; the number after '####'",
    files: &["words.jsonl"],
    selects: every,
    shots: Shots::Fixed,
    prompt: |problem, _| Prompt::user(&problem.request),
    stops: &[],
    check: |problem, text| by_value(problem, NumberRule::Strict.extract(text)),
    time_limit_s: 0,
}];

impl Task for Words {
    fn name(&self) -> &'static str {
        "words"
    }

    fn gen_length(&self) -> usize {
        128
    }

    fn protocols(&self) -> &'static [Protocol] {
        PROTOCOLS
    }

    fn read(&self, row: usize, fields: &Fields<'_>) -> Result<Problem, String> {
        Ok(Problem {
            id: fields.text(&["id"])?,
            row,
            request: fields.text(&["prompt"])?,
            gold: fields.text(&["final"])?,
            solution: fields.text(&["answer"])?,
            ..Problem::default()
        })
    }

    fn check(&self, problem: &Problem, answer: &str) -> Check {
        by_value(problem, NumberRule::Any.extract(answer))
    }

    fn embedded(&self) -> Option<&'static str> {
        Some(lacuna_mini::WORDS)
    }
}
