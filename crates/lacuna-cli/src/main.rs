//! The `lacuna` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(lacuna_cli::run(std::env::args_os()))
}
