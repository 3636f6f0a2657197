//! GSM8K: word problems of grade school (Cobbe et al. 2021).

use super::data::Fields;
use super::protocol::every;
use super::{Check, Problem, Prompt, Protocol, Shots, Task};
use crate::grade::{NumberRule, Verdict, exact_match, gold, normalize};

pub(super) struct Gsm8k;

/// System prompt of KLASS for mathematical questions.
pub(super) const KLASS_SYSTEM: &str = "Your task is to answer the question below. Give step by step reasoning before you \
    answer, and when you're ready to answer, please use the format 'The final answer is'.";

const FILES: &[&str] = &["gsm8k_test.jsonl", "gsm8k/test.jsonl", "gsm8k.jsonl", "gsm8k_test.json", "test.jsonl"];
const TRAIN: &[&str] = &["gsm8k_train.jsonl", "gsm8k/train.jsonl", "train.jsonl"];
const DRAWN: Shots = Shots::Drawn { count: 5, files: TRAIN };
const STOPS: &[&str] = &["Question:", "</s>", "<|im_end|>"];

const PROTOCOLS: &[Protocol] = &[
    Protocol {
        name: "klass",
        about: "KLASS: no examples, a system message; the first number after the last 'answer is', else the last number",
        files: FILES,
        selects: every,
        shots: Shots::Fixed,
        prompt: |problem, _| Prompt::user(&problem.request).with_system(KLASS_SYSTEM),
        stops: &[],
        check: |problem, text| by_value(problem, NumberRule::AnswerIs.extract(text)),
        time_limit_s: 0,
    },
    Protocol {
        name: "lm-eval",
        about: "lm-eval gsm8k, five drawn examples in one user turn; flexible-extract",
        files: FILES,
        selects: every,
        shots: DRAWN,
        prompt: lm_eval,
        stops: STOPS,
        check: |problem, text| exactly(problem, NumberRule::Flexible.extract(text)),
        time_limit_s: 0,
    },
    Protocol {
        name: "lm-eval-strict",
        about: "lm-eval gsm8k, five drawn examples in one user turn; strict-match",
        files: FILES,
        selects: every,
        shots: DRAWN,
        prompt: lm_eval,
        stops: STOPS,
        check: |problem, text| exactly(problem, NumberRule::Strict.extract(text)),
        time_limit_s: 0,
    },
];

impl Task for Gsm8k {
    fn name(&self) -> &'static str {
        "gsm8k"
    }

    fn gen_length(&self) -> usize {
        512
    }

    fn protocols(&self) -> &'static [Protocol] {
        PROTOCOLS
    }

    fn read(&self, row: usize, fields: &Fields<'_>) -> Result<Problem, String> {
        let solution = fields.text(&["answer"])?;
        let gold = gold(&solution).ok_or("'answer' does not end with '#### ' and a number")?.replace(',', "");
        Ok(Problem {
            id: row.to_string(),
            row,
            request: fields.text(&["question"])?,
            gold,
            solution,
            ..Problem::default()
        })
    }

    fn check(&self, problem: &Problem, answer: &str) -> Check {
        by_value(problem, NumberRule::Any.extract(answer))
    }
}

fn lm_eval(problem: &Problem, shots: &[&Problem]) -> Prompt {
    let shots = shots.iter().map(|shot| format!("Question: {}\nAnswer: {}\n\n", shot.request, shot.solution));
    Prompt::user(format!("{}Question: {}\nAnswer:", shots.collect::<String>(), problem.request))
}

/// Numbers are the same if their values are.
pub(super) fn by_value(problem: &Problem, answer: Option<&str>) -> Check {
    compare(problem, answer, |gold, answer| normalize(gold) == normalize(answer))
}

fn exactly(problem: &Problem, answer: Option<&str>) -> Check {
    compare(problem, answer, exact_match)
}

fn compare(problem: &Problem, answer: Option<&str>, same: impl Fn(&str, &str) -> bool) -> Check {
    Check::Verdict(match answer {
        None => Verdict::wrong("there is no number in it"),
        Some(answer) if same(&problem.gold, answer) => Verdict::right(format!("{answer} is right")),
        Some(answer) => Verdict::wrong(format!("{answer} instead of {}", problem.gold)),
    })
}
