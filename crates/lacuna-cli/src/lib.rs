//! The lacuna command line, as a library: the `lacuna` binary and the Python package run it.

mod args;
mod commands;
mod engine;
mod picture;
mod render;
mod show;

use std::ffi::OsString;
use std::io::{ErrorKind, Write};

use clap::Parser;
use lacuna_models::Advice;

use args::{Cli, Command};

pub use commands::{CheckpointCodec, Measurement, Subject, describe_model, measure};

/// Runs the command line with these arguments, the first of which is the program's name. Returns the exit status.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help goes to standard output, complaints to standard error.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(2);
        }
    };
    let result = match cli.command {
        Command::Generate(args) => commands::generate(&args),
        Command::Fill(args) => commands::fill(&args),
        Command::Revise(args) => commands::revise(&args),
        Command::Compare(args) => commands::compare(&args),
        Command::Replay(args) => commands::replay(&args),
        Command::Diff(args) => commands::diff(&args),
        Command::Probe(args) => commands::probe(&args),
        Command::Score(args) => commands::score(&args),
        Command::Inspect(args) => commands::inspect(&args),
        Command::Quantize(args) => commands::quantize(&args),
        Command::Bench(args) => commands::bench(&args),
        Command::Eval(args) => commands::eval(&args),
        Command::Grade(args) => commands::grade(&args),
        Command::Report(args) => commands::report(&args),
        Command::Tune(args) => commands::tune(&args),
        #[cfg(feature = "serve")]
        Command::Serve(args) => commands::serve(&args),
        Command::Strategies => commands::strategies(),
    };
    match result {
        Ok(()) => 0,
        // Whoever reads our output has seen enough.
        Err(error) if is_broken_pipe(&error) => 0,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {}", told(&error));
            1
        }
    }
}

/// Says what is wrong with arguments of `eval` or `serve`, the first of which is the program's name, without loading the model. If
/// they are for another machine (`elsewhere`), files that are not on this one are not missed.
pub fn check(arguments: impl IntoIterator<Item = OsString>, elsewhere: bool) -> Result<(), String> {
    let checked = match Cli::try_parse_from(arguments).map_err(|error| one_line(&error))?.command {
        Command::Eval(args) => commands::check_eval(&args),
        #[cfg(feature = "serve")]
        Command::Serve(args) => commands::check_serve(&args),
        _ => Ok(()),
    };
    match checked {
        Err(error) if elsewhere && error.chain().any(is_absence) => Ok(()),
        checked => checked.map_err(|error| told(&error)),
    }
}

/// A complaint about arguments, without the usage.
fn one_line(error: &clap::Error) -> String {
    if !error.use_stderr() {
        return "--help and --version are for the command line: leave them out".to_string();
    }
    let text = error.render().to_string();
    let lines =
        text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    lines.join("; ").trim_start_matches("error: ").to_string()
}

fn is_absence(cause: &(dyn std::error::Error + 'static)) -> bool {
    let of_model = cause.downcast_ref().is_some_and(lacuna_models::Error::is_absence);
    of_model || cause.downcast_ref().is_some_and(|error: &std::io::Error| error.kind() == ErrorKind::NotFound)
}

/// The message of an error with its causes.
fn told(error: &anyhow::Error) -> String {
    let mut causes: Vec<String> = error.chain().map(describe).collect();
    // Many errors quote their cause already.
    causes.dedup_by(|cause, before| before.ends_with(cause.as_str()));
    causes.join(": ")
}

/// The message of an error, with parameters named as flags.
fn describe(cause: &(dyn std::error::Error + 'static)) -> String {
    let flag = |advice: &Advice| {
        let value = advice.value.as_ref().map(|value| format!(" {value}")).unwrap_or_default();
        format!("--{}{value}", advice.parameter.replace('_', "-"))
    };
    let inner = match cause.downcast_ref() {
        Some(lacuna::Error::Predictor(inner)) => inner.downcast_ref::<lacuna_models::Error>(),
        _ => cause.downcast_ref(),
    };
    if let Some(error) = inner {
        return error.worded(flag);
    }
    match cause.downcast_ref::<lacuna::Error>() {
        Some(error) => error.worded(&|name| format!("--{}", name.replace('_', "-"))),
        None => cause.to_string(),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |cause: &std::io::Error| cause.kind() == ErrorKind::BrokenPipe;
    error.chain().filter_map(|cause| cause.downcast_ref()).any(broken)
}
