//! Running the real binary.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of this")]

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The tiny checkpoints and their goldens.
pub fn data(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../lacuna-models/tests/data").join(path)
}

/// Runs `lacuna` with these arguments and this standard input.
pub fn lacuna_with(args: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_lacuna"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// Runs `lacuna` with these arguments and no input.
pub fn lacuna(args: &[&str]) -> Output {
    lacuna_with(args, "")
}

/// Output of a successful run.
pub fn stdout(output: Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// The objects that a successful run prints, one a line.
pub fn objects(output: Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The one line that a failing run says on standard error.
pub fn complaint(output: Output) -> String {
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "it should have failed");
    assert!(output.stdout.is_empty(), "nothing is printed when something is wrong");
    assert!(!errors.contains("panicked"), "{errors}");
    errors.lines().next().unwrap_or_default().to_string()
}
