//! A model that is ready to decode, and the jobs it is given.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use lacuna::{Run, Token};
use lacuna_models::{Checkpoint, Ended, Error, Kind, Model, Plan, Record, Text, describe_gpu};
use serde_json::Value;

use crate::args;

/// A loaded model.
pub(crate) struct Engine {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) predictor: Box<dyn Model>,
    /// The tokens that end a text.
    pub(crate) ends: Vec<Token>,
}

/// A run, what of it is shown, and how long it has taken.
pub(crate) struct Job {
    pub(crate) run: Run,
    pub(crate) took: Duration,
    /// What the user calls it.
    pub(crate) id: Option<Value>,
    /// What is shown starts at this position; before it stands the prompt.
    pub(crate) from: usize,
    pub(crate) kind: Kind,
}

impl Engine {
    /// Loads the model that the flags name.
    pub(crate) fn open(flags: &args::Model) -> Result<Self> {
        start_threads(flags.threads)?;
        let checkpoint = open_checkpoint(flags.model.as_deref())?;
        let predictor = lacuna_models::load(&checkpoint, flags.precision.map(Into::into), flags.device.into())?;
        if flags.device == args::Device::Auto && predictor.device().starts_with("cpu") {
            explain_cpu();
        }
        let ends = checkpoint.ends();
        Ok(Self { checkpoint, predictor, ends })
    }

    /// The tokenizer and chat template, or why there is none.
    pub(crate) fn text(&self) -> Result<&Text> {
        Ok(self.checkpoint.text()?)
    }

    /// A prompt as tokens: in the model's chat template if it has one, unless it is to stay raw.
    pub(crate) fn encode(&self, prompt: &str, system: Option<&str>, raw: bool) -> Result<Vec<Token>> {
        ensure!(!prompt.trim().is_empty(), "the prompt is empty: give the model some text to answer");
        let text = self.text()?;
        if raw || (!text.can_chat() && system.is_none()) {
            return Ok(text.encode(prompt)?);
        }
        let system = system.map(|content| ("system", content));
        Ok(text.chat(&Vec::from_iter(system.into_iter().chain([("user", prompt)])))?)
    }

    /// Steps `jobs` together until all are finished; `watch` sees them after each step.
    pub(crate) fn decode(
        &mut self,
        jobs: &mut [Job],
        mut watch: impl FnMut(&Self, &[Job]) -> Result<()>,
    ) -> Result<()> {
        let begun = Instant::now();
        loop {
            let mut active: Vec<&mut Job> = jobs.iter_mut().filter(|job| !job.run.is_finished()).collect();
            if active.is_empty() {
                return Ok(());
            }
            let mut runs: Vec<&mut Run> = active.iter_mut().map(|job| &mut job.run).collect();
            lacuna::step(&mut runs, self.predictor.as_mut())?;
            active.iter_mut().for_each(|job| job.took = begun.elapsed());
            watch(self, jobs)?;
        }
    }
}

impl Job {
    pub(crate) fn new(run: Run, from: usize, kind: Kind) -> Self {
        Self { run, took: Duration::ZERO, id: None, from, kind }
    }

    /// What is to be kept of it once it is finished.
    pub(crate) fn record(&self, plan: &Plan, engine: &Engine) -> Result<Record> {
        let ended = Ended {
            trace: self.run.trace(),
            canvas: self.run.canvas(),
            plan,
            from: self.from,
            kind: self.kind,
            nfe: self.run.forwards(),
            rows_read: self.run.rows_read(),
            seconds: self.took.as_secs_f64(),
        };
        Ok(Record { id: self.id.clone(), ..Record::of(&ended, &engine.checkpoint)? })
    }

    pub(crate) fn tokens_per_second(&self, engine: &Engine) -> f64 {
        let written = self.kind.written(self.run.canvas(), self.from, &engine.ends);
        written as f64 / self.took.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// Says why a GPU that one would expect to be used is not.
fn explain_cpu() {
    if let Err(error @ Error::NoGpu { expected: true, .. }) = describe_gpu() {
        let _ = writeln!(std::io::stderr(), "note: {error}; computing on the CPU");
    }
}

/// Sets how many threads compute: as many as asked, else one for each core.
pub(crate) fn start_threads(asked: Option<usize>) -> Result<()> {
    match asked {
        Some(threads) => {
            rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().context("cannot start the threads")
        }
        None => Ok(()),
    }
}

/// The model directory, or the embedded model.
pub(crate) fn open_checkpoint(directory: Option<&Path>) -> Result<Checkpoint> {
    Ok(match directory {
        Some(directory) => Checkpoint::open(directory)?,
        None => Checkpoint::embedded()?,
    })
}
