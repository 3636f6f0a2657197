//! Runs the Python tests on the module that was built with this one.

use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use lacuna::decode;
use lacuna_models::{Checkpoint, CpuPredictor, Precision, Request};
use serde_json::json;

const PROMPT: &str = "Sara has 24 pens and gives 9 away. How many are left?";

#[test]
fn python_tests_pass() {
    let Some(python) = python() else {
        // Written past the test harness, which keeps to itself what a passing test prints.
        let _ = writeln!(stderr(), "SKIPPED: there is no python3 of version 3.11 or later; set PYTHON to one");
        return;
    };
    let place = tempfile::tempdir().unwrap();
    lay_out(place.path());
    fs::write(place.path().join("expected.json"), expected()).unwrap();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(python)
        .args(["-B", "-W", "error", "-m", "unittest", "discover", "--start-directory"])
        .arg(here.join("tests"))
        .env("PYTHONPATH", place.path())
        .env("LACUNA_EXPECTED", place.path().join("expected.json"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
}

/// A Python that can load the module.
fn python() -> Option<String> {
    let python = env::var("PYTHON").unwrap_or_else(|_| "python3".into());
    let recent = "import sys; sys.exit(sys.version_info < (3, 11))";
    Command::new(&python).args(["-c", recent]).status().is_ok_and(|status| status.success()).then_some(python)
}

/// The package as it would be installed.
fn lay_out(place: &Path) {
    let package = place.join("lacunalm");
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("python/lacunalm"), &package);
    let extension = if cfg!(windows) { "pyd" } else { "so" };
    fs::copy(built(), package.join("_native").with_extension(extension)).unwrap();
}

/// Copies the Python files of a folder.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("py" | "pyi" | "typed") => drop(fs::copy(path, target).unwrap()),
            None if path.is_dir() && entry.file_name() != "__pycache__" => copy(&path, &target),
            _ => {}
        }
    }
}

/// The module itself, which cargo puts beside the tests that depend on it.
fn built() -> PathBuf {
    let tests = env::current_exe().unwrap();
    let name = format!("{}_native{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
    tests.parent().unwrap().join(name)
}

/// Output of the engine in Rust.
fn expected() -> String {
    let checkpoint = Checkpoint::embedded().unwrap();
    let mut model = CpuPredictor::load(&checkpoint, Some(Precision::F32)).unwrap();
    let prompt = checkpoint.text().unwrap().chat(&[("user", PROMPT)]).unwrap();
    let mut runs = Vec::new();
    for strategy in ["dos+eb", "confidence+top4", "klass", "random+top8"] {
        let request = Request::default().with("strategy", strategy).unwrap().with("gen_length", 64usize).unwrap();
        let run = request.plan(&checkpoint).unwrap().answer(&prompt, lacuna::Predictor::description(&model)).unwrap();
        let mut run = [run];
        decode(&mut run, &mut model).unwrap();
        runs.push(json!({
            "strategy": strategy,
            "canvas": run[0].canvas().tokens(),
            "nfe": run[0].forwards(),
            "rows_read": run[0].rows_read(),
        }));
    }
    json!({"prompt": PROMPT, "prompt_tokens": prompt, "runs": runs}).to_string()
}
