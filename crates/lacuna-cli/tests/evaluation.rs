//! Measuring with the real binary: runs that are killed and resumed, recorded answers, reports.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{complaint, lacuna, objects, stdout};
use serde_json::Value;

const TASK: [&str; 8] = ["eval", "words", "--strategy", "dos+eb,random", "--gen-length", "64", "--limit", "4"];

fn benchmarks() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../lacuna-eval/tests/data")
}

/// The results in a folder, without the figures that depend on the clock.
fn results(folder: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("results.json")).unwrap();
    let mut results: Vec<Value> = serde_json::from_str(&text).unwrap();
    for result in &mut results {
        let fields = result.as_object_mut().unwrap();
        fields.retain(|name, _| !name.contains("second"));
    }
    results
}

/// Number of samples in a folder.
fn samples(folder: &Path) -> usize {
    let Ok(files) = std::fs::read_dir(folder.join("samples")) else { return 0 };
    files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap().matches('\n').count()).sum()
}

#[test]
fn a_report_says_that_a_cache_approximates_and_another_cache_is_another_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let task = ["eval", "words", "--strategy", "dos+eb", "--block-length", "32", "--limit", "1", "--out"];
    let out = folder.path().to_str().unwrap();
    let printed = stdout(lacuna(&[&task[..], &[out, "--cache", "dual"]].concat()));
    assert!(printed.contains("dos+eb (layer 0, dual cache)"), "{printed}");
    let refused = complaint(lacuna(&[&task[..], &[out, "--cache", "prefix"]].concat()));
    assert!(refused.contains("another configuration"), "{refused}");
}

#[test]
fn a_part_of_a_suite_is_measured_on_problems_of_ones_own() {
    let folder = tempfile::tempdir().unwrap();
    let [data, out] = ["data", "out"].map(|name| folder.path().join(name));
    std::fs::create_dir(&data).unwrap();
    let problems = include_str!("../../../models/mini/words.jsonl").lines().skip(7).take(1);
    std::fs::write(data.join("words.jsonl"), problems.collect::<String>()).unwrap();
    let part = ["eval", "words", "--suite", "strategies", "--strategy", "dos+localleap,random+prophet"];
    let places = ["--data", data.to_str().unwrap(), "--out", out.to_str().unwrap()];
    stdout(lacuna(&[&part[..], &places].concat()));
    let measured: Vec<(String, String, u64)> = results(&out)
        .iter()
        .map(|result| {
            let text = |name: &str| result[name].as_str().unwrap().to_string();
            (text("task"), text("strategy"), result["n"].as_u64().unwrap())
        })
        .collect();
    let row = |strategy: &str| ("words".to_string(), strategy.to_string(), 1);
    assert_eq!(measured, [row("dos+localleap"), row("dos+localleap"), row("random+prophet")]);
}

#[test]
fn a_killed_run_resumes_to_the_same_results() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, killed) = (folder.path().join("whole"), folder.path().join("killed"));
    stdout(lacuna(&[&TASK[..], &["--out", whole.to_str().unwrap()]].concat()));
    let expected = results(&whole);
    assert_eq!(expected.len(), 2);
    for field in ["task", "model", "strategy", "layer", "gen_length", "block_length", "n", "correct", "accuracy", "nfe"]
    {
        assert!(expected[0].get(field).is_some(), "{field} is missing from {}", expected[0]);
    }

    let resume = [&TASK[..], &["--batch", "1", "--out", killed.to_str().unwrap()]].concat();
    let mut child = Command::new(env!("CARGO_BIN_EXE_lacuna"))
        .args(&resume)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while samples(&killed) < 2 && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let kept = samples(&killed);
    assert!((2..8).contains(&kept), "{kept} samples were kept");
    let report = |folder: &Path| stdout(lacuna(&["report", folder.to_str().unwrap()]));
    let partial = report(&killed);
    assert!(partial.contains(&format!("**Unfinished: {kept} of 8 answers are there.**")), "{partial}");
    stdout(lacuna(&resume));
    assert_eq!(results(&killed), expected);
    assert!(!report(&killed).contains("Unfinished"));

    let other = complaint(lacuna(&["eval", "code", "--limit", "1", "--out", killed.to_str().unwrap()]));
    assert!(other.contains("configuration"), "{other}");
    let report =
        stdout(lacuna(&["report", whole.to_str().unwrap(), "--out", folder.path().join("report").to_str().unwrap()]));
    assert!(report.contains("dos+eb"), "{report}");
    assert!(folder.path().join("report/report.md").exists());
}

#[test]
fn recorded_answers_are_graded() {
    let folder = tempfile::tempdir().unwrap();
    let answers = folder.path().join("answers.jsonl");
    let data = std::fs::read_to_string(benchmarks().join("gsm8k_test.jsonl")).unwrap();
    let gold: Vec<Value> = data.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let lines: Vec<String> = gold
        .iter()
        .enumerate()
        .map(|(id, problem)| {
            let answer = if id == 1 { "#### 123456789".into() } else { problem["answer"].clone() };
            serde_json::json!({"id": id, "answer": answer}).to_string()
        })
        .collect();
    std::fs::write(&answers, lines.join("\n")).unwrap();
    let (data, answers) = (benchmarks(), answers.display().to_string());
    let printed = objects(lacuna(&["grade", "gsm8k", "--data", data.to_str().unwrap(), "--answers", &answers]));
    assert_eq!(printed.len(), gold.len() + 1, "one line each and a summary");
    for (id, line) in printed[..gold.len()].iter().enumerate() {
        assert_eq!(line["correct"], id != 1, "{line}");
    }
}

#[test]
fn what_cannot_be_measured_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results").display().to_string();
    let cases: [(&[&str], &str); 8] = [
        (&["eval", "gsm9k"], "gsm9k"),
        (&["eval", "gsm8k", "--suite", "strategies"], "the suite has no task 'gsm8k'"),
        (
            &["eval", "words", "--suite", "strategies", "--strategy", "dos+eb,llada"],
            "the suite has no strategy 'llada'",
        ),
        (&["eval", "--suite", "strategies", "--gamma", "1"], "leave out --gamma"),
        (&["eval", "gsm8k", "--data", "nowhere"], "nowhere"),
        (&["eval", "words", "--strategy", "dso"], "did you mean 'dos'?"),
        (&["eval", "words", "--strategy", "dos", "--layer", "9"], "layer 9 does not exist"),
        (&["eval", "--suite", "nothing"], "nothing"),
    ];
    for (arguments, expected) in cases {
        let line = complaint(lacuna(&[arguments, &["--out", &out]].concat()));
        assert!(line.starts_with("error: ") && line.contains(expected), "{arguments:?}: {line}");
        assert!(!Path::new(&out).exists(), "{arguments:?} left something behind");
    }
}

#[test]
fn shards_of_which_one_was_stopped_make_an_unfinished_report() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second, out] = ["1", "2", "report"].map(|name| folder.path().join(name).display().to_string());
    for (shard, out) in [("1/2", &first), ("2/2", &second)] {
        stdout(lacuna(&[&TASK[..], &["--shard", shard, "--out", out]].concat()));
    }
    let samples = std::fs::read_dir(Path::new(&second).join("samples")).unwrap();
    for file in samples.map(|file| file.unwrap().path()) {
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, &text[..=text.find('\n').unwrap()]).unwrap();
    }
    let printed = stdout(lacuna(&["report", &first, &second, "--out", &out, "--format", "json"]));
    let report: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(
        report["unfinished"],
        serde_json::json!({"answers": 6, "of": 8, "whole": 0, "partial": 2, "missing": 0})
    );
    let page = std::fs::read_to_string(Path::new(&out).join("report.md")).unwrap();
    assert!(page.contains("**Unfinished: 6 of 8 answers are there.**"), "{page}");
    assert_eq!(page.matches("| 3 of 4 |").count(), 2, "{page}");
    let alone = complaint(lacuna(&["report", &first]));
    assert!(alone.contains("shard 2/2 is missing"), "{alone}");
}
