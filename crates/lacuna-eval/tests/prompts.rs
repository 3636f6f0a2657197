//! Every protocol's prompt for one problem, in the templates of LLaDA-Instruct and Dream-Instruct, as recorded in
//! `tests/snapshots`. To record them anew after a wanted change: LACUNA_SNAPSHOTS=write cargo test.

use std::path::Path;

use lacuna_eval::task::{Benchmark, Prompt, TASKS};

/// The template of LLaDA-8B-Instruct.
fn llada(prompt: &Prompt) -> String {
    let turn = |role: &str, content: &str| {
        format!("<|start_header_id|>{role}<|end_header_id|>\n\n{}<|eot_id|>", content.trim())
    };
    let turns: String = prompt.turns.iter().map(|said| turn(said.role, &said.content)).collect();
    format!("<|startoftext|>{turns}<|start_header_id|>assistant<|end_header_id|>\n\n{}", prompt.prefix)
}

/// The template of Dream-v0-Instruct-7B, which adds a system turn where there is none.
fn dream(prompt: &Prompt) -> String {
    let turn = |role: &str, content: &str| format!("<|im_start|>{role}\n{content}<|im_end|>\n");
    let system =
        if prompt.turns[0].role == "system" { String::new() } else { turn("system", "You are a helpful assistant.") };
    let turns: String = prompt.turns.iter().map(|said| turn(said.role, &said.content)).collect();
    format!("{system}{turns}<|im_start|>assistant\n{}", prompt.prefix)
}

#[test]
fn prompts_are_as_recorded() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let write = std::env::var_os("LACUNA_SNAPSHOTS").is_some();
    for task in TASKS {
        // The tasks of models/orders are asked as their files have them.
        for protocol in task.protocols().iter().filter(|protocol| protocol.name != "orders") {
            let benchmark = Benchmark::load(task, protocol, Some(&tests.join("data"))).unwrap();
            let prompt = benchmark.prompt(&benchmark.problems[0]);
            let text = format!(
                "{} in protocol {}: {}\nstops: {:?}; time limit: {} s\n\n======== LLaDA-Instruct\n{}\n======== Dream-Instruct\n{}\n========\n",
                task.name(),
                protocol.name,
                protocol.about,
                protocol.stops,
                protocol.time_limit_s,
                llada(&prompt),
                dream(&prompt)
            );
            let path = tests.join("snapshots").join(format!("{}-{}.txt", task.name(), protocol.name));
            if write {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(&path, &text).unwrap();
            }
            let recorded = std::fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(text, recorded, "{}", path.display());
        }
    }
}

#[test]
fn the_drawn_examples_come_from_the_training_part() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let task = lacuna_eval::task::find("gsm8k").unwrap();
    let benchmark = Benchmark::load(task, task.protocol(Some("lm-eval")).unwrap(), Some(&data)).unwrap();
    let prompts: Vec<String> =
        benchmark.problems.iter().map(|p| benchmark.prompt(p).turns[0].content.clone()).collect();
    assert!(prompts.iter().all(|prompt| prompt.matches("Question: ").count() == 6 && prompt.ends_with("\nAnswer:")));
    assert_ne!(prompts[0].split("\n\n").next(), prompts[1].split("\n\n").next());
}
