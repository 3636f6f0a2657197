//! HumanEval: functions to complete, checked by unit tests (Chen et al. 2021).

use super::data::Fields;
use super::protocol::every;
use super::{Check, Problem, Prompt, Protocol, Shots, Task};
use crate::grade::{code_of, completion};

pub(super) struct HumanEval;

const FILES: &[&str] =
    &["humaneval.jsonl", "HumanEval.jsonl", "human_eval.jsonl", "openai_humaneval/test.jsonl", "test.jsonl"];

const PROTOCOLS: &[Protocol] = &[
    Protocol {
        name: "klass",
        about: "KLASS: the head of the function as the question, a system message; the first fenced block, else the text, \
                runs behind the head",
        files: FILES,
        selects: every,
        shots: Shots::Fixed,
        prompt: |problem, _| Prompt::user(&problem.request).with_system("You complete only Python code."),
        stops: &[],
        check: |problem, text| {
            Check::Program(with_tests(problem, format!("{}{}\n", problem.request, code_of(text).trim())))
        },
        time_limit_s: 3,
    },
    Protocol {
        name: "lm-eval",
        about: "lm-eval humaneval_instruct: the answer begins with the head of the function in a fence and ends with it",
        files: FILES,
        selects: every,
        shots: Shots::Fixed,
        prompt: |problem, _| {
            let head = &problem.request;
            Prompt::user(format!(
                "Write a solution to the following problem and make sure that it passes the tests:\n```python\n{head}\n```\n"
            ))
            .with_prefix(format!("Here is the completed function:\n```python\n{head}\n"))
        },
        stops: &["\nclass", "\ndef", "\n#", "\nif", "\nprint"],
        check: |problem, text| {
            let body = text.split("```").next().unwrap_or(text);
            Check::Program(with_tests(problem, format!("{}{body}\n", problem.request)))
        },
        time_limit_s: 3,
    },
];

impl Task for HumanEval {
    fn name(&self) -> &'static str {
        "humaneval"
    }

    fn gen_length(&self) -> usize {
        256
    }

    fn protocols(&self) -> &'static [Protocol] {
        PROTOCOLS
    }

    fn read(&self, row: usize, fields: &Fields<'_>) -> Result<Problem, String> {
        let entry_point = fields.text(&["entry_point"])?;
        let tests = vec![fields.text(&["test"])?, format!("check({entry_point})")];
        Ok(Problem {
            id: fields.text(&["task_id"])?,
            row,
            request: fields.text(&["prompt"])?,
            solution: fields.text(&["canonical_solution"])?,
            tests,
            entry_point,
            ..Problem::default()
        })
    }

    fn check(&self, problem: &Problem, answer: &str) -> Check {
        Check::Program(with_tests(problem, completion(&problem.request, answer, &problem.entry_point)))
    }
}

/// A program and the tests that decide about it. What the tests need stands between them: it may use the program.
pub(super) fn with_tests(problem: &Problem, program: String) -> String {
    let setup = if problem.setup.is_empty() { String::new() } else { format!("{}\n", problem.setup) };
    format!("{program}\n{setup}{}\n", problem.tests.join("\n"))
}
