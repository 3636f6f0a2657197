//! A model that is ready to decode.

use std::io::Write;
use std::path::Path;

use anyhow::{Result, ensure};
use lacuna::Token;
use lacuna_models::{Checkpoint, Error, Isa, Job, Model, Text, describe_gpu, usual_threads};

use crate::args;

/// A loaded model.
pub(crate) struct Engine {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) predictor: Box<dyn Model>,
    /// The tokens that end a text.
    pub(crate) ends: Vec<Token>,
}

impl Engine {
    /// Loads the model that the flags name.
    pub(crate) fn open(flags: &args::Model) -> Result<Self> {
        start_threads(flags.threads)?;
        Isa::choose(flags.isa.into())?;
        let checkpoint = open_checkpoint(flags.model.as_deref())?;
        let checkpoint = match flags.mask_token {
            Some(id) => checkpoint.with_mask_token(id)?,
            None => checkpoint,
        };
        let checkpoint = match flags.shifted {
            Some(shifted) => checkpoint.with_shift(shifted),
            None => checkpoint,
        };
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

    /// Steps `jobs` together until all are finished; `watch` sees them after each step.
    pub(crate) fn decode(
        &mut self,
        jobs: &mut [Job],
        mut watch: impl FnMut(&Self, &[Job]) -> Result<()>,
    ) -> Result<()> {
        while Job::step(&mut *jobs, self.predictor.as_mut())? {
            watch(self, jobs)?;
        }
        Ok(())
    }
}

/// Says why a GPU that one would expect to be used is not.
fn explain_cpu() {
    if let Err(error @ Error::NoGpu { expected: true, .. }) = describe_gpu() {
        let _ = writeln!(std::io::stderr(), "note: {error}; computing on the CPU");
    }
}

/// Sets how many threads compute: as many as asked, else as usual. A process that has run a command before keeps its threads.
pub(crate) fn start_threads(asked: Option<usize>) -> Result<()> {
    let threads = asked.unwrap_or_else(usual_threads);
    let started = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
    let there = || rayon::current_num_threads();
    let fits = started.is_ok() || asked.is_none() || there() == threads;
    ensure!(fits, "--threads is {threads}, but this process computes with {} threads already", there());
    Ok(())
}

/// The model directory, or the embedded model.
pub(crate) fn open_checkpoint(directory: Option<&Path>) -> Result<Checkpoint> {
    Ok(match directory {
        Some(directory) => Checkpoint::open(directory)?,
        None => Checkpoint::embedded()?,
    })
}
