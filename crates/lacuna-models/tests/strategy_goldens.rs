//! Newer strategies, windows and caches, step by step against their official code. How a record becomes a command line is data
//! (`data/strategies/commands.json`), and the parameters here are read from it.

mod common;

use common::{data, on_cpu, tiny};
use lacuna::catalogue::Params;
use lacuna::{Canvas, Options, Run, Strategy, Token, decode};
use lacuna_models::Precision;
use serde::Deserialize;
use serde_json::Value as Json;

#[derive(Deserialize)]
struct Golden {
    id: String,
    model: String,
    strategy: String,
    params: serde_json::Map<String, Json>,
    prompt: usize,
    gen_length: usize,
    block_length: usize,
    nfe: usize,
    #[serde(rename = "final")]
    end: Vec<Token>,
    steps: Vec<Vec<usize>>,
    rows: Option<Vec<Option<Vec<usize>>>>,
    fragile: bool,
}

/// How the records of one strategy are asked for on the command line.
#[derive(Deserialize)]
struct Command {
    strategy: Name,
    flags: serde_json::Map<String, Json>,
    constant: Vec<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Name {
    One(String),
    ByParameter(serde_json::Map<String, Json>),
}

fn text(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

impl Command {
    fn name(&self, golden: &Golden) -> String {
        match &self.strategy {
            Name::One(name) => name.clone(),
            Name::ByParameter(names) => {
                let (parameter, names) = names.iter().next().unwrap();
                text(&names[&text(&golden.params[parameter])])
            }
        }
    }

    fn params(&self, golden: &Golden) -> Params {
        let mut flags: Vec<(String, String)> =
            self.constant.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
        for (name, value) in golden.params.iter().filter(|(_, value)| !value.is_null()) {
            match self.flags.get(name) {
                Some(Json::String(flag)) => flags.push((flag.clone(), text(value))),
                Some(Json::Null) => {}
                _ => panic!("{}: commands.json does not say what becomes of '{name}'", golden.id),
            }
        }
        let mut params = Params::new().with("block_length", golden.block_length).unwrap();
        for (flag, text) in flags {
            params.parse(&flag.trim_start_matches("--").replace('-', "_"), &text).unwrap();
        }
        params
    }
}

fn check(file: &str, solid: usize) {
    let read = |path: &str| std::fs::read_to_string(data(path)).unwrap();
    let commands: serde_json::Map<String, Json> = serde_json::from_str(&read("strategies/commands.json")).unwrap();
    let prompts: Json = serde_json::from_str(&read("decode/prompts.json")).unwrap();
    let goldens: Vec<Golden> = read(file).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut failures = Vec::new();
    let mut count = 0;
    for name in ["llada-tiny", "dream-tiny"] {
        let mut model = on_cpu(&tiny(name), Precision::F32);
        for golden in goldens.iter().filter(|golden| golden.model == name && !golden.fragile) {
            count += 1;
            let command: Command = serde_json::from_value(commands[&golden.strategy].clone()).unwrap();
            let prompt: Vec<Token> = serde_json::from_value(prompts["prompts"][golden.prompt].clone()).unwrap();
            let canvas = Canvas::with_tail(&prompt, golden.gen_length, model.description().mask).unwrap();
            let strategy = Strategy::parse(&command.name(golden), &command.params(golden)).unwrap();
            let mut runs = [Run::new(canvas, strategy, Options::default(), model.description()).unwrap()];
            decode(&mut runs, model.as_mut()).unwrap();
            let [run] = runs;
            let steps: Vec<Vec<usize>> = (run.trace().deltas.iter())
                .map(|delta| delta.committed.iter().flat_map(|c| [c.position, c.token as usize]).collect())
                .collect();
            let length = run.canvas().len();
            let computed = golden
                .rows
                .as_ref()
                .map(|rows| rows.iter().map(|rows| rows.as_ref().map_or(length, Vec::len)).sum::<usize>());
            let same = steps == golden.steps
                && run.forwards() == golden.nfe
                && run.canvas().tokens()[prompt.len()..] == golden.end
                && computed.is_none_or(|computed| computed == run.rows_computed());
            if !same {
                let differs = steps.iter().zip(&golden.steps).position(|(ours, theirs)| ours != theirs);
                failures.push(format!("{}: first difference at step {differs:?}", golden.id));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {count} differ:\n{}", failures.len(), failures.join("\n"));
    assert_eq!(count, solid);
}

#[test]
fn dsb_slides_its_window() {
    check("strategies/dsb.jsonl", 109);
}

#[test]
fn dkv_cache_computes_what_was_not_decided_long_ago() {
    check("strategies/dkv_cache.jsonl", 29);
}

#[test]
fn cumulative_keeps_its_joint_probability() {
    check("strategies/cumulative.jsonl", 153);
}
