//! MATH500: 500 problems of the MATH benchmark (Hendrycks et al. 2021, Lightman et al. 2023).

use super::data::Fields;
use super::gsm8k::KLASS_SYSTEM;
use super::protocol::every;
use super::{Check, Problem, Prompt, Protocol, Shots, Task};
use crate::grade::Verdict;
use crate::grade::math::{all_boxed, equivalent, extract};

pub(super) struct Math500;

const FILES: &[&str] =
    &["math500.jsonl", "math_500.jsonl", "MATH-500/test.jsonl", "math500/test.jsonl", "math_test.json", "test.jsonl"];
/// The four worked examples of Minerva (Lewkowycz et al. 2022), as lm-eval has them.
const MINERVA: &str = include_str!("minerva.txt");

const PROTOCOLS: &[Protocol] = &[
    Protocol {
        name: "klass",
        about: "KLASS: no examples, a system message; every \\boxed{}, else what follows 'answer is', else the last word \
                with a digit; one of them must be right. Compared by value, where KLASS compares normalized text",
        files: FILES,
        selects: every,
        shots: Shots::Fixed,
        prompt: |problem, _| Prompt::user(&problem.request).with_system(KLASS_SYSTEM),
        stops: &[],
        check: |problem, text| one_of(problem, &klass_candidates(text)),
        time_limit_s: 0,
    },
    Protocol {
        name: "lm-eval",
        about: "lm-eval minerva_math500: four fixed examples in one user turn; the answer is found and compared by value, \
                as its math_verify metric does",
        files: FILES,
        selects: every,
        shots: Shots::Fixed,
        prompt: |problem, _| Prompt::user(format!("{MINERVA}\n\nProblem:\n{}\n\nSolution:", problem.request)),
        stops: &["Problem:"],
        check: found,
        time_limit_s: 0,
    },
];

impl Task for Math500 {
    fn name(&self) -> &'static str {
        "math500"
    }

    fn gen_length(&self) -> usize {
        512
    }

    fn protocols(&self) -> &'static [Protocol] {
        PROTOCOLS
    }

    fn read(&self, row: usize, fields: &Fields<'_>) -> Result<Problem, String> {
        let solution = fields.text(&["solution", "answer"])?;
        let gold = match fields.text(&["answer"]) {
            Ok(gold) => gold,
            Err(_) => all_boxed(&solution).pop().ok_or("'answer' is missing, and 'solution' has no \\boxed{}")?,
        };
        Ok(Problem {
            id: row.to_string(),
            row,
            request: fields.text(&["problem"])?,
            gold,
            solution,
            ..Problem::default()
        })
    }

    fn check(&self, problem: &Problem, answer: &str) -> Check {
        found(problem, answer)
    }

    fn reference(&self, problem: &Problem) -> String {
        format!("\\boxed{{{}}}", problem.gold)
    }
}

fn found(problem: &Problem, text: &str) -> Check {
    one_of(problem, &extract(text).into_iter().collect::<Vec<_>>())
}

fn one_of(problem: &Problem, candidates: &[String]) -> Check {
    Check::Verdict(match candidates.iter().find(|candidate| equivalent(&problem.gold, candidate)) {
        Some(candidate) => Verdict::right(format!("{candidate} is right")),
        None if candidates.is_empty() => Verdict::wrong("there is no answer in it"),
        None => Verdict::wrong(format!("{} instead of {}", candidates.join(" or "), problem.gold)),
    })
}

fn klass_candidates(text: &str) -> Vec<String> {
    let boxed = all_boxed(text);
    if !boxed.is_empty() {
        return boxed;
    }
    if let Some((_, rest)) = text.rsplit_once("answer is") {
        let rest = rest.split(".\n").next().unwrap_or(rest);
        let rest = rest.split(". ").next().unwrap_or(rest).trim();
        return rest
            .split(" or ")
            .map(|part| part.trim_start_matches(':').trim().trim_end_matches('.').to_string())
            .collect();
    }
    let words = text.split_whitespace().rfind(|word| word.contains(|c: char| c.is_ascii_digit()));
    words.map(|word| word.trim_end_matches('.').to_string()).into_iter().collect()
}
