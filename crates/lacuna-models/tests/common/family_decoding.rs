//! The decoders of further families, step by step against their official code, planned as the command line plans them. How a record
//! becomes a command line is data (`data/families/commands.json`).
//!
//! With `LACUNA_GOLDENS` set to a folder of `<family>/{model/,prompts.json,decode.jsonl}`, those are compared as well.

use std::path::{Path, PathBuf};

use lacuna::{Belief, Compute, Description, Observation, Pass, Predictor, Row, Run, Token, View, decode};
use lacuna_models::{Checkpoint, Job, Kind, Model, Plan, Precision, Record, Request, Template};
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::{Load, MASK, data};

const FAMILIES: [&str; 7] = ["sdar", "fast-dllm-v2", "stable-diffcoder", "a2d-qwen3", "open-dcoder", "llada2", "rnd1"];

#[derive(Deserialize)]
struct Golden {
    id: String,
    strategy: String,
    params: Map<String, Json>,
    prompt: usize,
    gen_length: usize,
    block_length: Option<usize>,
    nfe: usize,
    kinds: String,
    #[serde(rename = "final")]
    end: Vec<Token>,
    steps: Vec<Vec<usize>>,
    edits: Option<Vec<Vec<usize>>>,
    remask: Option<Vec<Vec<usize>>>,
    #[serde(default)]
    fragile: bool,
}

#[derive(Deserialize)]
struct Prompts {
    mask_token_id: Token,
    prompts: Vec<Vec<Token>>,
}

/// Parameters that say when the official code stops at an end token.
const ENDS: [&str; 6] = ["eos_id", "eos_early_stop", "stop", "stop_token", "eos_token_id", "pad_token_id"];

fn text(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

impl Golden {
    /// True if the official code stopped at an end token.
    fn stops(&self) -> bool {
        self.id.contains("/eos")
    }

    /// The request that its command line makes.
    fn request(&self, commands: &Map<String, Json>) -> Request {
        let command = &commands[&self.strategy];
        let name = match command["strategy"].as_object() {
            Some(by) => {
                let (parameter, names) = by.iter().next().unwrap();
                text(&names[&text(&self.params[parameter])])
            }
            None => text(&command["strategy"]),
        };
        let mut request = Request::default().with("strategy", name.as_str()).unwrap();
        request = request.with("gen_length", self.gen_length).unwrap().with("early_stop", false).unwrap();
        if let Some(length) = self.block_length {
            request = request.with("block_length", length).unwrap();
        }
        for (name, value) in self.params.iter().filter(|(name, _)| !ENDS.contains(&name.as_str())) {
            match command["flags"].get(name) {
                Some(Json::String(flag)) if !value.is_null() => {
                    request.0.parse(&flag.trim_start_matches("--").replace('-', "_"), &text(value)).unwrap();
                }
                Some(_) => {}
                None => panic!("{}: commands.json does not say what becomes of '{name}'", self.id),
            }
        }
        if name.ends_with("+schedule") {
            request = request.with("schedule", "dream").unwrap();
        }
        // The official code then takes its confidence from the truncated distribution.
        if request.get("top_k").is_some() {
            request = request.with("sampling", "dream").unwrap();
        }
        request
    }

    fn differs(&self, record: &Record) -> Option<String> {
        let flat = |pairs: &[(usize, Token)]| pairs.iter().flat_map(|&(at, token)| [at, token as usize]).collect();
        let steps: Vec<Vec<usize>> = record.steps.iter().map(|step| flat(&step.unmasked)).collect();
        let edits: Vec<Vec<usize>> = record.steps.iter().map(|step| flat(&step.edited)).collect();
        let reopened: Vec<Vec<usize>> = record.steps.iter().map(|step| step.remasked.clone()).collect();
        let letter = |kind| match kind {
            Pass::Denoise => 'd',
            Pass::Prefill => 'p',
            Pass::Store => 's',
        };
        let kinds: String = record.steps.iter().map(|step| letter(step.kind)).collect();
        // Where the official code stopped, only what it did until then is compared.
        let count = if self.stops() { self.steps.len().min(steps.len()) } else { steps.len() };
        let at = (0..count).find(|&step| steps[step] != self.steps.get(step).cloned().unwrap_or_default());
        let end = &self.end[..self.end.len().min(self.gen_length)];
        if let Some(step) = at {
            Some(format!("step {step}"))
        } else if kinds[..count] != self.kinds || (!self.stops() && record.nfe != self.nfe) {
            Some(format!("passes {kinds}, not {}", self.kinds))
        } else if self.edits.as_ref().is_some_and(|golden| *golden != edits[..count]) {
            Some("edits".into())
        } else if self.remask.as_ref().is_some_and(|golden| *golden != reopened) {
            Some("reopened positions".into())
        } else {
            (!self.stops() && record.tokens != end).then(|| "tokens".into())
        }
    }
}

/// Checkpoints, prompts and records of the families.
fn families() -> Vec<(PathBuf, Prompts, Vec<Golden>)> {
    let mut all = FAMILIES.map(|name| (data("families").join(name), data("families").join(name))).to_vec();
    if let Some(folder) = std::env::var_os("LACUNA_GOLDENS") {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        all.extend(entries.filter(|path| path.join("decode.jsonl").exists()).map(|path| (path.join("model"), path)));
    }
    let load = |(model, goldens): (PathBuf, PathBuf)| {
        let read = |name: &str| std::fs::read_to_string(goldens.join(name)).unwrap();
        let records = read("decode.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (model, serde_json::from_str(&read("prompts.json")).unwrap(), records)
    };
    all.into_iter().map(load).collect()
}

fn commands() -> Map<String, Json> {
    serde_json::from_str(&std::fs::read_to_string(data("families/commands.json")).unwrap()).unwrap()
}

fn open(load: Load, model: &Path, mask: Token, shifted: bool) -> (Checkpoint, Box<dyn Model>) {
    let checkpoint = Checkpoint::open(model).unwrap().with_mask_token(mask).unwrap();
    let checkpoint = if shifted { checkpoint.with_shift(true) } else { checkpoint };
    let model = load(&checkpoint, Precision::F32);
    (checkpoint, model)
}

fn finish(jobs: &mut [Job], model: &mut dyn Predictor) {
    while Job::step(&mut *jobs, model).unwrap() {}
}

/// Checks the records that are not fragile, or one of `every`, and returns how many were checked.
pub(crate) fn every_family_decodes_as_its_official_code(load: Load, every: usize) -> usize {
    let commands = commands();
    let (mut failures, mut count) = (Vec::new(), 0);
    for (path, Prompts { mask_token_id, prompts }, goldens) in families() {
        let solid = goldens.iter().filter(|golden| !golden.fragile).step_by(every);
        let shifts = |golden: &Golden| golden.params.get("shift") == Some(&Json::Bool(true));
        let (shifted, plain): (Vec<&Golden>, Vec<&Golden>) = solid.partition(|golden| shifts(golden));
        for (goldens, shifted) in [(plain, false), (shifted, true)] {
            let (checkpoint, mut model) = open(load, &path, mask_token_id, shifted);
            // Together, so that canvases of all lengths, blocks and strategies share their passes.
            for goldens in goldens.chunks(12) {
                let plan = |golden: &&Golden| golden.request(&commands).plan(&checkpoint).unwrap();
                let plans: Vec<Plan> = goldens.iter().map(plan).collect();
                let start = |(golden, plan): (&&Golden, &Plan)| {
                    let prompt = &prompts[golden.prompt];
                    let Some(pad) = golden.params.get("pad_token_id") else {
                        return Job::new(plan.answer(prompt, model.description()).unwrap(), prompt.len(), Kind::Answer);
                    };
                    // The last token is given: a text with a gap.
                    let mut text = vec![mask_token_id; golden.gen_length];
                    text[golden.gen_length - 1] = pad.as_u64().unwrap() as Token;
                    let template = Template::of_tokens(text, mask_token_id).unwrap().after(prompt);
                    let run = plan.fill(&template, false, model.description()).unwrap();
                    Job::new(run, prompt.len(), template.kind())
                };
                let mut jobs: Vec<Job> = goldens.iter().zip(&plans).map(start).collect();
                finish(&mut jobs, model.as_mut());
                for ((golden, plan), job) in goldens.iter().zip(&plans).zip(&jobs) {
                    count += 1;
                    if let Some(difference) = golden.differs(&Record::without_text(&job.summary(plan), &[])) {
                        failures.push(format!("{}: {difference}", golden.id));
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} of {count} differ:\n{}", failures.len(), failures.join("\n"));
    count
}

/// A model that computes every canvas anew in every pass, or what is kept in pieces.
struct Otherwise {
    model: Box<dyn Model>,
    anew: bool,
    /// Positions of a piece, and calls of `observe` so far.
    piece: usize,
    calls: usize,
}

impl Predictor for Otherwise {
    fn description(&self) -> &Description {
        self.model.description()
    }

    fn observe(&mut self, views: &[View<'_>]) -> lacuna::Result<Vec<Observation>> {
        self.calls += 1;
        if !self.anew {
            return self.model.observe(views);
        }
        let anew: Vec<View<'_>> = views.iter().map(|view| View { compute: Compute::All, ..*view }).collect();
        self.model.observe(&anew)
    }

    fn read(&mut self, rows: &[Row<'_>]) -> lacuna::Result<Vec<Belief>> {
        self.model.read(rows)
    }

    fn forget(&mut self, run: u64) {
        self.model.forget(run);
    }

    fn piece(&self) -> usize {
        self.piece
    }
}

pub(crate) fn finished_blocks_that_are_kept_change_no_bit(load: Load, strategies: &[&str]) {
    for family in ["sdar", "fast-dllm-v2", "llada2"] {
        let (checkpoint, mut model) = open(load, &data("families").join(family), MASK, false);
        let otherwise = |anew, piece| Otherwise { model: load(&checkpoint, Precision::F32), anew, piece, calls: 0 };
        let (mut anew, mut in_pieces) = (otherwise(true, usize::MAX), otherwise(false, 8));
        let prompt: Vec<Token> = (0..37).map(|position| position * 31 % 500).collect();
        for &strategy in strategies {
            let request = Request::default().with("strategy", strategy).unwrap().with("gen_length", 20usize).unwrap();
            let plan = request.with("block_length", 8usize).unwrap().plan(&checkpoint).unwrap();
            let trace = |model: &mut dyn Predictor| {
                let mut runs: [Run; 1] = [plan.answer(&prompt, model.description()).unwrap()];
                decode(&mut runs, model).unwrap();
                let [run] = runs;
                (run.trace().clone(), run.rows_computed())
            };
            let (kept, computed) = trace(model.as_mut());
            assert!(kept == trace(&mut anew).0, "{family} {strategy}");
            assert!((kept.clone(), computed) == trace(&mut in_pieces), "{family} {strategy} in pieces");
            let passes = kept.deltas.len();
            assert!(
                strategy == "saber" || computed < 57 * passes,
                "{family} {strategy}: {computed} in {passes} passes"
            );
        }
        // More calls for the prompt of each.
        assert!(in_pieces.calls > anew.calls, "{family}: {} and {} calls", in_pieces.calls, anew.calls);
    }
}

pub(crate) fn texts_that_begin_alike_are_computed_once(load: Load, every: usize) {
    for (family, strategy) in [
        ("sdar", "dos+eb"),
        ("sdar", "sdar"),
        ("llada2", "llada2.1"),
        ("fast-dllm-v2", "fast-dllm-v2"),
        ("fast-dllm-v2", "dos"),
    ]
    .into_iter()
    .step_by(every)
    {
        let (checkpoint, mut model) = open(load, &data("families").join(family), MASK, false);
        let plan = Request::default().with("strategy", strategy).unwrap().with("gen_length", 16usize).unwrap();
        let plan = plan.with("block_length", 8usize).unwrap().plan(&checkpoint).unwrap();
        let run = |prompt: &[Token], model: &mut dyn Predictor| {
            let mut runs = [plan.answer(prompt, model.description()).unwrap()];
            decode(&mut runs, model).unwrap();
            let [run] = runs;
            (run.canvas().tokens().to_vec(), run.reused(), run.rows_computed())
        };
        let system: Vec<Token> = (0..27).map(|position| position * 31 % 500).collect();
        let other = [&system[..], &[7, 8, 9]].concat();
        let (alone, none, all) = run(&other, model.as_mut());
        model.reuse_prompts(1 << 20);
        let (first, nothing, _) = run(&system, model.as_mut());
        let (again, reused, fewer) = run(&other, model.as_mut());
        assert_eq!((none, nothing), (0, 0));
        assert_eq!(again, alone, "{family} {strategy}");
        let opens = strategy == "fast-dllm-v2";
        assert_eq!(reused, if opens { 16 } else { 24 }, "{family} {strategy}");
        assert!(fewer < all && model.prompt_bytes() <= 1 << 20);
        // A chat goes on: the answer before is part of the prompt.
        let turn = [&first[..], &[1, 2, 3]].concat();
        let (text, reused, _) = run(&turn, model.as_mut());
        model.reuse_prompts(0);
        assert_eq!((model.prompt_bytes(), run(&turn, model.as_mut()).0), (0, text), "{family} {strategy}");
        assert!(reused >= 32, "{family} {strategy}: {reused}");
    }
}
