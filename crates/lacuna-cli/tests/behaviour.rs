//! The binary and the embedded model, used as a user would.

mod common;

use common::{complaint, data, lacuna, lacuna_with, objects, stdout};
use serde_json::Value;

const QUESTION: &str = "Tom has 3 boxes with 12 apples each. He eats 5 apples. How many apples are left?";

#[test]
fn a_prompt_is_answered_by_the_embedded_model() {
    let answer = stdout(lacuna(&["generate", QUESTION]));
    assert!(answer.contains("####"), "{answer}");
    assert!(!answer.contains("<|"), "special tokens are not part of the text: {answer}");
}

#[test]
fn prompts_come_as_arguments_from_standard_input_and_from_files() {
    let short = ["--gen-length", "32", "--format", "json"];
    let text = |object: &Value| object["text"].as_str().unwrap().to_string();
    let expected = text(&objects(lacuna(&[&["generate", QUESTION], &short[..]].concat()))[0]);
    for arguments in [vec!["generate"], vec!["generate", "-"], vec!["generate", "--prompt", "-"]] {
        let piped = objects(lacuna_with(&[&arguments[..], &short].concat(), QUESTION));
        assert_eq!(text(&piped[0]), expected, "{arguments:?}");
    }
    let messages = serde_json::json!({"id": "b", "messages": [{"role": "user", "content": QUESTION}]});
    let lines = format!("{}\n\n{messages}\n", serde_json::json!({"id": 7, "prompt": QUESTION}));
    let piped = objects(lacuna_with(&[&["generate", "--jsonl", "-"], &short[..]].concat(), &lines));
    assert_eq!(piped.iter().map(text).collect::<Vec<_>>(), [expected.clone(), expected]);
    assert_eq!((&piped[0]["id"], &piped[1]["id"]), (&Value::from(7), &Value::from("b")));
}

/// As in DSB's official code, which divides nothing: what lies before the first length plus the number of commits is open.
#[test]
fn a_sliding_window_need_not_divide_the_length() {
    let with = |strategy: &str| {
        let flags = ["--threshold", "0.6", "--block-length", "6", "--gen-length", "16", "--early-stop", "false"];
        lacuna(&[&["generate", QUESTION, "--strategy", strategy, "--format", "json"], &flags[..]].concat())
    };
    let run = &objects(with("dsb"))[0];
    let prompt = run["prompt_tokens"].as_u64().unwrap();
    let mut committed = 0;
    for step in run["steps"].as_array().unwrap() {
        let unmasked = step["unmasked"].as_array().unwrap();
        let beyond = |pair: &&Value| pair[0].as_u64().unwrap() >= prompt + 6 + committed;
        assert_eq!(unmasked.iter().find(beyond), None, "after {committed} commits");
        committed += unmasked.len() as u64;
    }
    assert_eq!(committed, 16);
    assert!(complaint(with("fast-dllm")).contains("must divide the generation length, 16"));
}

#[test]
fn answers_keep_to_their_constraint() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name).display().to_string()
    };
    let schema = r#"{"type": "object", "properties": {"left": {"type": "integer"}}, "required": ["left"], "additionalProperties": false}"#;
    let grammar = file("yes.gbnf", "root ::= \"yes\" | \"no\"");
    for strategy in ["dos+eb", "confidence", "random+top4", "wino"] {
        let answer = |constraint: [&str; 2]| {
            let given = ["generate", QUESTION, "--strategy", strategy, "--gen-length", "32"];
            stdout(lacuna(&[&given[..], &constraint].concat())).trim_end().to_string()
        };
        let written: Value = serde_json::from_str(&answer(["--json-schema", &file("schema.json", schema)])).unwrap();
        assert!(written["left"].is_i64(), "{strategy}: {written}");
        assert!(["yes", "no"].contains(&&*answer(["--choices", "yes,no"])), "{strategy}");
        assert!(["yes", "no"].contains(&&*answer(["--grammar", &grammar])), "{strategy}");
        let digits = answer(["--regex", "[0-9]{3}"]);
        assert!(digits.len() == 3 && digits.parse::<usize>().is_ok(), "{strategy}: {digits}");
        let filled = stdout(lacuna(&["fill", "a <gap:3> b", "--regex", "[0-9]*", "--strategy", strategy]));
        let gap = filled.trim_end().strip_prefix("a ").and_then(|rest| rest.strip_suffix(" b")).unwrap();
        assert!(gap.len() >= 3 && gap.bytes().all(|byte| byte.is_ascii_digit()), "{strategy}: {filled}");
    }
    // Each line of a file may have its own.
    let lines = [
        serde_json::json!({"prompt": QUESTION, "choices": ["yes", "no"]}),
        serde_json::json!({"prompt": QUESTION, "json_schema": serde_json::from_str::<Value>(schema).unwrap()}),
        serde_json::json!({"prompt": QUESTION}),
    ];
    let lines = lines.map(|line| line.to_string()).join("\n");
    let given = ["generate", "--jsonl", "-", "--gen-length", "32", "--format", "json", "--batch", "3"];
    let answers = objects(lacuna_with(&given, &lines));
    let text = |index: usize| answers[index]["text"].as_str().unwrap();
    assert!(["yes", "no"].contains(&text(0)));
    assert!(serde_json::from_str::<Value>(text(1)).unwrap()["left"].is_i64());
    assert_eq!(text(2), stdout(lacuna(&["generate", QUESTION, "--gen-length", "32"])).trim_end());
}

const PENS: &str = "Sara has 24 pens and gives 9 away. How many are left?";

#[test]
fn a_finished_text_is_revised_and_the_record_says_what_changed() {
    let wrong = "24 - 9 = 13\n#### 15";
    let revised = objects(lacuna(&["revise", wrong, "--prompt", PENS, "--format", "json"])).remove(0);
    assert_eq!(revised["text"], "24 - 9 = 15\n#### 15");
    let changed = revised["changed"].as_array().unwrap();
    assert_eq!(changed.len(), 1);
    let position = changed[0][0].as_u64().unwrap() as usize;
    assert_eq!(revised["canvas"][position], changed[0][1]);
    assert_eq!(revised["tokens"][position - revised["prompt_tokens"].as_u64().unwrap() as usize], changed[0][2]);
    let replayed = stdout(lacuna_with(&["replay", "-"], &revised.to_string()));
    assert_eq!(replayed.trim_end(), "24 - 9 = 15\n#### 15");
    // What is no draft stays, right or wrong.
    let kept = "24 - 9 = 13\n#### <draft>15</draft>";
    assert!(stdout(lacuna(&["revise", kept, "--prompt", PENS])).starts_with("24 - 9 = 13\n"));
    // An answer may begin with a draft.
    let given = ["generate", PENS, "--draft", "24 - 9 = 13", "--gen-length", "32"];
    assert_eq!(stdout(lacuna(&given)).trim_end(), "24 - 9 = 15\n#### 15");
}

#[test]
fn a_gap_of_unknown_length_finds_it() {
    let text = "Sara still has<gap> = 15 pens.";
    let filled = objects(lacuna(&["fill", text, "--prompt", PENS, "--max-gap", "8", "--format", "json"])).remove(0);
    assert_eq!(filled["text"], "Sara still has 24 - 9 = 15 pens.");
    let tried = filled["steps"][0]["tried"].as_array().unwrap();
    assert_eq!(
        tried.iter().map(|tried| tried["length"].as_u64().unwrap()).collect::<Vec<_>>(),
        [1, 2, 3, 4, 5, 6, 7, 8]
    );
    let score = |tried: &&Value| tried["score"].as_f64().unwrap();
    let best = tried.iter().max_by(|a, b| score(a).total_cmp(&score(b))).unwrap();
    let added = filled["steps"][0]["resized"]["tokens"].as_array().unwrap().len();
    assert_eq!(best["length"].as_u64().unwrap() as usize, added + 1);
    let replayed = stdout(lacuna_with(&["replay", "-"], &filled.to_string()));
    assert_eq!(replayed.trim_end(), "Sara still has 24 - 9 = 15 pens.");
    // At the end of a text the model says where it ends.
    assert_eq!(stdout(lacuna(&["fill", "24<gap>", "--prompt", PENS])).trim_end(), "24 - 9 = 15\n#### 15");
}

#[test]
fn constraints_that_cannot_be_kept_are_refused() {
    for (arguments, message) in [
        (&["--regex", "(a"][..], "--regex: the pattern \"(a\" is refused: unclosed group"),
        (&["--regex", "(a|b)*a(a|b){40}"], "--regex: the constraint is too large"),
        (&["--regex", "x{300}", "--gen-length", "32"], "--gen-length is 32, but it must be at least"),
        (&["--regex", "a", "--json"], "--json: there is another constraint (regex)"),
        (&["--json", "--suppress-eos"], "leave out --suppress-eos"),
        (&["--json-schema", "no-such-file"], "--json-schema is no-such-file, but it cannot be read"),
    ] {
        let said = complaint(lacuna(&[&["generate", QUESTION], arguments].concat()));
        assert!(said.contains(message), "{said}");
    }
    let said = complaint(lacuna(&["fill", "a <gap:3> b", "--regex", "[0-9]"]));
    assert!(said.contains("cannot be met in 3 tokens: the shortest length that would do is 1"), "{said}");
}

#[test]
fn answers_do_not_depend_on_batches_or_threads() {
    let prompts = [
        QUESTION,
        "Write a function add(a, b) that returns the sum.",
        "Sara buys 4 pens for 3 dollars each. What is the cost?",
    ];
    let answers = |more: &[&str]| -> Vec<Value> {
        let temperature = ["--temperature", "0.7", "--gen-length", "48", "--format", "json"];
        let printed = objects(lacuna(&[&["generate"], &prompts[..], &temperature[..], more].concat()));
        printed.into_iter().map(|object| object["steps"].clone()).collect()
    };
    let expected = answers(&["--threads", "1"]);
    assert_eq!(answers(&["--threads", "2", "--batch", "2"]), expected);
    assert_eq!(answers(&["--batch", "3"]), expected);
    assert_ne!(answers(&["--seed", "4"]), expected);
}

#[test]
fn early_stop_saves_forwards_and_keeps_the_text() {
    for strategy in ["dos+eb", "confidence", "wino", "saber"] {
        let run = |stop: &str| {
            objects(lacuna(&[
                "generate",
                QUESTION,
                "--strategy",
                strategy,
                "--block-length",
                "32",
                "--gen-length",
                "64",
                "--early-stop",
                stop,
                "--format",
                "json",
            ]))
            .remove(0)
        };
        let (short, whole) = (run("true"), run("false"));
        assert_eq!(short["text"], whole["text"], "{strategy}");
        assert!(short["nfe"].as_u64() <= whole["nfe"].as_u64(), "{strategy}");
        assert_eq!(whole["tokens"].as_array().unwrap().len(), 64);
    }
}

#[test]
fn dos_reads_only_what_it_commits() {
    let tiny = data("llada-tiny").display().to_string();
    let rows = |strategy: &str| {
        let arguments = [
            "generate",
            "--model",
            &tiny,
            "--prompt-tokens",
            "1,2,3",
            "--gen-length",
            "32",
            "--strategy",
            strategy,
            "--early-stop",
            "false",
            "--format",
            "json",
        ];
        objects(lacuna(&arguments))[0]["rows_read"].as_u64().unwrap()
    };
    assert_eq!(rows("dos"), 32);
    assert_eq!(rows("confidence"), 32 * 33 / 2);
}

#[test]
fn gaps_are_filled_and_the_rest_stays() {
    let prompt = "Sara has 24 pens and gives 9 away. How many are left?";
    let filled = stdout(lacuna(&["fill", "--prompt", prompt, "Sara still has <gap:5> = 15 pens."]));
    assert_eq!(filled, "Sara still has 24 - 9 = 15 pens.\n");

    let tiny = data("llada-tiny").display().to_string();
    let arguments = ["fill", "--model", &tiny, "--tokens", "1,511,3,511,511,6", "--format", "json"];
    let tokens = objects(lacuna(&arguments))[0]["tokens"].as_array().unwrap().clone();
    assert_eq!((&tokens[0], &tokens[2], &tokens[5]), (&Value::from(1), &Value::from(3), &Value::from(6)));
    assert!(tokens.iter().all(|token| *token != 511 && *token != 509), "{tokens:?}");
}

#[test]
fn recorded_runs_replay_to_the_same_text() {
    for strategy in ["dos+eb", "wino", "saber", "random"] {
        let recorded =
            stdout(lacuna(&["generate", QUESTION, "--strategy", strategy, "--gen-length", "64", "--format", "json"]));
        let text = serde_json::from_str::<Value>(&recorded).unwrap()["text"].as_str().unwrap().to_string();
        assert_eq!(stdout(lacuna_with(&["replay", "-"], &recorded)), format!("{text}\n"), "{strategy}");
    }
}

#[test]
fn a_recorded_run_becomes_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("run.svg").display().to_string();
    let recorded = stdout(lacuna(&["generate", QUESTION, "--gen-length", "32", "--format", "json"]));
    assert_eq!(stdout(lacuna_with(&["replay", "-", "--svg", &picture], &recorded)), "");
    let svg = std::fs::read_to_string(picture).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("step 0") && svg.ends_with("</svg>\n"), "{svg}");
}

#[test]
fn strategies_stand_side_by_side() {
    let table = stdout(lacuna(&["compare", QUESTION, "--strategies", "dos+eb,confidence", "--gen-length", "32"]));
    assert!(table.contains("dos+eb") && table.contains("confidence") && table.contains("NFE 32"), "{table}");
    let printed = objects(lacuna(&[
        "compare",
        QUESTION,
        "--strategies",
        "random,margin",
        "--gen-length",
        "16",
        "--format",
        "json",
    ]));
    assert_eq!((&printed[0]["strategy"], &printed[1]["strategy"]), (&Value::from("random"), &Value::from("margin")));
}

#[test]
fn layers_are_given_one_by_one_in_lists_ranges_or_all() {
    let tiny = data("llada-tiny").display().to_string();
    let steps = |layer: &[&str]| {
        let arguments = [
            "generate",
            "--model",
            &tiny,
            "--prompt-tokens",
            "1,2,3",
            "--gen-length",
            "16",
            "--strategy",
            "dos",
            "--early-stop",
            "false",
            "--format",
            "json",
        ];
        objects(lacuna(&[&arguments[..], layer].concat()))[0]["steps"].clone()
    };
    assert_eq!(steps(&["--layer", "all"]), steps(&["--layer", "0-3"]));
    assert_eq!(steps(&["--layer", "1,2"]), steps(&["--layer", "1-2"]));
    assert_ne!(steps(&["--layer", "0"]), steps(&["--layer", "3"]));
    assert_ne!(steps(&["--layer", "0"]), steps(&["--layer", "0", "--heads", "1"]));
}

#[test]
fn inspect_describes_the_model() {
    let report = &objects(lacuna(&["inspect", "--format", "json"]))[0];
    assert_eq!((&report["family"], &report["mask_token"]), (&Value::from("LLaDA"), &Value::from(5)));
    assert_eq!(objects(lacuna(&["inspect", "--format", "json", "--isa", "scalar"]))[0]["isa"], "scalar");
    let text = stdout(lacuna(&["inspect", "--model", data("dream-tiny").to_str().unwrap()]));
    assert!(text.contains("predicts position i from i - 1"), "{text}");
}

#[test]
fn help_explains_every_command() {
    for command in ["generate", "fill", "compare", "replay", "probe", "inspect"] {
        let help = stdout(lacuna(&[command, "--help"]));
        assert!(help.contains("Usage: lacuna"), "{help}");
    }
    assert!(stdout(lacuna(&["strategies"])).contains("EB-Sampler"));
}

#[test]
fn a_bench_reports_where_the_time_of_a_step_goes() {
    let bench = |more: &[&str]| -> Value {
        let flags = ["bench", "--length", "64", "--block-length", "16", "--repetitions", "1", "--format", "json"];
        objects(lacuna(&[&flags, more].concat())).remove(0)
    };
    let report = bench(&["--strategy", "dos", "--batch", "2"]);
    let keys: Vec<&str> = report.as_object().unwrap().keys().map(String::as_str).collect();
    let contract = "shape device precision threads length block_length batch strategy ms_per_step forward_ms read_ms \
                    decode_ms gflops ceiling_gflops rows_read tokens_per_second peak_memory_bytes \
                    isa fastest_isa fastest_ceiling_gflops memory_gbps bound";
    assert_eq!(keys, contract.split(' ').collect::<Vec<_>>());
    assert_eq!(
        (&report["shape"], &report["device"], &report["precision"]),
        (&"mini".into(), &"cpu".into(), &"bf16".into())
    );
    assert_eq!(report["rows_read"], 2);
    let time = |name: &str| report[name].as_f64().unwrap();
    let parts = time("forward_ms") + time("read_ms") + time("decode_ms");
    assert!((parts - time("ms_per_step")).abs() < 1e-6 && time("gflops") > 0.0, "{report}");

    let report = bench(&["--strategy", "confidence", "--prefix", "56"]);
    assert_eq!((&report["rows_read"], &report["length"]), (&8.into(), &64.into()));
    let report = bench(&["--strategy", "confidence", "--precision", "int8"]);
    assert_eq!((&report["rows_read"], &report["precision"]), (&16.into(), &"int8".into()));
    // Random weights are unsure of everything: the bound ends it, unless it is wide or only one token is looked at.
    let rows = |more: &[&str]| bench(&[&["--strategy", "dos+eb"], more].concat())["rows_read"].clone();
    assert_eq!(rows(&[]), 4);
    assert_eq!(rows(&["--gamma", "1000"]), 16);
    assert_eq!(rows(&["--temperature", "0.2", "--top-p", "0.95", "--top-k", "1"]), 16);
}

#[test]
fn a_diff_tells_where_two_recordings_part_and_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let record = |name: &str, strategy: &str| {
        let flags = ["--strategy", strategy, "--gen-length", "32", "--format", "json", "--precision", "f32"];
        let lines = stdout(lacuna(&[&["generate", QUESTION, "Sara buys 4 pens. How many?"], &flags[..]].concat()));
        std::fs::write(path(name), lines).unwrap();
    };
    record("a.jsonl", "dos+eb");
    record("b.jsonl", "confidence");
    let diff = |names: [&str; 2], more: &[&str]| {
        let [a, b] = names.map(path);
        lacuna(&[&["diff", &a, &b, "--format", "json", "--precision", "f32"], more].concat())
    };
    let same = objects(diff(["a.jsonl", "a.jsonl"], &[]));
    assert_eq!((&same[0]["first_difference"], &same[0]["equal_tokens"]), (&Value::Null, &1.0.into()));
    assert_eq!((&same[2]["runs"], &same[2]["same"]), (&2.into(), &2.into()));
    assert!((same[0]["order_agreement"].as_f64().unwrap() - 1.0).abs() < 1e-12);

    std::fs::write(path("right.jsonl"), "{\"id\": 1, \"correct\": true}\n{\"id\": 2, \"correct\": true}\n").unwrap();
    std::fs::write(path("wrong.jsonl"), "{\"id\": 1, \"correct\": false}\n{\"id\": 2, \"correct\": true}\n").unwrap();
    let grades = ["--grades", &path("right.jsonl"), &path("wrong.jsonl"), "--why"];
    let other = objects(diff(["a.jsonl", "b.jsonl"], &grades));
    assert!(other[0]["first_difference"].is_u64(), "{other:?}");
    let why = &other[0]["why"][0];
    assert!(why["margin"].as_f64().unwrap() <= why["probability"].as_f64().unwrap(), "{why}");
    assert_eq!((&other[2]["flipped_to_wrong"], &other[2]["flipped_to_right"]), (&1.into(), &0.into()));

    std::fs::write(
        path("other.jsonl"),
        stdout(lacuna(&["generate", "Hello", "--gen-length", "8", "--format", "json"])),
    )
    .unwrap();
    assert!(complaint(diff(["a.jsonl", "other.jsonl"], &[])).contains("holds 2 runs"));
    assert!(complaint(diff(["a.jsonl", "none.jsonl"], &[])).contains("cannot read"));
}

#[test]
fn given_texts_are_scored() {
    let answers = ["Tom still has 3 * 12 - 5 = 31 apples.", "Tom still has 3 * 12 - 5 = 84 apples."];
    let flags = ["score", "--prompt", QUESTION, "--samples", "32", "--format", "json"];
    let found = objects(lacuna(&[&flags[..], &answers].concat()));
    let likelihood = |object: &Value| object["loglikelihood"].as_f64().unwrap();
    assert!(likelihood(&found[0]) > likelihood(&found[1]), "{found:?}");
    let rows =
        answers.map(|text| serde_json::json!({"id": 7, "prompt": QUESTION, "text": text, "group": "a"}).to_string());
    let from_file = ["score", "--jsonl", "-", "--samples", "32", "--batch", "5", "--format", "json"];
    for (row, exact) in objects(lacuna_with(&from_file, &rows.join("\n"))).iter().zip(&found) {
        assert_eq!((row["id"].as_u64(), row["group"].as_str()), (Some(7), Some("a")));
        assert_eq!(
            (&row["loglikelihood"], &row["standard_error"]),
            (&exact["loglikelihood"], &exact["standard_error"])
        );
    }
    let text = stdout(lacuna(&["score", "--prompt", QUESTION, "--order", "left", answers[0]]));
    assert!(text.contains(" a token, ") && text.starts_with('-'), "{text}");

    // A recorded run, scored along its own steps, has the probabilities that it was written with.
    let run = ["generate", QUESTION, "--gen-length", "32", "--early-stop", "false", "--format", "json"];
    let line = stdout(lacuna(&run));
    let record: Value = serde_json::from_str(&line).unwrap();
    let along = &objects(lacuna_with(&["score", "--trace", "-", "--format", "json"], &line))[0];
    let details = record["steps"].as_array().unwrap().iter().flat_map(|step| step["details"].as_array().unwrap());
    let written: f64 = details.map(|detail| detail["probability"].as_f64().unwrap().ln()).sum();
    assert!((likelihood(along) - written).abs() < 1e-3 * written.abs() + 1e-3, "{written} {along}");
    assert_eq!(along["tokens"], 32);

    for (arguments, word) in [
        (&["score"][..], "nothing to score"),
        (&["score", ""], "the text is empty"),
        (&["score", "a", "--samples", "33"], "--samples is 33, but it must be from 1 to 32, or a multiple of 32"),
        (&["score", "a", "--order", "up"], "--order is up, but it must be one of estimate, left, right, random"),
        (&["score", "a", "--order", "left", "--seed", "3"], "--seed has no effect with order left"),
        (&["score", "a", "--guidance", "-1"], "--guidance is -1"),
        (&["score", "--trace", "/nonexistent"], "cannot read /nonexistent"),
    ] {
        let said = complaint(lacuna(arguments));
        assert!(said.contains(word), "{arguments:?}: {said}");
    }
    for (row, word) in [
        ("[]", "line 1: not a JSON object"),
        ("{}", "neither \"text\" nor"),
        (r#"{"text": 5}"#, "its \"text\" is not a text"),
        (r#"{"text": "a", "text_tokens": [5]}"#, "both"),
        (r#"{"text_tokens": [99999999]}"#, "out of range"),
        (r#"{"text": "a", "loglikelihood": 1}"#, "give it another name"),
        (r#"{"text": "a", "prompt": "b", "prompt_tokens": [5]}"#, "more than one"),
        (r#"{"text": "a", "steps": [[5]]}"#, "must be below 1"),
    ] {
        let said = complaint(lacuna_with(&["score", "--jsonl", "-"], row));
        assert!(said.contains(word), "{row}: {said}");
    }
}

#[test]
fn the_best_samples_have_the_most_probable_tokens() {
    let drawn = ["generate", QUESTION, "--gen-length", "32", "--temperature", "1", "--format", "json"];
    let mut all = objects(lacuna(&[&drawn[..], &["--n", "4", "--batch", "3"]].concat()));
    let mean = |object: &Value| object["mean_logprob"].as_f64().unwrap();
    all.sort_by(|a, b| mean(b).total_cmp(&mean(a)));
    let best = objects(lacuna(&[&drawn[..], &["--n", "2", "--best-of", "4"]].concat()));
    assert_eq!(best.iter().map(|one| &one["tokens"]).collect::<Vec<_>>(), [&all[0]["tokens"], &all[1]["tokens"]]);
    assert!(complaint(lacuna(&["generate", QUESTION, "--best-of", "2"])).contains("--temperature above 0"));
    assert!(complaint(lacuna(&["generate", QUESTION, "--n", "3", "--best-of", "2"])).contains("--best-of is 2"));

    let told =
        &objects(lacuna(&["generate", QUESTION, "--gen-length", "16", "--top-logprobs", "2", "--format", "json"]))[0];
    for detail in told["steps"].as_array().unwrap().iter().flat_map(|step| step["details"].as_array().unwrap()) {
        assert_eq!(detail["top_logprobs"].as_array().unwrap().len(), 2);
        assert_eq!(detail["top_logprobs"][0]["token"], detail["token"]);
    }
    assert!(complaint(lacuna(&["generate", QUESTION, "--top-logprobs", "2"])).contains("set --format to json"));
    assert!(complaint(lacuna(&["bench", "--top-logprobs", "2"])).contains("prints no steps"));
}
