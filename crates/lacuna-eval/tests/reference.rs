//! The graders on the benchmarks' own solutions: all of them pass, and corrupted ones fail.
//!
//! `tests/data` has excerpts; LACUNA_EVAL_DATA names a folder with the whole sets.

use std::path::{Path, PathBuf};

use lacuna_eval::recorded::{Recorded, grade};
use lacuna_eval::sandbox::{Limits, Sandbox};
use lacuna_eval::task::{self, Problem, Task};
use serde_json::Value;

fn data() -> PathBuf {
    match std::env::var_os("LACUNA_EVAL_DATA") {
        Some(folder) => folder.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data"),
    }
}

fn sandbox() -> Sandbox {
    let limits = Limits { wall: std::time::Duration::from_secs(10), ..Limits::default() };
    Sandbox::detect(limits, false).unwrap()
}

fn graded(task: &'static dyn Task, problems: &[Problem], answer: impl Fn(&Problem) -> String) -> Vec<(bool, String)> {
    let answers: Vec<Recorded> = problems
        .iter()
        .enumerate()
        .map(|(at, problem)| Recorded { id: Value::String(problem.id.clone()), problem: at, answer: answer(problem) })
        .collect();
    let graded = grade(task, problems, &answers, Some(&sandbox()), 4).unwrap();
    graded.into_iter().map(|graded| (graded.correct, format!("{}: {}", graded.id, graded.reason))).collect()
}

/// Every solution passes as it is, and none with `corrupt` applied.
fn check(name: &str, file: Option<&str>, corrupt: impl Fn(&Problem, &str) -> String) {
    let task = task::find(name).unwrap();
    let path = file.map_or(data(), |file| data().join(file));
    let (_, problems) = task::load_all(task, Some(&path)).unwrap();
    let right = graded(task, &problems, |problem| task.reference(problem));
    let failed: Vec<&String> = right.iter().filter(|(correct, _)| !correct).map(|(_, reason)| reason).collect();
    assert!(failed.is_empty(), "{} of {} fail: {failed:#?}", failed.len(), problems.len());
    let wrong = graded(task, &problems, |problem| corrupt(problem, &task.reference(problem)));
    let passed: Vec<&String> = wrong.iter().filter(|(correct, _)| *correct).map(|(_, reason)| reason).collect();
    assert!(passed.is_empty(), "{} corrupted ones of {} pass: {passed:#?}", passed.len(), problems.len());
}

#[test]
fn gsm8k_solutions_are_right_and_changed_numbers_wrong() {
    check("gsm8k", None, |problem, solution| {
        let gold: f64 = problem.gold.parse().unwrap();
        solution.replace("#### ", &format!("#### {}", if gold == 1.0 { 2 } else { 1 }))
    });
}

#[test]
fn math_answers_are_right_against_themselves_and_wrong_against_others() {
    let task = task::find("math500").unwrap();
    let (_, problems) = task::load_all(task, Some(&data())).unwrap();
    let right = graded(task, &problems, |problem| task.reference(problem));
    let failed: Vec<_> = right.iter().filter(|(correct, _)| !correct).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    for wrong in ["\\boxed{123456789}", "\\boxed{\\sqrt{987}}", "\\boxed{}", "I do not know.", "\\boxed{\\text{maybe}}"]
    {
        let graded = graded(task, &problems, |_| wrong.to_string());
        assert!(graded.iter().all(|(correct, _)| !correct), "{wrong}");
    }
}

#[test]
fn humaneval_solutions_pass_and_corrupted_ones_fail() {
    check("humaneval", None, |problem, _| {
        // A function that answers nothing, written both ways.
        if problem.row % 2 == 0 {
            "    return None, None\n".into()
        } else {
            format!("```python\ndef {}(*arguments):\n    return None, None\n```", problem.entry_point)
        }
    });
}

#[test]
fn mbpp_solutions_pass_and_corrupted_ones_fail() {
    for file in ["mbpp.jsonl", "mbpp_sanitized.jsonl"] {
        check("mbpp", Some(file), |_, solution| format!("{solution}\nraise ValueError('corrupted')\n"));
    }
}

#[test]
fn the_embedded_tasks_solutions_pass_and_corrupted_ones_fail() {
    for (name, count) in [("words", 64), ("code", 48)] {
        let task = task::find(name).unwrap();
        let (_, mut problems) = task::load_all(task, None).unwrap();
        assert!(problems.len() >= 512, "{name} has {} problems", problems.len());
        if std::env::var_os("LACUNA_EVAL_DATA").is_none() {
            problems.truncate(count);
        }
        let right = graded(task, &problems, |problem| task.reference(problem));
        assert!(right.iter().all(|(correct, _)| *correct), "{right:?}");
        let wrong = graded(task, &problems, |problem| match name {
            "words" => problem.solution.replace("#### ", "#### 9"),
            _ => problem.solution.replace("return", "return None and"),
        });
        let passed = wrong.iter().filter(|(correct, _)| *correct).count();
        // Some functions rightly return None.
        assert!(passed * 20 <= problems.len(), "{passed} corrupted {name} of {} pass", problems.len());
    }
}
