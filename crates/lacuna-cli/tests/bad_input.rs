//! Whatever is wrong gets one clear line that says what, where and what to do, and nothing is printed.

mod common;

use std::fs;
use std::path::Path;

use common::{complaint, data, lacuna, lacuna_with};
use tempfile::TempDir;

/// A copy of the tiny LLaDA checkpoint (or its sharded twin) to be damaged.
fn copy_of(model: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in fs::read_dir(data(model)).unwrap() {
        let path = file.unwrap().path();
        fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    folder
}

/// Error of `generate` about a model directory.
fn complaint_about(model: &Path) -> String {
    complaint(lacuna(&["generate", "--model", model.to_str().unwrap(), "--prompt-tokens", "1,2", "--gen-length", "4"]))
}

#[test]
fn requests() {
    let tiny = data("llada-tiny").display().to_string();
    let dream = data("dream-tiny").display().to_string();
    let long = vec!["7"; 4000].join(",");
    let cases: [(&[&str], &str); 30] = [
        (&["--prompt-tokens", "1,512"], "token 512 at position 1 is out of range: the vocabulary has ids 0 to 511"),
        (&["--prompt-tokens", ""], "the prompt is empty"),
        (
            &["--prompt-tokens", "1,511"],
            "the prompt has the mask token at position 1: only a text with gaps may have masks",
        ),
        (&["--prompt-tokens", "1,x"], "'x' is not a token id"),
        (
            &["--prompt-tokens", "1", "--gen-length", "0"],
            "--gen-length is 0, but it must be a whole number from 1 to 16777216",
        ),
        (&["--prompt-tokens", "1", "--block-length", "0"], "--block-length is 0, but it must be a whole number from 1"),
        (
            &["--prompt-tokens", "1", "--gen-length", "16", "--block-length", "5"],
            "it must divide the generation length, 16",
        ),
        (
            &["--prompt-tokens", "1", "--strategy", "dos", "--layer", "4"],
            "layer 4 does not exist: the model has layers 0 to 3",
        ),
        (
            &["--prompt-tokens", "1", "--strategy", "dos", "--layer", "x"],
            "--layer is x, but it must be a layer such as 4",
        ),
        (&["--prompt-tokens", "1", "--strategy", "dos", "--layer", "3-1"], "--layer is 3-1, but it must be a layer"),
        (
            &["--prompt-tokens", "1", "--strategy", "dos", "--heads", "4"],
            "head 4 does not exist: every layer has heads 0 to 3",
        ),
        (
            &["--prompt-tokens", &long, "--gen-length", "128"],
            "the canvas has 4128 positions, but the model's context ends at 4096",
        ),
        (&["--prompt-tokens", "1", "--strategy", "confidance"], "did you mean 'confidence'?"),
        (&["--prompt-tokens", "1", "--strategy", "dos+fast"], "unknown strategy 'fast'"),
        (&["--prompt-tokens", "1", "--strategy", "eb"], "write <order>+eb"),
        (&["--prompt-tokens", "1", "--strategy", "dos+score-threshold"], "'score-threshold' needs --threshold"),
        (
            &["--prompt-tokens", "1", "--strategy", "random+score-threshold", "--threshold", "1"],
            "says nothing that a threshold could test",
        ),
        (&["--prompt-tokens", "1", "--strategy", "dos+eb", "--gamma", "-1"], "--gamma is -1, but it must be 0 or more"),
        (
            &[
                "--prompt-tokens",
                "1",
                "--strategy",
                "llada",
                "--gen-length",
                "16",
                "--block-length",
                "4",
                "--steps",
                "6",
            ],
            "--steps is 6, but it must be a multiple of the number of blocks, 4",
        ),
        (&["--prompt-tokens", "1", "--strategy", "llada", "--steps", "0"], "--steps is 0"),
        (&["--prompt-tokens", "1", "--temperature", "-1"], "--temperature is -1, but it must be 0 or more"),
        (&["--prompt-tokens", "1", "--top-p", "0"], "--top-p is 0"),
        (&["--prompt-tokens", "1", "--threads", "0"], "it must be a whole number from 1 to 256"),
        (&["--prompt-tokens", "1", "--mask-token", "x"], "it must be a whole number from 0 to 4294967295"),
        (&["--prompt-tokens", "1", "--precision", "int3"], "invalid value 'int3'"),
        (
            &["--prompt-tokens", "1", "--precision", "fp8", "--device", "cpu"],
            "fp8 needs an NVIDIA Hopper GPU (H100, H200), but the CPU was asked for: use --precision bf16",
        ),
        (&["a text"], "tokenizer.json"),
        (&["--jsonl", "nowhere.jsonl"], "cannot read nowhere.jsonl"),
        (&["--jsonl", "-"], "- has no prompts"),
        (&[], "the prompt is empty"),
    ];
    for (arguments, expected) in cases {
        let line = complaint(lacuna(&[&["generate", "--model", &tiny], arguments].concat()));
        assert!(line.starts_with("error: ") && line.contains(expected), "{arguments:?}: {line}");
    }
    let line = complaint(lacuna(&["generate", "--model", &dream, "--prompt-tokens", "1", "--strategy", "wino"]));
    assert!(line.contains("this model predicts a position from the one before it"), "{line}");
}

#[test]
fn lines_of_a_prompt_file() {
    let tiny = data("llada-tiny").display().to_string();
    let good = r#"{"prompt_tokens": [1, 2]}"#;
    for (line, expected) in [
        ("{", "- line 2: not a prompt object"),
        (r#"{"promt": "x"}"#, "- line 2: a prompt object has exactly one of"),
        (r#"{"prompt_tokens": [1], "nfe": 3}"#, "- line 2: its column \"nfe\" is one that the output has, too"),
        (r#"{"id": 3}"#, "exactly one of"),
        (r#"{"prompt_tokens": [1, 600]}"#, "- line 2: token 600 at position 1 is out of range"),
    ] {
        let arguments = ["generate", "--model", &tiny, "--gen-length", "4", "--jsonl", "-", "--format", "json"];
        let complaint = complaint(lacuna_with(&arguments, &format!("{good}\n{line}\n")));
        assert!(complaint.contains(expected), "{line}: {complaint}");
    }
}

#[test]
fn probes_and_gaps() {
    let tiny = data("llada-tiny").display().to_string();
    let cases: [(&[&str], &str); 4] = [
        (&["probe", "--tokens", ""], "there is nothing to probe"),
        (&["probe", "--tokens", "9,600"], "token 600 at position 1 is out of range"),
        (&["fill", "--tokens", "1,2,3"], "write each gap as the mask token, 511"),
        (&["fill", "--tokens", "1,511,600"], "token 600 at position 2 is out of range"),
    ];
    for (arguments, expected) in cases {
        let line = complaint(lacuna(&[arguments, &["--model", &tiny]].concat()));
        assert!(line.contains(expected), "{arguments:?}: {line}");
    }
    for text in ["a <gap:0> b", "a <gap:x> b", "a <gap:3", "no gap at all"] {
        let line = complaint(lacuna(&["fill", text]));
        assert!(line.contains("<gap:N>"), "{text}: {line}");
    }
    let cases: [(&[&str], &str); 12] = [
        (&["fill", "a <draft>b"], "a draft does not end"),
        (&["fill", "a</draft> b"], "no draft has begun"),
        (&["fill", "<draft>a <gap> b</draft>"], "a draft has no gaps in it"),
        (&["fill", "a <gap> b <gap>"], "goes with no other gap"),
        (&["fill", "a <gap:2> b", "--max-gap", "3"], "--max-gap has no effect"),
        (&["fill", "a <gap> b", "--max-gap", "0"], "from 1 to 128"),
        (&["fill", "a <gap> b", "--regex", "[0-9]{30}"], "--max-gap is 16, but it must be at least 30"),
        (&["fill", "a <gap> b <gap> c", "--regex", "[0-9]+"], "one gap of unknown length"),
        (&["revise", ""], "the text is empty"),
        (&["revise", "abc", "--strategy", "dos+eb"], "only a revision reopens a draft"),
        (&["revise", "abc", "--regex", "[0-9]+"], "the draft does not meet the constraint"),
        (&["generate", "abc", "--gen-length", "2", "--draft", "24 - 9 = 13"], "the tokens of the draft"),
    ];
    for (arguments, expected) in cases {
        let line = complaint(lacuna(arguments));
        assert!(line.contains(expected), "{arguments:?}: {line}");
    }
}

#[test]
fn recorded_runs() {
    for (text, expected) in [
        ("", "holds no recorded run"),
        ("{}", "line 1: not a recorded run"),
        (
            r#"{"text":"","tokens":[7],"nfe":1,"rows_read":1,"steps":[{"block":0,"unmasked":[[0,7]],"remasked":[]}],"strategy":"dos","prompt_tokens":1,"seconds":1,"tokens_per_second":1,"canvas":[6,5],"mask_token":5}"#,
            "step 0 changes a position that is not a gap",
        ),
        (
            r#"{"text":"","tokens":[8],"nfe":1,"rows_read":1,"steps":[{"block":0,"unmasked":[[1,7]],"remasked":[]}],"strategy":"dos","prompt_tokens":1,"seconds":1,"tokens_per_second":1,"canvas":[6,5],"mask_token":5}"#,
            "the steps do not lead to the recorded tokens",
        ),
    ] {
        let line = complaint(lacuna_with(&["replay", "-"], text));
        assert!(line.contains(expected), "{line}");
    }
}

#[test]
fn damaged_models() {
    assert!(complaint_about(Path::new("nowhere")).contains("nowhere"));

    let folder = copy_of("llada-tiny");
    fs::remove_file(folder.path().join("config.json")).unwrap();
    assert!(complaint_about(folder.path()).contains("config.json"));

    let folder = copy_of("llada-tiny");
    fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    assert!(complaint_about(folder.path()).contains("safetensors"));

    let folder = copy_of("llada-tiny");
    let weights = folder.path().join("model.safetensors");
    let bytes = fs::read(&weights).unwrap();
    fs::write(&weights, &bytes[..bytes.len() / 2]).unwrap();
    assert!(complaint_about(folder.path()).contains("model.safetensors"));

    let mut poisoned = bytes.clone();
    let end = poisoned.len();
    poisoned[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(&weights, &poisoned).unwrap();
    let line = complaint_about(folder.path());
    assert!(line.contains("NaN") || line.contains("not finite"), "{line}");

    let folder = copy_of("llada-tiny");
    let config = folder.path().join("config.json");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("\"d_model\": 64", "\"d_model\": 32")).unwrap();
    let line = complaint_about(folder.path());
    assert!(line.contains("shape") && line.contains("model.transformer"), "{line}");

    let foreign = text
        .replace("\"model_type\": \"llada\"", "\"model_type\": \"gpt2\"")
        .replace("LLaDAModelLM", "GPT2LMHeadModel");
    fs::write(&config, foreign).unwrap();
    assert!(complaint_about(folder.path()).contains("'gpt2' is not supported"));

    let folder = copy_of("llada-tiny-sharded");
    fs::remove_file(folder.path().join("model-00002-of-00003.safetensors")).unwrap();
    assert!(complaint_about(folder.path()).contains("model-00002-of-00003.safetensors"));
}
