//! The lacuna command line: watch text come out of noise.

mod args;
mod commands;
mod engine;
mod picture;
mod render;
mod show;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use clap::Parser;
use lacuna_models::Advice;

use args::{Cli, Command};

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Generate(args) => commands::generate(&args),
        Command::Fill(args) => commands::fill(&args),
        Command::Compare(args) => commands::compare(&args),
        Command::Replay(args) => commands::replay(&args),
        Command::Probe(args) => commands::probe(&args),
        Command::Inspect(args) => commands::inspect(&args),
        Command::Bench(args) => commands::bench(&args),
        Command::Eval(args) => commands::eval(&args),
        Command::Grade(args) => commands::grade(&args),
        Command::Report(args) => commands::report(&args),
        Command::Tune(args) => commands::tune(&args),
        Command::Serve(args) => commands::serve(&args),
        Command::Strategies => commands::strategies(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads our output has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let mut causes: Vec<String> = error.chain().map(say).collect();
            // Many errors quote their cause already.
            causes.dedup_by(|cause, before| before.ends_with(cause.as_str()));
            let _ = writeln!(std::io::stderr(), "error: {}", causes.join(": "));
            ExitCode::FAILURE
        }
    }
}

/// The message of a cause, with parameters named as the flags that set them.
fn say(cause: &(dyn std::error::Error + 'static)) -> String {
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
    match cause.downcast_ref() {
        Some(lacuna::Error::Parameter { name, .. }) => {
            cause.to_string().replacen(name, &format!("--{}", name.replace('_', "-")), 1)
        }
        _ => cause.to_string(),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |cause: &std::io::Error| cause.kind() == ErrorKind::BrokenPipe;
    error.chain().filter_map(|cause| cause.downcast_ref()).any(broken)
}
