//! MBPP: short programs from a sentence and three tests (Austin et al. 2021).

use super::data::Fields;
use super::humaneval::with_tests;
use super::{Check, Problem, Prompt, Protocol, Shots, Task};
use crate::grade::code_of;

pub(super) struct Mbpp;

const FULL: &[&str] = &["mbpp.jsonl", "mbpp_full.jsonl", "mbpp/full/test.jsonl", "mbpp/test.jsonl", "test.jsonl"];
const SANITIZED: &[&str] = &["mbpp_sanitized.jsonl", "sanitized-mbpp.json", "mbpp/sanitized/test.jsonl", "test.jsonl"];
/// Tasks 2, 3 and 4, as lm-eval has them.
const EXAMPLES: &str = include_str!("mbpp_examples.txt");

const KLASS_FULL: Protocol = Protocol {
    name: "klass-full",
    about: "the question of KLASS on the 500 test rows of the full set, which is what scores in steps of 0.2 come from",
    files: FULL,
    selects: in_test_part,
    shots: Shots::Fixed,
    prompt: klass,
    stops: &[],
    check: klass_check,
    time_limit_s: 3,
};

const PROTOCOLS: &[Protocol] = &[
    KLASS_FULL,
    Protocol {
        name: "klass",
        about: "KLASS: the 257 test rows of the sanitized set; the first fenced block, else the text",
        files: SANITIZED,
        ..KLASS_FULL
    },
    Protocol {
        name: "lm-eval",
        about: "lm-eval mbpp_instruct: three fixed examples in one user turn, the answer begins with a fence; 500 test rows",
        files: FULL,
        selects: in_test_part,
        shots: Shots::Fixed,
        prompt: |problem, _| {
            let tests = problem.tests.iter().take(3).cloned().collect::<Vec<_>>().join("\n");
            Prompt::user(format!(
                "{EXAMPLES}You are an expert Python programmer, and here is your task:\n{}\nYour code should pass these \
                 tests:\n{tests}",
                problem.request
            ))
            .with_prefix("\n```python\n")
        },
        stops: &[],
        check: |problem, text| {
            let code = text.split("```").next().unwrap_or(text);
            Check::Program(with_tests(problem, format!("{code}\n")))
        },
        time_limit_s: 3,
    },
];

impl Task for Mbpp {
    fn name(&self) -> &'static str {
        "mbpp"
    }

    fn gen_length(&self) -> usize {
        256
    }

    fn protocols(&self) -> &'static [Protocol] {
        PROTOCOLS
    }

    fn read(&self, row: usize, fields: &Fields<'_>) -> Result<Problem, String> {
        let tests = fields.texts("test_list")?;
        if tests.is_empty() {
            return Err("'test_list' is missing".into());
        }
        let setup = match fields.texts("test_imports")? {
            imports if imports.is_empty() => fields.text(&["test_setup_code"]).unwrap_or_default(),
            imports => imports.join("\n"),
        };
        Ok(Problem {
            id: fields.text(&["task_id"])?,
            row,
            request: fields.text(&["text", "prompt"])?,
            solution: fields.text(&["code"])?.replace("\r\n", "\n"),
            tests,
            setup,
            ..Problem::default()
        })
    }

    fn check(&self, problem: &Problem, answer: &str) -> Check {
        klass_check(problem, answer)
    }
}

/// The test part of both sets is task 11 to task 510.
fn in_test_part(problem: &Problem) -> bool {
    problem.id.parse().is_ok_and(|id: u32| (11..=510).contains(&id))
}

fn klass(problem: &Problem, _: &[&Problem]) -> Prompt {
    let tests: Vec<String> = problem.tests.iter().map(|test| python_repr(test)).collect();
    Prompt::user(format!(
        "You are an expert Python programmer, and here is your task: {} Your code should pass these tests:\n\n[{}]\n[BEGIN]",
        problem.request,
        tests.join(", ")
    ))
}

fn klass_check(problem: &Problem, text: &str) -> Check {
    Check::Program(with_tests(problem, format!("{}\n", code_of(text))))
}

/// A text as Python's `repr` writes it: KLASS puts a list into its prompt.
fn python_repr(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut written = String::from(quote);
    for character in text.chars() {
        match character {
            '\\' => written += "\\\\",
            '\n' => written += "\\n",
            '\r' => written += "\\r",
            '\t' => written += "\\t",
            _ if character == quote => written.extend(['\\', character]),
            _ => written.push(character),
        }
    }
    written.push(quote);
    written
}

#[cfg(test)]
mod tests {
    use super::python_repr;

    #[test]
    fn texts_are_written_as_python_does() {
        assert_eq!(python_repr("assert f('a') == \"b\""), r#"'assert f(\'a\') == "b"'"#);
        assert_eq!(python_repr("assert f('a')"), "\"assert f('a')\"");
        assert_eq!(python_repr("a\\b\n"), r"'a\\b\n'");
    }
}
