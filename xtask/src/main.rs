//! The project's chores: `cargo xtask doctor|check|lint|test|docs|package|bench`.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

mod dist;
mod docs;
mod doctor;
mod package;

const USAGE: &str = "\
cargo xtask doctor        what is missing on this machine, and how to get it
cargo xtask check         formatting, lints, documentation: what a pull request must pass before its tests
cargo xtask lint          Python, JavaScript and CSS: ruff, mypy, pyright, tsc and prettier, installed into the repository
cargo xtask test [--all]  the tests; with --all also GPU kernels on the emulated GPU, foreign clients, the page in a browser
cargo xtask test --ray    the Python package on Ray clusters of this machine, in lm-evaluation-harness, with pandas and matplotlib
cargo xtask docs          checks the pages and builds the book into target/book
cargo xtask package       packs every crate and checks that the registry would take it
cargo xtask dist          the release for this machine in target/dist: binary, Python wheel and source distribution
cargo xtask bench         milliseconds a step on this machine, for three sizes of model";

/// A command line and the variables that it sees beside the caller's.
struct Step {
    words: Vec<String>,
    variables: Vec<(&'static str, String)>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let steps = match words[..] {
        ["doctor"] => return doctor::run(),
        ["check"] => Ok(check()),
        ["lint"] => Ok(lint()),
        ["test"] => Ok(vec![unit_tests()]),
        ["test", "--all"] => Ok(all_tests()),
        ["test", "--ray"] => Ok(ray_tests()),
        ["docs"] => docs::steps(),
        ["package"] => return finish(package::run_all()),
        ["dist"] => return finish(dist::run_all()),
        ["bench"] => Ok(bench()),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    finish(steps.and_then(|steps| steps.iter().try_for_each(run)))
}

fn finish(outcome: Result<(), String>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn check() -> Vec<Step> {
    vec![
        step("cargo fmt --all --check"),
        step("cargo clippy --workspace --all-targets --locked -- -D warnings"),
        step("cargo check -p lacuna-models --no-default-features --locked"),
        step("cargo check -p lacuna-cli --no-default-features --locked"),
        Step {
            variables: vec![("RUSTDOCFLAGS", "-D warnings".into())],
            ..step("cargo doc --workspace --no-deps --locked --quiet")
        },
    ]
}

fn unit_tests() -> Step {
    step("cargo test --workspace --locked")
}

/// Linters of Python, JavaScript and CSS, in fixed versions.
fn lint() -> Vec<Step> {
    let tools = target().join("lint");
    let tools = tools.display();
    const PAGE: &str = "crates/lacuna-serve/tests/browser";
    vec![
        step(&format!("python3 -m venv {tools}")),
        step(&format!("{tools}/bin/pip install --quiet ruff==0.17.4 mypy==2.4.1 pyright==1.1.414")),
        step(&format!("{tools}/bin/ruff check .")),
        step(&format!("{tools}/bin/ruff format --check .")),
        step(&format!("{tools}/bin/mypy crates/lacuna-py/python")),
        step(&format!("{tools}/bin/pyright")),
        step(&format!("npm ci --silent --no-audit --no-fund --prefix {PAGE}")),
        step(&format!("{PAGE}/node_modules/.bin/tsc --project {PAGE}/tsconfig.json")),
        step(&format!(
            "{PAGE}/node_modules/.bin/prettier --check {PAGE}/*.js crates/lacuna-serve/playground/*.{{js,css}}"
        )),
    ]
}

/// Every build is of the whole workspace: with `-p`, cargo would choose other features and compile the dependencies again.
fn all_tests() -> Vec<Step> {
    let built = target().join("debug");
    let built = built.display();
    vec![
        unit_tests(),
        step("crates/lacuna-models/kernel-check.sh"),
        step(&format!("{built}/examples/figure2")),
        step(&format!("crates/lacuna-models/tests/gguf/run {built}/lacuna")),
        step(&format!("crates/lacuna-serve/tests/clients/run {built}/lacuna 10")),
        step(&format!("crates/lacuna-serve/tests/browser/run {built}/lacuna")),
    ]
}

/// The tests on Ray clusters. They are apart because Ray kills processes that are slow to start on a busy machine.
fn ray_tests() -> Vec<Step> {
    let module = target().join("debug/deps/lib_native.so");
    vec![
        step("cargo test --workspace --locked --no-run"),
        step(&format!("crates/lacuna-py/tests/ray/run {}", module.display())),
    ]
}

fn bench() -> Vec<Step> {
    let shapes = ["mini", "small", "medium"];
    shapes.map(|shape| step(&format!("cargo run --release -- bench --length 256 --shape {shape}"))).into()
}

fn step(line: &str) -> Step {
    Step { words: line.split(' ').map(String::from).collect(), variables: Vec::new() }
}

fn run(step: &Step) -> Result<(), String> {
    let line = step.words.join(" ");
    println!("$ {line}");
    let mut command = Command::new(&step.words[0]);
    command.args(&step.words[1..]).envs(step.variables.iter().cloned()).current_dir(root());
    let status = command.status().map_err(|error| format!("{line}: {error}: see `cargo xtask doctor`"))?;
    if status.success() { Ok(()) } else { Err(format!("{line}: {status}")) }
}

/// The repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the repository")
}

/// The folder that cargo builds into.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |path| root().join(path))
}
