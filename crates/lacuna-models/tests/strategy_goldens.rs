//! Newer strategies, windows and caches, step by step against their official code. How a record becomes a command line is data
//! (`data/strategies/commands.json`), and the parameters here are read from it.

mod common;

use common::{MASK, data, on_cpu, tiny};
use lacuna::catalogue::{Kind, Params, parameter};
use lacuna::{Token, decode};
use lacuna_models::{Checkpoint, Precision, Request};
use serde::Deserialize;
use serde_json::Value as Json;

#[derive(Deserialize)]
struct Golden {
    id: String,
    model: String,
    strategy: String,
    params: serde_json::Map<String, Json>,
    prompt: usize,
    gen_length: Option<usize>,
    block_length: usize,
    nfe: usize,
    #[serde(rename = "final")]
    end: Vec<Token>,
    steps: Vec<Vec<usize>>,
    rows: Option<Vec<Json>>,
    remask: Option<Vec<Vec<usize>>>,
    lengths: Option<Vec<usize>>,
    expand: Option<Vec<Vec<usize>>>,
    #[serde(default)]
    prompt_overwritten: bool,
    fragile: bool,
}

impl Golden {
    /// Rows that all layers of a pass of dLLM-Cache compute together: the first layer all, the others what the intervals say, and
    /// between them the rows of the record.
    fn refreshed(&self, pass: usize, rows: &Json, prompt: usize, layers: usize) -> usize {
        let due = |interval: &str| (pass as u64).is_multiple_of(self.params[interval].as_u64().unwrap());
        let behind = self.gen_length.unwrap();
        let anew = if due("prompt_interval") { prompt } else { 0 } + if due("gen_interval") { behind } else { 0 };
        let chosen: usize = rows.as_array().unwrap().iter().map(|layer| layer.as_array().unwrap().len()).sum();
        prompt + behind + (layers - 1) * anew + chosen
    }
}

/// Command line for the records of one strategy.
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
        if let Some(length) = golden.gen_length {
            params = params.with("gen_length", length).unwrap();
        }
        params = params.with("strategy", &*self.name(golden)).unwrap();
        for (flag, text) in flags {
            let name = flag.trim_start_matches("--").replace('-', "_");
            let text = match parameter(&name).unwrap().parameter.kind {
                Kind::File => std::fs::read_to_string(data("../../../..").join(text)).unwrap(),
                _ => text,
            };
            params.parse(&name, &text).unwrap();
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
        let checkpoint = tiny(name);
        let mut model = on_cpu(&checkpoint, Precision::F32);
        for golden in
            goldens.iter().filter(|golden| golden.model == name && !golden.fragile && !golden.prompt_overwritten)
        {
            count += 1;
            let command: Command = serde_json::from_value(commands[&golden.strategy].clone()).unwrap();
            let prompt: Vec<Token> = serde_json::from_value(prompts["prompts"][golden.prompt].clone()).unwrap();
            let plan = Request(command.params(golden)).plan(&checkpoint).unwrap();
            let mut runs = [plan.answer(&prompt, model.description()).unwrap()];
            decode(&mut runs, model.as_mut()).unwrap();
            let [run] = runs;
            let steps: Vec<Vec<usize>> = (run.trace().deltas.iter())
                .map(|delta| {
                    let mut written: Vec<_> = delta.committed.iter().chain(&delta.edited).collect();
                    written.sort_by_key(|commit| commit.position);
                    written.into_iter().flat_map(|commit| [commit.position, commit.token as usize]).collect()
                })
                .collect();
            let reopened: Vec<Vec<usize>> = run.trace().deltas.iter().map(|delta| delta.reopened.clone()).collect();
            let length = run.canvas().len();
            let lengths: Vec<usize> = run.trace().canvases().map(|canvas| canvas.len() - prompt.len()).collect();
            let masks = model.description().mask;
            let expanded: Vec<Vec<usize>> = (run.trace().canvases().zip(&run.trace().deltas))
                .map(|(canvas, delta)| {
                    let inside = delta.resized.iter().filter(|resize| resize.at < canvas.len() || delta.block > 0);
                    inside.filter(|resize| resize.tokens[0] == masks).map(|resize| resize.at - 1).collect()
                })
                .collect();
            let layers = model.description().layers;
            let computed = golden.rows.as_ref().map(|rows| {
                let counts = rows.iter().enumerate().map(|(pass, rows)| match golden.strategy.as_str() {
                    "dllm_cache" => golden.refreshed(pass, rows, prompt.len(), layers),
                    _ => layers * rows.as_array().map_or(length, Vec::len),
                });
                counts.sum::<usize>().div_ceil(layers)
            });
            let same = steps == golden.steps
                && golden.lengths.as_ref().is_none_or(|theirs| *theirs == lengths[..lengths.len() - 1])
                && golden.expand.as_ref().is_none_or(|theirs| *theirs == expanded)
                && golden.remask.as_ref().is_none_or(|remask| *remask == reopened)
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
fn daedal_grows_where_the_model_needs_room() {
    check("strategies/daedal.jsonl", 40);
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
fn dllm_cache_computes_what_has_changed_most() {
    check("strategies/dllm_cache.jsonl", 48);
}

#[test]
fn d2_cache_computes_what_is_decided_soon_and_what_attention_flows_to() {
    check("strategies/d2cache.jsonl", 33);
}

#[test]
fn caches_give_the_same_alone_and_in_company() {
    let prompts: Json = serde_json::from_str(&std::fs::read_to_string(data("decode/prompts.json")).unwrap()).unwrap();
    let caches = [("none", 0.0), ("dllm", 0.0), ("none", 0.5), ("d2", 0.0), ("dkv", 0.0), ("dllm", 0.0)];
    let a2d = Checkpoint::open(data("families/a2d-qwen3")).unwrap().with_mask_token(MASK).unwrap();
    for checkpoint in [tiny("llada-tiny"), a2d] {
        let mut model = on_cpu(&checkpoint, Precision::F32);
        let start = |number: usize, (cache, guidance): (&str, f64)| {
            let prompt: Vec<Token> = serde_json::from_value(prompts["prompts"][number % 5].clone()).unwrap();
            let request = Request::default().with("strategy", "dos+threshold").unwrap();
            let request = request.with("gen_length", 32usize).unwrap().with("threshold", 0.5).unwrap();
            let request = request.with("cache", cache).unwrap().with("guidance", guidance).unwrap();
            request.plan(&checkpoint).unwrap().answer(&prompt, model.description()).unwrap()
        };
        let runs = || caches.into_iter().enumerate().map(|(number, cache)| start(number, cache));
        let (mut together, mut alone): (Vec<_>, Vec<_>) = (runs().collect(), runs().collect());
        decode(&mut together, model.as_mut()).unwrap();
        for (together, alone) in together.iter().zip(&mut alone) {
            decode(std::slice::from_mut(alone), model.as_mut()).unwrap();
            assert_eq!(together.trace(), alone.trace());
        }
    }
}

#[test]
fn cumulative_keeps_its_joint_probability() {
    check("strategies/cumulative.jsonl", 153);
}

#[test]
fn localleap_relaxes_near_anchors() {
    check("strategies/localleap.jsonl", 80);
}

#[test]
fn hierarchy_takes_the_best_of_every_run() {
    check("strategies/hierarchy.jsonl", 119);
}

#[test]
fn hierarchy_reopens_what_lost_confidence() {
    check("strategies/hierarchy_remask.jsonl", 39);
}

#[test]
fn prophet_commits_the_rest_when_the_answer_is_sure() {
    check("strategies/prophet.jsonl", 40);
}

#[test]
fn p2_plans_the_path_anew_in_every_step() {
    check("strategies/p2.jsonl", 59);
}

#[test]
fn remdm_reopens_the_least_probable_tokens() {
    check("strategies/remdm_conf.jsonl", 20);
}

#[test]
fn core_replaces_what_does_not_hold() {
    check("strategies/core.jsonl", 58);
}

#[test]
fn credit_raises_what_stays_on_top() {
    check("strategies/credit.jsonl", 99);
}

#[test]
fn dawn_commits_what_the_attention_graph_allows() {
    check("strategies/dawn.jsonl", 100);
}

#[test]
fn pc_sampler_prefers_early_positions_and_rare_tokens() {
    check("strategies/pc_sampler.jsonl", 49);
}
