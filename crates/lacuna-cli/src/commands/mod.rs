//! The commands.

mod bench;
mod compare;
mod diff;
mod eval;
mod fill;
mod generate;
mod grade;
mod inspect;
mod probe;
mod quantize;
mod replay;
mod report;
mod revise;
mod score;
#[cfg(feature = "serve")]
mod serve;
mod strategies;
mod tune;

pub(crate) use bench::{Bench, bench};
pub(crate) use compare::{Compare, compare};
pub(crate) use diff::{Diff, diff};
pub use eval::{CheckpointCodec, Measurement, Subject, describe_model, measure};
pub(crate) use eval::{Eval, check_eval, eval};
pub(crate) use fill::{Fill, fill};
pub(crate) use generate::{Generate, generate};
pub(crate) use grade::{Grade, grade};
pub(crate) use inspect::{Inspect, inspect};
pub(crate) use probe::{Probe, probe};
pub(crate) use quantize::{Quantize, quantize};
pub(crate) use replay::{Replay, replay};
pub(crate) use report::{Report, report};
pub(crate) use revise::{Revise, revise};
pub(crate) use score::{Score, score};
#[cfg(feature = "serve")]
pub(crate) use serve::{Serve, check_serve, serve};
pub(crate) use strategies::strategies;
pub(crate) use tune::{Tune, tune};

use std::io::{Read, Write, stdout};
use std::path::Path;

use anyhow::{Context, Result};

/// Prints one line; unlike `println!`, a closed pipe is an error that can be handled.
pub(crate) fn print(line: &str) -> Result<()> {
    writeln!(stdout(), "{line}")?;
    Ok(())
}

/// The text itself, or what standard input holds if it is '-'.
fn text_or_stdin(text: &str) -> Result<String> {
    if text != "-" {
        return Ok(text.into());
    }
    let mut text = read(Path::new("-"))?;
    // `echo` ends its line; the prompt does not.
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}

/// A number of bytes, for people to read.
pub(crate) fn bytes(count: usize) -> String {
    match count as f64 {
        count if count >= 1e9 => format!("{:.1} GB", count / 1e9),
        count if count >= 1e6 => format!("{:.1} MB", count / 1e6),
        count => format!("{:.0} kB", count / 1e3),
    }
}

/// A file's text, or standard input's for '-'.
fn read(path: &Path) -> Result<String> {
    let mut text = String::new();
    if path == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
    } else {
        text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    }
    Ok(text)
}
