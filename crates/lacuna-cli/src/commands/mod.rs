//! What each command does.

mod compare;
mod fill;
mod generate;
mod inspect;
mod probe;
mod replay;
mod strategies;

pub(crate) use compare::compare;
pub(crate) use fill::fill;
pub(crate) use generate::generate;
pub(crate) use inspect::inspect;
pub(crate) use probe::probe;
pub(crate) use replay::replay;
pub(crate) use strategies::strategies;

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
    if text == "-" { read(Path::new("-")) } else { Ok(text.into()) }
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
