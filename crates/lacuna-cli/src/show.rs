//! Showing jobs while they run and when they are done.

use std::io::{IsTerminal, Write, stderr, stdout};

use anyhow::Result;
use lacuna::Token;
use lacuna_models::{Checkpoint, Job, Kind, Plan, Record};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::args::{Format, Output};
use crate::commands::print;
use crate::render::{self, Screen};

/// A record with the other columns of the row that its prompt was in.
#[derive(Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    record: Record,
    #[serde(flatten)]
    columns: &'a Map<String, Value>,
}

/// Output format of jobs, from the flags.
pub(crate) struct Show<'a> {
    plan: &'a Plan,
    checkpoint: &'a Checkpoint,
    ends: Vec<Token>,
    json: bool,
    /// True if the text is drawn while it emerges.
    pub(crate) watch: bool,
    screen: Screen,
    done: usize,
    total: usize,
}

impl<'a> Show<'a> {
    pub(crate) fn new(output: &Output, total: usize, plan: &'a Plan, checkpoint: &'a Checkpoint) -> Self {
        let json = output.format == Format::Json;
        let watch = output.watch.unwrap_or_else(|| stdout().is_terminal()) && !json && checkpoint.text().is_ok();
        Self { plan, checkpoint, ends: checkpoint.ends(), json, watch, screen: Screen::new(), done: 0, total }
    }

    /// Shows jobs between two steps. Several that share their steps are only counted.
    pub(crate) fn step(&mut self, jobs: &[&Job]) -> Result<()> {
        match jobs {
            [_] if self.watch && !self.screen.is_due() => {}
            [job] if self.watch => self.draw(job)?,
            _ if stderr().is_terminal() => {
                let decided = |job: &&Job| job.run.canvas().gaps().count() - job.run.canvas().masked().count();
                let decided: usize = jobs.iter().map(decided).sum();
                write!(stderr(), "\r\x1b[K{} of {} done, {decided} tokens decided", self.done, self.total)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Shows a finished job.
    pub(crate) fn finish(&mut self, job: &Job) -> Result<()> {
        self.done += 1;
        if self.watch {
            self.draw(job)?;
            self.screen = Screen::new();
            return Ok(());
        }
        if stderr().is_terminal() {
            write!(stderr(), "\r\x1b[K")?;
        }
        let record = job.record(self.plan, self.checkpoint)?;
        match record.text {
            _ if self.json => print(&serde_json::to_string(&Row { record, columns: &job.columns })?),
            Some(text) => print(&text),
            None => print(&record.tokens.iter().map(Token::to_string).collect::<Vec<_>>().join(",")),
        }
    }

    /// Draws the text of a job as it stands, and a line that says how far it is.
    fn draw(&mut self, job: &Job) -> Result<()> {
        let colour = self.screen.colour;
        let (trace, canvas) = (job.run.trace(), job.run.canvas());
        let view = render::View {
            from: job.from,
            to: job.run.text_end(),
            width: render::size().0,
            colour,
            end: job.run.is_finished() && job.kind == Kind::Answer,
        };
        let mut lines = view.lines(trace, trace.deltas.len(), self.checkpoint.text()?, &self.ends);
        let gaps = canvas.gaps().count();
        let status = format!(
            "{} · step {} · {}/{gaps} tokens · NFE {} · {}",
            self.plan.describe(),
            trace.deltas.len(),
            gaps - canvas.masked().count(),
            job.run.forwards(),
            render::speed(job.tokens_per_second(&self.ends)),
        );
        lines.push(if colour { format!("\x1b[2m{status}\x1b[0m") } else { status });
        Ok(self.screen.draw(&lines)?)
    }
}
