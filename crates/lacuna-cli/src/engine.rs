//! A model that is ready to decode.

use std::io::Write;
use std::path::Path;

use anyhow::{Result, ensure};
use lacuna::{Replica, Token};
use lacuna_models::{
    Checkpoint, Device, Error, Isa, Job, Model, Precision, Text, default_threads, describe_gpu, load, load_replicas,
};

use crate::args;

/// A loaded model.
pub(crate) struct Engine {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) predictor: Box<dyn Model>,
    /// Replicas of the model on further GPUs.
    pub(crate) others: Vec<Box<dyn Model>>,
    /// The tokens that end a text.
    pub(crate) ends: Vec<Token>,
}

impl Engine {
    /// Loads the model that the flags name, for a command that computes on one device.
    pub(crate) fn open(flags: &args::Model) -> Result<Self> {
        Self::load(flags, |checkpoint, precision, device| Ok(vec![load(checkpoint, precision, device)?]))
    }

    /// Loads the model that the flags name, on all devices that they name.
    pub(crate) fn open_replicas(flags: &args::Model) -> Result<Self> {
        Self::load(flags, load_replicas)
    }

    fn load(
        flags: &args::Model,
        load: impl FnOnce(&Checkpoint, Option<Precision>, &Device) -> lacuna_models::Result<Vec<Box<dyn Model>>>,
    ) -> Result<Self> {
        start_threads(flags.threads)?;
        Isa::choose(flags.isa.into())?;
        let checkpoint = open_as_asked(flags)?;
        let mut others = load(&checkpoint, flags.precision.map(Into::into), &flags.device)?;
        let predictor = others.remove(0);
        if flags.device == Device::Auto && predictor.device().starts_with("cpu") {
            explain_cpu();
        }
        let ends = checkpoint.ends();
        Ok(Self { checkpoint, predictor, others, ends })
    }

    /// The checkpoint, and all replicas of the model.
    pub(crate) fn parts(&mut self) -> (&Checkpoint, Vec<Replica<'_>>) {
        let models = std::iter::once(&mut self.predictor).chain(&mut self.others);
        (&self.checkpoint, models.map(|model| model.as_mut() as Replica<'_>).collect())
    }

    /// The tokenizer and chat template, or why there is none.
    pub(crate) fn text(&self) -> Result<&Text> {
        Ok(self.checkpoint.text()?)
    }
}

/// Steps a job until it is finished; `watch` sees it after each step.
pub(crate) fn decode(job: &mut Job, model: &mut dyn Model, mut watch: impl FnMut(&Job) -> Result<()>) -> Result<()> {
    while Job::step([&mut *job], model)? {
        watch(job)?;
    }
    Ok(())
}

/// Says why a GPU that one would expect to be used is not.
fn explain_cpu() {
    if let Err(error @ Error::NoGpu { expected: true, .. }) = describe_gpu() {
        let _ = writeln!(std::io::stderr(), "note: {error}; computing on the CPU");
    }
}

/// Sets how many threads compute: as many as asked, else as usual. A process that has run a command before keeps its threads.
pub(crate) fn start_threads(asked: Option<usize>) -> Result<()> {
    let threads = asked.unwrap_or_else(default_threads);
    let started = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
    let there = || rayon::current_num_threads();
    let fits = started.is_ok() || asked.is_none() || there() == threads;
    ensure!(fits, "--threads is {threads}, but this process computes with {} threads already", there());
    Ok(())
}

/// The checkpoint that the flags name, without its weights.
pub(crate) fn open_as_asked(flags: &args::Model) -> Result<Checkpoint> {
    let checkpoint = open_checkpoint(flags.model.as_deref())?;
    let checkpoint = match flags.mask_token {
        Some(id) => checkpoint.with_mask_token(id)?,
        None => checkpoint,
    };
    Ok(match flags.shifted {
        Some(shifted) => checkpoint.with_shift(shifted),
        None => checkpoint,
    })
}

/// The model directory, or the embedded model.
pub(crate) fn open_checkpoint(directory: Option<&Path>) -> Result<Checkpoint> {
    Ok(match directory {
        Some(directory) => Checkpoint::open(directory)?,
        None => Checkpoint::embedded()?,
    })
}
