//! Grading answers that any system has recorded.

use std::collections::HashMap;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::grade::Verdict;
use crate::sandbox::Sandbox;
use crate::task::{Check, Problem, Task};
use crate::{Error, Result};

/// A recorded answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Identifier of the problem, as in the file.
    pub id: Value,
    /// The row of that problem among those given.
    pub problem: usize,
    /// The answer.
    pub answer: String,
}

/// Grade of a recorded answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Graded {
    /// Identifier of the problem, as in the file.
    pub id: Value,
    /// True if it is right.
    pub correct: bool,
    /// Reason in a few words.
    pub reason: String,
}

/// Reads answers, one `{"id", "answer"}` a line: the id is a problem's own or its row from 0.
pub fn parse_answers(path: &Path, text: &str, problems: &[Problem]) -> Result<Vec<Recorded>> {
    let ids: HashMap<&str, usize> =
        problems.iter().enumerate().map(|(at, problem)| (problem.id.as_str(), at)).collect();
    let rows: HashMap<String, usize> =
        problems.iter().enumerate().map(|(at, problem)| (problem.row.to_string(), at)).collect();
    let read = |(number, line): (usize, &str)| {
        let damaged = |reason: String| Error::Line { path: path.into(), line: number + 1, reason };
        let value: Value = serde_json::from_str(line).map_err(|error| damaged(format!("it is not JSON ({error})")))?;
        if !value.is_object() {
            return Err(damaged("it is not an object with 'id' and 'answer'".into()));
        }
        let id = value.get("id").or_else(|| value.get("task_id")).ok_or_else(|| damaged("'id' is missing".into()))?;
        let name = match id {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let found = ids.get(name.as_str()).or_else(|| rows.get(&name));
        let problem = *found.ok_or_else(|| damaged(format!("there is no problem '{name}'")))?;
        match value.get("answer") {
            Some(Value::String(answer)) => Ok(Recorded { id: id.clone(), problem, answer: answer.clone() }),
            Some(Value::Number(answer)) => Ok(Recorded { id: id.clone(), problem, answer: answer.to_string() }),
            Some(Value::Null) => Ok(Recorded { id: id.clone(), problem, answer: String::new() }),
            Some(_) => Err(damaged("'answer' is not a text".into())),
            None => Err(damaged("'answer' is missing".into())),
        }
    };
    let text = text.trim_start_matches('\u{feff}');
    let answers: Vec<Recorded> =
        text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(read).collect::<Result<_>>()?;
    if answers.is_empty() {
        return Err(Error::Request(format!("{} holds no answers", path.display())));
    }
    Ok(answers)
}

/// True if grading this task means running programs.
pub fn needs_sandbox(task: &dyn Task, problem: &Problem) -> bool {
    matches!(task.check(problem, ""), Check::Program(_))
}

/// Grades `answers`, programs `threads` at a time in the sandbox.
pub fn grade(
    task: &dyn Task,
    problems: &[Problem],
    answers: &[Recorded],
    sandbox: Option<&Sandbox>,
    threads: usize,
) -> Result<Vec<Graded>> {
    let mut programs = Vec::new();
    let checks: Vec<Option<Verdict>> = answers
        .iter()
        .map(|answer| match task.check(&problems[answer.problem], &answer.answer) {
            Check::Verdict(verdict) => Some(verdict),
            Check::Program(program) => {
                programs.push(program);
                None
            }
        })
        .collect();
    let outcomes = match (programs.is_empty(), sandbox) {
        (true, _) => Vec::new(),
        (false, Some(sandbox)) => sandbox.run_all(&programs, threads)?,
        (false, None) => return Err(Error::NoSandbox),
    };
    let mut outcomes = outcomes.into_iter();
    let graded = answers.iter().zip(checks).map(|(answer, verdict)| {
        let verdict = verdict.unwrap_or_else(|| {
            let outcome = outcomes.next().expect("there is an outcome for each program");
            Verdict { correct: outcome.passed, reason: outcome.reason }
        });
        Graded { id: answer.id.clone(), correct: verdict.correct, reason: verdict.reason }
    });
    Ok(graded.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task;

    fn problems() -> Vec<Problem> {
        let problem = |row: usize| Problem { id: format!("Test/{row}"), row, gold: "7".into(), ..Problem::default() };
        vec![problem(0), problem(1)]
    }

    #[test]
    fn answers_are_found_by_id_or_row() {
        let text = "\u{feff}{\"id\": \"Test/1\", \"answer\": \"7\"}\n\n{\"id\": 0, \"answer\": 8}\n{\"id\": \"0\", \"answer\": null}\n";
        let answers = parse_answers(Path::new("a"), text, &problems()).unwrap();
        assert_eq!(answers.iter().map(|answer| answer.problem).collect::<Vec<_>>(), [1, 0, 0]);
        let graded = grade(task::find("gsm8k").unwrap(), &problems(), &answers, None, 1).unwrap();
        assert_eq!(graded.iter().map(|graded| graded.correct).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!(graded[1].reason, "8 instead of 7");
        assert_eq!(graded[1].id, Value::from(0));
    }

    #[test]
    fn bad_lines_are_named() {
        for (line, expected) in [
            ("{", "line 2: it is not JSON"),
            ("{\"answer\": \"x\"}", "line 2: 'id' is missing"),
            ("{\"id\": 0}", "line 2: 'answer' is missing"),
            ("[{\"id\": 0, \"answer\": \"7\"}]", "line 2: it is not an object"),
            ("{\"id\": 9, \"answer\": \"x\"}", "line 2: there is no problem '9'"),
            ("{\"id\": 0, \"answer\": []}", "line 2: 'answer' is not a text"),
        ] {
            let text = format!("{{\"id\": 0, \"answer\": \"7\"}}\n{line}\n");
            let error = parse_answers(Path::new("a.jsonl"), &text, &problems()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let error = parse_answers(Path::new("a.jsonl"), "\n", &problems()).unwrap_err().to_string();
        assert_eq!(error, "a.jsonl holds no answers");
    }

    #[test]
    fn code_is_not_run_without_a_sandbox() {
        let (task, problems) = (task::find("code").unwrap(), problems());
        assert!(needs_sandbox(task, &problems[0]) && !needs_sandbox(task::find("words").unwrap(), &problems[0]));
        let answers = [Recorded { id: 0.into(), problem: 0, answer: "x = 1".into() }];
        assert!(matches!(grade(task, &problems, &answers, None, 1), Err(Error::NoSandbox)));
    }
}
