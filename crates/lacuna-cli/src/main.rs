//! The lacuna command line: watch text come out of noise.

mod args;
mod commands;
mod engine;
mod record;
mod render;
mod show;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Generate(args) => commands::generate(&args),
        Command::Fill(args) => commands::fill(&args),
        Command::Compare(args) => commands::compare(&args),
        Command::Replay(args) => commands::replay(&args),
        Command::Probe(args) => commands::probe(&args),
        Command::Inspect(args) => commands::inspect(&args),
        Command::Strategies => commands::strategies(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads our output has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |cause: &std::io::Error| cause.kind() == ErrorKind::BrokenPipe;
    error.chain().filter_map(|cause| cause.downcast_ref()).any(broken)
}
