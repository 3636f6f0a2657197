//! The command line against the official implementations: a sample of what the library's tests check in full.

mod common;

use common::{data, lacuna, objects};
use serde_json::Value;

fn read(path: &str) -> String {
    std::fs::read_to_string(data(path)).unwrap()
}

/// The command line for a golden record, as the design maps it.
fn arguments(golden: &Value, prompt: &Value) -> Option<Vec<String>> {
    let params = &golden["params"];
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
    let given = |key: &str| params.get(key).filter(|value| !value.is_null());
    let flags = |pairs: &[(&str, &str)]| -> Vec<String> {
        let flag = |&(flag, key): &(&str, &str)| given(key).map(|value| [format!("--{flag}"), text(value)]);
        pairs.iter().filter_map(flag).flatten().collect()
    };
    let (strategy, flags) = match golden["strategy"].as_str()? {
        "generic" => {
            let pace = match params["select"].as_str()? {
                "topk" => format!("top{}", params["k"]),
                "threshold" => "score-threshold".into(),
                "conf_threshold" => "threshold".into(),
                pace => pace.into(),
            };
            let flags = flags(&[("layer", "layer"), ("gamma", "gamma"), ("threshold", "tau")]);
            (format!("{}+{pace}", params["score"].as_str()?), flags)
        }
        "llada_low_confidence" => ("llada".into(), flags(&[("steps", "steps")])),
        "fast_dllm" | "fast_dllm_dream" => match given("threshold") {
            Some(_) => ("fast-dllm".into(), flags(&[("threshold", "threshold"), ("cache", "cache")])),
            None => ("llada".into(), flags(&[("steps", "steps"), ("cache", "cache")])),
        },
        "klass" | "klass_dream" if params["alg"] == "klass" => {
            let pairs = [
                ("conf-threshold", "conf_threshold"),
                ("kl-threshold", "kl_threshold"),
                ("history", "kl_history_length"),
                ("steps", "steps"),
            ];
            ("klass".into(), flags(&pairs))
        }
        "klass" if params["alg"] == "topk_margin" => ("margin+schedule".into(), flags(&[("steps", "steps")])),
        "wino" => ("wino".into(), flags(&[("threshold", "threshold"), ("threshold-back", "threshold_back")])),
        "saber" => ("saber".into(), flags(&[("saber-n", "n")])),
        "dream" => {
            let order = match params["alg"].as_str()? {
                "maskgit_plus" => "confidence",
                "topk_margin" => "margin",
                order => order,
            };
            let mut flags = flags(&[("steps", "steps"), ("eps", "eps")]);
            flags.extend(["--schedule".into(), "dream".into()]);
            (format!("{order}+schedule"), flags)
        }
        _ => return None,
    };
    let ids = prompt.as_array()?.iter().map(Value::to_string).collect::<Vec<_>>().join(",");
    let mut arguments: Vec<String> =
        ["generate", "--precision", "f32", "--early-stop", "false", "--format", "json"].map(String::from).into();
    let settings = [
        ("--model", data(golden["model"].as_str()?).display().to_string()),
        ("--prompt-tokens", ids),
        ("--gen-length", golden["gen_length"].to_string()),
        ("--block-length", golden["block_length"].to_string()),
        ("--strategy", strategy),
    ];
    arguments.extend(settings.into_iter().flat_map(|(flag, value)| [flag.into(), value]));
    arguments.extend(flags);
    Some(arguments)
}

/// The steps of a golden record in the form that the command line prints.
fn steps(golden: &Value) -> Vec<(Value, Value)> {
    let pairs =
        |flat: &Value| -> Value { flat.as_array().unwrap().chunks(2).map(|pair| Value::from(pair.to_vec())).collect() };
    let committed = golden["steps"].as_array().unwrap().iter().map(pairs);
    let none = Value::Array(Vec::new());
    let reopened = (0..).map(|step| golden.get("remask").map_or(none.clone(), |remask| remask[step].clone()));
    committed.zip(reopened).collect()
}

#[test]
fn every_kind_of_decoder_does_what_its_official_code_does() {
    let prompts: Value = serde_json::from_str(&read("decode/prompts.json")).unwrap();
    let mut kinds = std::collections::BTreeSet::new();
    for file in ["llada-official", "llada-reference", "dream-official", "dream-reference"] {
        for line in read(&format!("decode/{file}.jsonl")).lines() {
            let golden: Value = serde_json::from_str(line).unwrap();
            let kind =
                (golden["model"].to_string(), golden["strategy"].to_string(), golden["params"]["select"].to_string());
            let params = ["alg", "cache"].map(|key| golden["params"][key].to_string());
            let kind = (kind, params, golden["block_length"].to_string());
            let Some(arguments) = arguments(&golden, &prompts["prompts"][golden["prompt"].as_u64().unwrap() as usize])
            else {
                continue;
            };
            if golden["fragile"] == true || !kinds.insert(kind) {
                continue;
            }
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let run = objects(lacuna(&arguments)).remove(0);
            let printed: Vec<(Value, Value)> = run["steps"]
                .as_array()
                .unwrap()
                .iter()
                .map(|step| (step["unmasked"].clone(), step["remasked"].clone()))
                .collect();
            assert_eq!(printed, steps(&golden), "{}", golden["id"]);
            assert_eq!((&run["tokens"], &run["nfe"]), (&golden["final"], &golden["nfe"]), "{}", golden["id"]);
        }
    }
    assert!(kinds.len() > 30, "{}", kinds.len());
}

/// The command line for a record of a newer strategy, as `commands.json` has it.
fn command(golden: &Value, commands: &Value, prompt: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
    let command = &commands[golden["strategy"].as_str().unwrap()];
    let strategy = match command["strategy"].as_object() {
        Some(by) => {
            let (parameter, names) = by.iter().next().unwrap();
            text(&names[text(&golden["params"][parameter])])
        }
        None => text(&command["strategy"]),
    };
    let ids = prompt.as_array().unwrap().iter().map(Value::to_string).collect::<Vec<_>>().join(",");
    let model = data(golden["model"].as_str().unwrap()).display().to_string();
    let mut arguments: Vec<String> =
        ["generate", "--precision", "f32", "--early-stop", "false", "--format", "json"].map(String::from).into();
    let settings = [
        ("--model", model),
        ("--prompt-tokens", ids),
        ("--block-length", golden["block_length"].to_string()),
        ("--strategy", strategy),
    ];
    if let Some(length) = golden.get("gen_length") {
        arguments.extend(["--gen-length".into(), length.to_string()]);
    }
    arguments.extend(settings.into_iter().flat_map(|(flag, value)| [flag.into(), value]));
    for (name, value) in golden["params"].as_object().unwrap().iter().filter(|(_, value)| !value.is_null()) {
        arguments.extend(command["flags"][name].as_str().into_iter().flat_map(|flag| [flag.into(), text(value)]));
    }
    // Files are named from the root of the repository.
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let constant = command["constant"].as_array().unwrap().iter().map(text);
    arguments.extend(constant.map(|word| match word.contains('/') {
        true => root.join(word).display().to_string(),
        false => word,
    }));
    arguments
}

#[test]
fn newer_strategies_do_what_their_official_code_does() {
    let json = |path: &str| -> Value { serde_json::from_str(&read(path)).unwrap() };
    let (prompts, commands) = (json("decode/prompts.json"), json("strategies/commands.json"));
    let mut kinds = std::collections::BTreeSet::new();
    let names = "localleap hierarchy hierarchy_remask prophet p2 remdm_conf core credit dawn pc_sampler dsb cumulative daedal \
                 dkv_cache dllm_cache d2cache";
    for name in names.split(' ') {
        for line in read(&format!("strategies/{name}.jsonl")).lines() {
            let golden: Value = serde_json::from_str(line).unwrap();
            let kind = (golden["strategy"].to_string(), golden["params"].get("score").map(ToString::to_string));
            let unfit = golden["fragile"] == true || golden["prompt_overwritten"] == true;
            if unfit || kinds.contains(&kind) || golden["prompt"] != 2 {
                continue;
            }
            kinds.insert(kind);
            let prompt = &prompts["prompts"][golden["prompt"].as_u64().unwrap() as usize];
            let arguments = command(&golden, &commands, prompt);
            let run = objects(lacuna(&arguments.iter().map(String::as_str).collect::<Vec<_>>())).remove(0);
            let printed = run["steps"].as_array().unwrap().iter().map(|step| {
                let mut written = step["unmasked"].as_array().unwrap().clone();
                written.extend(step.get("edited").and_then(Value::as_array).cloned().unwrap_or_default());
                written.sort_by_key(|pair| pair[0].as_u64());
                (Value::from(written), step["remasked"].clone())
            });
            assert_eq!(printed.collect::<Vec<_>>(), steps(&golden), "{}", golden["id"]);
            assert_eq!((&run["tokens"], &run["nfe"]), (&golden["final"], &golden["nfe"]), "{}", golden["id"]);
            let length = prompt.as_array().unwrap().len() + golden["final"].as_array().unwrap().len();
            if let (Some(rows), false) = (golden["rows"].as_array(), name == "dllm_cache") {
                let computed: usize = rows.iter().map(|rows| rows.as_array().map_or(length, Vec::len)).sum();
                assert_eq!(run["rows_computed"], computed, "{}", golden["id"]);
            }
        }
    }
    assert_eq!(kinds.len(), 25, "{kinds:?}");
}

#[test]
fn probe_prints_what_the_official_models_compute() {
    for model in ["llada-tiny", "dream-tiny"] {
        let bytes = std::fs::read(data(&format!("forward/{model}.safetensors"))).unwrap();
        let golden = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let floats = |name: &str| -> Vec<f32> {
            golden.tensor(name).unwrap().data().chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
        };
        let integers = |name: &str| -> Vec<i32> {
            golden.tensor(name).unwrap().data().chunks(4).map(|b| i32::from_le_bytes(b.try_into().unwrap())).collect()
        };
        for case in ["case0", "case1", "case2"] {
            let ids = integers(&format!("{case}.input_ids")).iter().map(i32::to_string).collect::<Vec<_>>().join(",");
            let path = data(model).display().to_string();
            let seen = &objects(lacuna(&["probe", "--model", &path, "--tokens", &ids, "--format", "json"]))[0];
            let logits = seen["logits"].as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap());
            for (logit, expected) in logits.zip(floats(&format!("{case}.logits"))) {
                assert!((logit.as_f64().unwrap() - f64::from(expected)).abs() < 2e-4);
            }
            let masked = integers(&format!("{case}.masked_positions"));
            let expected = floats(&format!("{case}.dep"));
            for layer in 0..4 {
                let scores = seen["dependency"][layer.to_string()].as_array().unwrap();
                assert_eq!(scores.iter().filter(|score| !score.is_null()).count(), masked.len());
                for (index, &position) in masked.iter().enumerate() {
                    let score = scores[position as usize].as_f64().unwrap();
                    assert!((score - f64::from(expected[layer * masked.len() + index])).abs() < 5e-6);
                }
            }
        }
    }
}
