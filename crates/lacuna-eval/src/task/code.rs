//! Code: small functions for the embedded model, from the generator in `training/`.

use super::data::Fields;
use super::humaneval::with_tests;
use super::protocol::every;
use super::{Check, Problem, Prompt, Protocol, Shots, Task};
use crate::grade::code_of;

pub(super) struct Code;

const PROTOCOLS: &[Protocol] = &[Protocol {
    name: "mini",
    about: "the request as one user turn; the answer is the program",
    files: &["code.jsonl"],
    selects: every,
    shots: Shots::Fixed,
    prompt: |problem, _| Prompt::user(&problem.request),
    stops: &[],
    check: |problem, text| Check::Program(with_tests(problem, format!("{text}\n"))),
    time_limit_s: 3,
}];

impl Task for Code {
    fn name(&self) -> &'static str {
        "code"
    }

    /// Half of what `words` gets, as HumanEval gets half of what GSM8K does in the DOS paper.
    fn gen_length(&self) -> usize {
        64
    }

    fn protocols(&self) -> &'static [Protocol] {
        PROTOCOLS
    }

    fn read(&self, row: usize, fields: &Fields<'_>) -> Result<Problem, String> {
        let tests = fields.texts("tests")?;
        if tests.is_empty() {
            return Err("'tests' is missing".into());
        }
        Ok(Problem {
            id: fields.text(&["id"])?,
            row,
            request: fields.text(&["prompt"])?,
            solution: fields.text(&["answer"])?,
            tests,
            ..Problem::default()
        })
    }

    fn check(&self, problem: &Problem, answer: &str) -> Check {
        Check::Program(with_tests(problem, format!("{}\n", code_of(answer))))
    }

    fn embedded(&self) -> Option<&'static str> {
        Some(lacuna_mini::CODE)
    }
}
