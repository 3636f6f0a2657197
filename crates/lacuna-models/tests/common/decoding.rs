//! Every step of every decoder, against what the official implementations and the float64 reference did.
//!
//! `data/README.md` says where the records come from. Records marked fragile hang on differences below float32's
//! resolution and are left out.

use std::cell::Cell;

use lacuna::catalogue::Params;
use lacuna::{Canvas, Options, Recipe, Run, Strategy, Token, decode};
use lacuna_models::{Checkpoint, Model, Precision};
use serde::Deserialize;
use serde_json::Value;

use super::{Load, data, tiny};

/// The files of records: the model they are of, and how many are solid.
pub(crate) const RECORDS: [(&str, &str, usize); 4] = [
    ("llada-tiny", "decode/llada-official.jsonl", 267),
    ("llada-tiny", "decode/llada-reference.jsonl", 518),
    ("dream-tiny", "decode/dream-official.jsonl", 105),
    ("dream-tiny", "decode/dream-reference.jsonl", 509),
];

#[derive(Deserialize)]
struct Prompts {
    prompts: Vec<Vec<Token>>,
}

#[derive(Deserialize)]
pub(crate) struct Golden {
    id: String,
    strategy: String,
    params: Value,
    pub(crate) prompt: usize,
    gen_length: usize,
    block_length: usize,
    nfe: usize,
    #[serde(rename = "final")]
    end: Vec<Token>,
    steps: Vec<Vec<usize>>,
    remask: Option<Vec<Vec<usize>>>,
    fragile: bool,
}

impl Golden {
    fn number(&self, key: &str) -> Option<f64> {
        self.params.get(key).and_then(Value::as_f64)
    }

    fn count(&self, key: &str) -> Option<usize> {
        self.number(key).map(|number| number as usize)
    }

    /// Its strategy and parameters, or none for what is not reproduced: KLASS's `entropy`, which ranks the most uncertain position
    /// first.
    fn strategy(&self) -> Option<(String, Params)> {
        let word = |key: &str| self.params.get(key).and_then(Value::as_str).unwrap_or_default();
        let (name, renamed): (String, &[(&str, &str)]) = match self.strategy.as_str() {
            "generic" => {
                let pace = match word("select") {
                    "topk" => format!("top{}", self.count("k")?),
                    "eb" => "eb".into(),
                    "threshold" => "score-threshold".into(),
                    "conf_threshold" => "threshold".into(),
                    other => panic!("unknown selection {other}"),
                };
                (format!("{}+{pace}", word("score")), &[("tau", "threshold")])
            }
            "llada_low_confidence" => ("llada".into(), &[]),
            "fast_dllm" | "fast_dllm_dream" if self.number("threshold").is_some() => ("fast-dllm".into(), &[]),
            "fast_dllm" | "fast_dllm_dream" => ("llada".into(), &[]),
            "klass" | "klass_dream" if word("alg") == "klass" => ("klass".into(), &[("kl_history_length", "history")]),
            "klass" if word("alg") == "topk_margin" => ("margin+schedule".into(), &[]),
            "wino" => ("wino".into(), &[]),
            "saber" => ("saber".into(), &[("n", "saber_n")]),
            "dream" => {
                let order = match word("alg") {
                    "maskgit_plus" => "confidence",
                    "topk_margin" => "margin",
                    other => other,
                };
                (format!("{order}+schedule"), &[])
            }
            "klass" => return None,
            other => panic!("unknown decoder {other}"),
        };
        let schedule = if self.strategy == "dream" { "dream" } else { "llada" };
        let recipe = Recipe::parse(&name, &Params::new()).unwrap();
        let mut params = Params::new().with("block_length", self.block_length).unwrap();
        if recipe.uses("schedule") {
            params = params.with("schedule", schedule).unwrap();
        }
        for (key, value) in self.params.as_object().unwrap() {
            let key = renamed.iter().find(|(old, _)| old == key).map_or(key.as_str(), |(_, new)| new);
            if recipe.uses(key) && !value.is_null() {
                params.set(key, &serde_json::from_value(value.clone()).unwrap()).unwrap();
            }
        }
        Some((name, params))
    }

    fn check(&self, prompt: &[Token], model: &mut dyn Model) -> Result<(), String> {
        let Some((name, params)) = self.strategy() else { unreachable!("left out before") };
        let canvas = Canvas::with_tail(prompt, self.gen_length, model.description().mask).unwrap();
        let strategy = Strategy::parse(&name, &params).unwrap();
        let mut runs = [Run::new(canvas, strategy, Options::default(), model.description()).unwrap()];
        decode(&mut runs, model).unwrap();
        let [run] = runs;
        for (number, (delta, golden)) in run.trace().deltas.iter().zip(&self.steps).enumerate() {
            let steps: Vec<usize> =
                delta.committed.iter().flat_map(|commit| [commit.position, commit.token as usize]).collect();
            if steps != *golden {
                return Err(format!("{}: step {number} is {steps:?}, not {golden:?}", self.id));
            }
            let remasked = self.remask.as_ref().map_or(&[] as &[usize], |remask| &remask[number]);
            if delta.reopened != remasked {
                return Err(format!("{}: step {number} reopens {:?}, not {remasked:?}", self.id, delta.reopened));
            }
        }
        let end = &run.canvas().tokens()[prompt.len()..];
        if run.forwards() != self.nfe || end != self.end {
            return Err(format!("{}: {} forwards, not {}", self.id, run.forwards(), self.nfe));
        }
        Ok(())
    }
}

/// Checks one of the files of [`RECORDS`]: every record, or one of `every`.
pub(crate) fn check_records(load: Load, number: usize, every: usize) {
    let (model, records, solid) = RECORDS[number];
    let count = Cell::new(0usize);
    let wanted = |_: &Golden| count.replace(count.get() + 1).is_multiple_of(every);
    assert_eq!(check_some(&tiny(model), load, records, wanted), solid.div_ceil(every));
}

/// Checks a file of records and returns how many were checked.
pub(crate) fn check_some(
    checkpoint: &Checkpoint,
    load: Load,
    records: &str,
    wanted: impl Fn(&Golden) -> bool,
) -> usize {
    let read = |path: &str| std::fs::read_to_string(data(path)).unwrap();
    let Prompts { prompts } = serde_json::from_str(&read("decode/prompts.json")).unwrap();
    let mut model = load(checkpoint, Precision::F32);
    let records = read(records);
    let goldens = records.lines().map(|line| serde_json::from_str::<Golden>(line).unwrap());
    let reproducible = |golden: &Golden| !golden.fragile && golden.strategy().is_some();
    let solid: Vec<Golden> = goldens.filter(|golden| reproducible(golden) && wanted(golden)).collect();
    let failures: Vec<String> =
        solid.iter().filter_map(|golden| golden.check(&prompts[golden.prompt], model.as_mut()).err()).collect();
    assert!(failures.is_empty(), "{} of {} differ:\n{}", failures.len(), solid.len(), failures.join("\n"));
    solid.len()
}
