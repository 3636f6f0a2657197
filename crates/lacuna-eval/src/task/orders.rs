//! Tasks whose dependencies are known, for `models/orders`, from the generator in `training/`.

use super::data::Fields;
use super::dependencies::{Dependencies, Grid};
use super::protocol::every;
use super::{Check, Problem, Prompt, Protocol, Shots, Task};
use crate::grade::{NumberRule, Verdict};

/// One of them.
pub(super) struct Ordered {
    name: &'static str,
    gen_length: usize,
    protocols: &'static [Protocol],
}

macro_rules! ordered {
    ($id:ident, $name:literal, $gen_length:literal, $check:path, $about:literal) => {
        pub(super) static $id: Ordered = Ordered {
            name: $name,
            gen_length: $gen_length,
            protocols: &[Protocol {
                name: "orders",
                about: $about,
                files: &[concat!($name, ".jsonl")],
                selects: every,
                shots: Shots::Fixed,
                prompt: |problem, _| Prompt::user(&problem.request),
                stops: &[],
                check: $check,
                time_limit_s: 0,
            }],
        };
    };
}

ordered!(LAST, "last", 64, result, "a word problem, its equations and then its result; the number after '####'");
ordered!(FIRST, "first", 64, result, "a word problem, its result and then its equations; the number after '####'");
ordered!(FORWARD, "forward", 64, whole, "a chain of assignments in the order of computing; all of it");
ordered!(BACKWARD, "backward", 64, whole, "a chain of assignments against the order of computing; all of it");
ordered!(SHUFFLED, "shuffled", 64, whole, "a chain of assignments in any order; all of it");
ordered!(SUDOKU, "sudoku", 64, whole, "a Sudoku of 6 x 6 that singles solve; all of it");
ordered!(SUDOKU9, "sudoku9", 96, whole, "a Sudoku of 9 x 9 that singles solve; all of it");
ordered!(LATIN, "latin", 64, latin, "a Latin square of 5 x 5; any completion");
ordered!(COPY, "copy", 64, whole, "a list of digits; the same list");
ordered!(REVERSE, "reverse", 64, whole, "a list of digits; from its end");
ordered!(SORT, "sort", 64, whole, "a list of digits; by value");
ordered!(SHUFFLE, "shuffle", 64, shuffled, "a list of digits; any order");

impl Task for Ordered {
    fn name(&self) -> &'static str {
        self.name
    }

    fn gen_length(&self) -> usize {
        self.gen_length
    }

    fn protocols(&self) -> &'static [Protocol] {
        self.protocols
    }

    fn read(&self, row: usize, fields: &Fields<'_>) -> Result<Problem, String> {
        Ok(Problem {
            id: fields.text(&["id"])?,
            row,
            request: fields.text(&["prompt"])?,
            gold: fields.text(&["final", "answer"])?,
            solution: fields.text(&["answer"])?,
            values: fields.parsed("values")?,
            ..Problem::default()
        })
    }

    fn check(&self, problem: &Problem, answer: &str) -> Check {
        (self.protocols[0].check)(problem, answer)
    }

    fn dependencies(&self, problem: &Problem) -> Option<Dependencies> {
        match self.name {
            "sudoku" | "sudoku9" => Grid::read(&problem.request, &problem.solution).map(Dependencies::of_grid),
            _ if problem.values.is_empty() => None,
            _ => Some(Dependencies::of_values(&problem.values)),
        }
    }
}

fn verdict(correct: bool, otherwise: &str) -> Check {
    Check::Verdict(if correct { Verdict::right("it is right") } else { Verdict::wrong(otherwise) })
}

/// The number after `####` has the right value.
fn result(problem: &Problem, text: &str) -> Check {
    let number = NumberRule::Strict.extract(text).and_then(|number| number.parse::<i64>().ok());
    match number {
        None => verdict(false, "there is no number after ####"),
        Some(number) => verdict(problem.gold.parse() == Ok(number), &format!("{number} instead of {}", problem.gold)),
    }
}

/// The only right text.
fn whole(problem: &Problem, text: &str) -> Check {
    let same = text.chars().zip(problem.solution.chars()).take_while(|(a, b)| a == b).count();
    verdict(text.trim_end() == problem.solution, &format!("it is wrong from character {} on", same + 1))
}

/// A rearrangement of the list.
fn shuffled(problem: &Problem, text: &str) -> Check {
    let sorted = |text: &str| {
        let mut bytes = text.trim_end().as_bytes().to_vec();
        bytes.sort_unstable();
        bytes
    };
    verdict(sorted(text) == sorted(&problem.solution), "it is no rearrangement of the list")
}

/// A Latin square that keeps the clues.
fn latin(problem: &Problem, text: &str) -> Check {
    let complete = Grid::read(&problem.request, text.trim_end()).is_some_and(|grid| grid.is_complete());
    verdict(complete, "it is no Latin square with these clues")
}
