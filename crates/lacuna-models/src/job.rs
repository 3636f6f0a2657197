//! A run of a checkpoint on its way to a record.

use std::time::{Duration, Instant};

use lacuna::{Predictor, Run, Token};
use serde_json::{Map, Value};

use crate::{Checkpoint, Kind, Plan, Record, Result, RunSummary};

/// A run, what of it is shown, and how long it has taken.
#[derive(Debug)]
pub struct Job {
    /// The run.
    pub run: Run,
    /// Time taken by its steps.
    pub took: Duration,
    /// The user's identifier.
    pub id: Option<Value>,
    /// Other columns of the row that its prompt was in.
    pub columns: Map<String, Value>,
    /// First position shown; the prompt is before it.
    pub from: usize,
    /// Kind of the run.
    pub kind: Kind,
}

impl Job {
    /// A job that has not begun.
    pub fn new(run: Run, from: usize, kind: Kind) -> Self {
        Self { run, took: Duration::ZERO, id: None, columns: Map::new(), from, kind }
    }

    /// Takes one step with each of `jobs` that is not finished; they share a forward pass. Whether there was any.
    pub fn step<'a>(
        jobs: impl IntoIterator<Item = &'a mut Job>,
        predictor: &mut dyn Predictor,
    ) -> lacuna::Result<bool> {
        let begun = Instant::now();
        let mut active: Vec<&mut Job> = jobs.into_iter().filter(|job| !job.run.is_finished()).collect();
        if active.is_empty() {
            return Ok(false);
        }
        let mut runs: Vec<&mut Run> = active.iter_mut().map(|job| &mut job.run).collect();
        lacuna::step(&mut runs, predictor)?;
        active.iter_mut().for_each(|job| job.took += begun.elapsed());
        Ok(true)
    }

    /// Summary of the run so far.
    pub fn summary<'a>(&'a self, plan: &'a Plan) -> RunSummary<'a> {
        RunSummary {
            trace: self.run.trace(),
            canvas: self.run.canvas(),
            plan,
            from: self.from,
            to: self.run.text_end(),
            kind: self.kind,
            nfe: self.run.forwards(),
            rows_read: self.run.rows_read(),
            rows_computed: self.run.rows_computed(),
            seconds: self.took.as_secs_f64(),
        }
    }

    /// Tokens of the visible text for each second, if `ends` end it.
    pub fn tokens_per_second(&self, ends: &[Token]) -> f64 {
        let written = self.kind.written(self.run.canvas(), self.from..self.run.text_end(), ends);
        written as f64 / self.took.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// The record of the finished run.
    pub fn record(&self, plan: &Plan, checkpoint: &Checkpoint) -> Result<Record> {
        Ok(Record { id: self.id.clone(), ..Record::of(&self.summary(plan), checkpoint)? })
    }
}
