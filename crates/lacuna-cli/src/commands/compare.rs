//! `lacuna compare`: one prompt, several strategies, side by side.

use std::io::{IsTerminal, Write, stderr};

use anyhow::{Context, Result};
use clap::Args;
use lacuna_models::{Job, Kind, Plan};

use super::{print, text_or_stdin};
use crate::args::{Decoding, Format, Model};
use crate::engine::{Engine, decode};
use crate::render;

#[derive(Args)]
pub(crate) struct Compare {
    /// The prompt; '-' reads it from standard input
    prompt: String,
    /// The strategies to compare
    #[arg(long, value_name = "A,B,...", value_delimiter = ',', default_value = "dos+eb,confidence+eb,random")]
    strategies: Vec<String>,
    /// Give the prompt to the model as it is, without its chat template
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    decoding: Decoding<true>,
    #[command(flatten)]
    model: Model,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Columns narrower than this are put below each other instead.
const MIN_COLUMN_WIDTH: usize = 22;
const SEPARATOR: &str = " │ ";

pub(crate) fn compare(args: &Compare) -> Result<()> {
    let mut engine = Engine::open(&args.model)?;
    let prompt = engine.checkpoint.encode_prompt(&text_or_stdin(&args.prompt)?, None, args.raw)?;
    let mut jobs = Vec::new();
    let names: Vec<&str> = args.strategies.iter().map(String::as_str).collect();
    for (name, request) in names.iter().zip(args.decoding.request(None)?.for_each(&names)?) {
        let place = || format!("--strategies {name}");
        let plan = request.plan(&engine.checkpoint).with_context(place)?;
        let run = plan.answer(&prompt, engine.predictor.description()).with_context(place)?;
        jobs.push((Job::new(run, prompt.len(), Kind::Answer), plan));
    }
    for (job, plan) in &mut jobs {
        if stderr().is_terminal() {
            write!(stderr(), "\r\x1b[K{} …", plan.strategy.name)?;
        }
        decode(job, engine.predictor.as_mut(), |_| Ok(()))?;
        if args.format == Format::Json {
            print(&serde_json::to_string(&job.record(plan, &engine.checkpoint)?)?)?;
        }
    }
    if stderr().is_terminal() {
        write!(stderr(), "\r\x1b[K")?;
    }
    if args.format == Format::Text {
        lay_out(&jobs, &engine)?.iter().try_for_each(|line| print(line))?;
    }
    Ok(())
}

/// The columns next to each other, or one after the other where the terminal is too narrow.
fn lay_out(jobs: &[(Job, Plan)], engine: &Engine) -> Result<Vec<String>> {
    let (width, _) = render::size();
    let separators = render::columns(SEPARATOR) * (jobs.len() - 1);
    let column = width.saturating_sub(separators) / jobs.len();
    if column < MIN_COLUMN_WIDTH {
        let mut lines = Vec::new();
        for (job, plan) in jobs {
            lines.extend(show(job, plan, width, engine)?);
            lines.push(String::new());
        }
        return Ok(lines);
    }
    let columns = jobs.iter().map(|(job, plan)| show(job, plan, column, engine)).collect::<Result<Vec<_>>>()?;
    let height = columns.iter().map(Vec::len).max().unwrap_or(0);
    let cell = |lines: &Vec<String>, row: usize| {
        let line = lines.get(row).map_or("", String::as_str);
        format!("{line}{}", " ".repeat(column.saturating_sub(render::columns(line))))
    };
    let row = |row| columns.iter().map(|lines| cell(lines, row)).collect::<Vec<_>>().join(SEPARATOR);
    Ok((0..height).map(|number| row(number).trim_end().to_string()).collect())
}

/// One strategy's column: its name, its figures, its text.
fn show(job: &Job, plan: &Plan, width: usize, engine: &Engine) -> Result<Vec<String>> {
    let figures = format!("NFE {} · {}", job.run.forwards(), render::speed(job.tokens_per_second(&engine.ends)));
    let mut lines = vec![plan.describe(), figures, "─".repeat(width)];
    let trace = job.run.trace();
    let view =
        render::View { from: job.from, to: job.run.text_end(), width, colour: render::wants_colour(), end: true };
    lines.extend(view.lines(trace, trace.deltas.len(), engine.text()?, &engine.ends));
    Ok(lines)
}
