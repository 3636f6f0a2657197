//! `lacuna quantize`: a model in fewer bits.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use lacuna_models::{Checkpoint, Precision};

use super::{bytes, print};
use crate::args::parse_count;
use crate::engine::{open_checkpoint, start_threads};

#[derive(Args)]
pub(crate) struct Quantize {
    /// A model directory as on Hugging Face (config.json, safetensors, tokenizer), or a GGUF file [default: the embedded model]
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// The directory to write, which must not exist
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The precision to store
    #[arg(long, value_enum, default_value_t = Stored::Int4)]
    precision: Stored,
    /// Number of threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    threads: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Stored {
    Int4,
    Int8,
}

pub(crate) fn quantize(args: &Quantize) -> Result<()> {
    start_threads(args.threads)?;
    let checkpoint = open_checkpoint(args.model.as_deref())?;
    let precision = match args.precision {
        Stored::Int4 => Precision::Int4,
        Stored::Int8 => Precision::Int8,
    };
    checkpoint.quantize(precision, &args.out)?;
    let written = Checkpoint::open(&args.out)?;
    let (before, after) = (bytes(checkpoint.bytes()), bytes(written.bytes()));
    print(&format!("{}: {after} in {}, {before} before", args.out.display(), precision.name()))
}
