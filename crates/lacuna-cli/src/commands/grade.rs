//! `lacuna grade`: grade recorded answers.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use lacuna_eval::recorded;
use lacuna_eval::sandbox::{Limits, Sandbox};
use lacuna_eval::task;
use serde_json::json;

use super::{print, read};
use crate::args;

#[derive(Args)]
#[command(after_help = "\
An answer is one line {\"id\": ..., \"answer\": TEXT}. The id is the task_id for humaneval and mbpp, and the row number from 0
for the others. The answer is the text as the system wrote it: the number, formula or code is found in it.

Examples:
  lacuna grade gsm8k --data data --answers answers.jsonl
  lacuna grade humaneval --data data/humaneval.jsonl --answers - < answers.jsonl")]
pub(crate) struct Grade {
    /// The task: gsm8k, math500, humaneval, mbpp, words or code
    task: String,
    /// The folder with the data files, or one such file; words and code need none
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The answers ('-': standard input)
    #[arg(long, value_name = "FILE")]
    answers: PathBuf,
    /// Seconds that a program may take
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    time_limit: u64,
    /// Number of programs run at once [default: all cores]
    #[arg(long, value_name = "N", value_parser = args::parse_positive)]
    threads: Option<usize>,
    /// Run the code even where nothing confines it
    #[arg(long)]
    unconfined: bool,
}

pub(crate) fn grade(args: &Grade) -> Result<()> {
    let task = task::find(&args.task)?;
    let (_, problems) = task::load_all(task, args.data.as_deref())?;
    let answers = recorded::parse_answers(&args.answers, &read(&args.answers)?, &problems)?;
    let sandbox = match problems.first().filter(|problem| recorded::needs_sandbox(task, problem)) {
        Some(_) => {
            let limits = Limits { wall: std::time::Duration::from_secs(args.time_limit), ..Limits::default() };
            Some(Sandbox::detect(limits, args.unconfined)?)
        }
        None => None,
    };
    let threads = args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let mut correct = 0;
    // In small groups, so that verdicts appear as they are found.
    for answers in answers.chunks(threads * 8) {
        for graded in recorded::grade(task, &problems, answers, sandbox.as_ref(), threads)? {
            correct += usize::from(graded.correct);
            print(&serde_json::to_string(&graded)?)?;
        }
    }
    let mut answered: Vec<usize> = answers.iter().map(|answer| answer.problem).collect();
    answered.sort_unstable();
    answered.dedup();
    print(&serde_json::to_string(&json!({
        "task": args.task,
        "n": answers.len(),
        "correct": correct,
        "accuracy": correct as f64 / answers.len().max(1) as f64,
        "unanswered": problems.len() - answered.len(),
        "sandbox": sandbox.map(|sandbox| format!("{}; Python {}", sandbox.layers(), sandbox.interpreter().version)),
    }))?)
}
