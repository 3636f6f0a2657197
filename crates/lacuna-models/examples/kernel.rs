//! Runs kernels alone: each is checked against a scalar twin on odd sizes, then timed.
//!
//! ```sh
//! cargo run --release -p lacuna-models --example kernel -- rms_norm      # on the CPU and on the GPU
//! cargo run --release -p lacuna-models --example kernel -- cuda/project  # on one of them
//! cargo run --release -p lacuna-models --example kernel -- all
//! cargo run --release -p lacuna-models --example kernel -- list
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line")]

use std::process::ExitCode;

use lacuna_models::check::{Report, Timing, names, run};
use lacuna_models::{Error, describe_gpu};

fn main() -> ExitCode {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let is_asked = |(device, name): &(&str, &str)| {
        asked.iter().any(|asked| asked == "all" || asked == name || *asked == format!("{device}/{name}"))
    };
    if asked == ["list"] {
        names().iter().for_each(|(device, name)| println!("{device}/{name}"));
        return ExitCode::SUCCESS;
    }
    let chosen: Vec<_> = names().into_iter().filter(is_asked).collect();
    if chosen.is_empty() {
        eprintln!("name kernels, as `list` shows them, or say `all`");
        return ExitCode::FAILURE;
    }
    let gpu = describe_gpu();
    match &gpu {
        Ok(gpu) if gpu.starts_with("emulated") => println!("{gpu}: its kernels are checked, but not timed"),
        Ok(gpu) => println!("{gpu}"),
        Err(error) => println!("no GPU, so kernels of the GPU are not run: {error}"),
    }
    println!(
        "{:<26} {:<5} {:>9} {:>9} {:>12} {:>9} {:>9}",
        "kernel", "dtype", "error", "allowed", "median", "GB/s", "GFLOP/s"
    );
    let mut failed = false;
    for (device, name) in chosen {
        if device == "cuda" && gpu.is_err() {
            continue;
        }
        match run(device, name, true) {
            Ok(reports) => {
                reports.iter().for_each(print);
                failed |= reports.iter().any(|report| !report.passed());
            }
            Err(error @ Error::NoFp8 { .. }) => println!("{:<26} skipped: {error}", format!("{device}/{name}")),
            Err(error) => {
                println!("{:<26} {error}", format!("{device}/{name}"));
                failed = true;
            }
        }
    }
    ExitCode::from(u8::from(failed))
}

fn print(report: &Report) {
    let Report { device, name, variant, error, tolerance, timing } = report;
    let verdict = if report.passed() { "" } else { "  WRONG" };
    let timing = timing.map_or_else(String::new, |Timing { seconds, bytes, operations }| {
        format!("{:>9.1} us {:>9.0} {:>9.0}", seconds * 1e6, bytes / seconds * 1e-9, operations / seconds * 1e-9)
    });
    println!("{:<26} {variant:<5} {error:>9.1e} {tolerance:>9.1e} {timing}{verdict}", format!("{device}/{name}"));
}
