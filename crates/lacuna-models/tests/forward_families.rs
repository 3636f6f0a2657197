//! The forward pass of further families against what their published code computed.
//!
//! With `LACUNA_GOLDENS` set to a folder of `<family>/{model/,forward.safetensors}`, those are compared as well.

mod common;

use std::path::{Path, PathBuf};

use common::{data, distance};
use lacuna::{AttentionSource, Borders, Compute, Observation, Predictor, Token, View};
use lacuna_models::{Checkpoint, CpuPredictor, CudaPredictor, Error, Model, Precision};
use safetensors::SafeTensors;

const FAMILIES: [&str; 8] =
    ["sdar", "fast-dllm-v2", "stable-diffcoder", "a2d-qwen3", "illada", "open-dcoder", "llada-moe-alt", "llada2"];

/// One input of a family, and the official model's answer.
struct Case {
    tokens: Vec<Token>,
    block_length: Option<usize>,
    logits: Vec<f32>,
    masked: Vec<usize>,
    dependency: Vec<f32>,
}

impl Case {
    fn mask(&self) -> Token {
        self.tokens[self.masked[0]]
    }

    fn load(&self, model: &Path, precision: Precision) -> CpuPredictor {
        let checkpoint = Checkpoint::open(model).unwrap().with_mask_token(self.mask()).unwrap();
        CpuPredictor::load(&checkpoint, Some(precision)).unwrap()
    }

    fn view(&self) -> View<'_> {
        View { tokens: &self.tokens, blocks: self.block_length.map(Borders::from_zero), ..View::default() }
    }
}

/// Names, checkpoints and cases.
fn families() -> Vec<(String, PathBuf, Vec<Case>)> {
    let inside = FAMILIES.map(|name| (name.to_string(), data("families").join(name), data("families").join(name)));
    let mut all = inside.to_vec();
    if let Some(folder) = std::env::var_os("LACUNA_GOLDENS") {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_dir()) {
            all.push((entry.path().display().to_string(), entry.path().join("model"), entry.path()));
        }
    }
    all.into_iter().map(|(name, model, goldens)| (name, model, cases(&goldens.join("forward.safetensors")))).collect()
}

fn cases(file: &Path) -> Vec<Case> {
    let bytes = std::fs::read(file).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let words = |name: String| -> Vec<[u8; 4]> { file.tensor(&name).unwrap().data().as_chunks().0.to_vec() };
    let floats = |name: String| words(name).into_iter().map(f32::from_le_bytes).collect();
    let integers = |name: String| -> Vec<u32> { words(name).into_iter().map(u32::from_le_bytes).collect() };
    let case = |case: usize| Case {
        tokens: integers(format!("case{case}.input_ids")),
        block_length: Some(integers(format!("case{case}.block_length"))[0] as usize).filter(|length| *length > 0),
        logits: floats(format!("case{case}.logits")),
        masked: integers(format!("case{case}.masked_positions")).into_iter().map(|at| at as usize).collect(),
        dependency: floats(format!("case{case}.dep")),
    };
    (0..3).map(case).collect()
}

fn attention(model: &CpuPredictor) -> Vec<AttentionSource> {
    (0..model.description().layers).map(|layer| AttentionSource { layer, heads: Vec::new() }).collect()
}

#[test]
fn logits_and_dependency_scores_are_those_of_the_official_models() {
    for (name, path, cases) in families() {
        for (number, case) in cases.iter().enumerate() {
            let mut model = case.load(&path, Precision::F32);
            let attention = attention(&model);
            let view = View { attention: &attention, ..case.view() };
            let seen = model.observe(&[view]).unwrap().remove(0);
            let error = distance(&model.logits(0).unwrap().concat(), &case.logits);
            assert!(error < 2e-4, "{name} case {number}: logits are off by {error:e}");
            let at_masked = |scores: &Vec<f32>| case.masked.iter().map(|&position| scores[position]).collect();
            let scores: Vec<Vec<f32>> = seen.dependency.iter().map(at_masked).collect();
            let error = distance(&scores.concat(), &case.dependency);
            assert!(error < 5e-6, "{name} case {number}: dependency scores are off by {error:e}");
        }
    }
}

#[test]
fn sixteen_and_eight_bits_stay_close() {
    let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|x| f64::from(x * x)).sum::<f64>().sqrt();
    for (name, path, cases) in families() {
        // Tiny experts of random weights are chosen otherwise now and then, which changes a whole row.
        if Checkpoint::open(&path).unwrap().architecture().experts().is_some() {
            continue;
        }
        for (precision, bound) in [(Precision::Bf16, 0.02), (Precision::Int8, 0.06)] {
            let mut model = cases[2].load(&path, precision);
            model.observe(&[cases[2].view()]).unwrap();
            let logits = model.logits(0).unwrap().concat();
            let error = norm(&mut logits.iter().zip(&cases[2].logits).map(|(a, b)| a - b));
            let relative = error / norm(&mut cases[2].logits.iter().copied());
            assert!(relative < bound, "{name}: {precision:?} is off by {relative:.4} of the logits' norm");
        }
    }
}

/// Everything a model tells of some views in one pass.
fn told(model: &mut CpuPredictor, views: &[View<'_>]) -> Vec<(Observation, Vec<Vec<f32>>)> {
    let seen = model.observe(views).unwrap();
    seen.into_iter().enumerate().map(|(view, seen)| (seen, model.logits(view).unwrap())).collect()
}

#[test]
fn a_batch_is_each_view_alone_and_threads_change_no_bit() {
    for (name, path, cases) in families() {
        for precision in [Precision::F32, Precision::Bf16, Precision::Int8] {
            let run = |threads: usize| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| {
                    let mut model = cases[1].load(&path, precision);
                    let attention = attention(&model);
                    let views: Vec<View<'_>> =
                        cases.iter().map(|case| View { attention: &attention, ..case.view() }).collect();
                    let alone: Vec<_> = views.iter().map(|view| told(&mut model, &[*view]).remove(0)).collect();
                    (told(&mut model, &views), alone)
                })
            };
            let (together, alone) = run(1);
            assert!(together == alone, "{name} {precision:?}: a batch changes a view");
            assert!(run(3).0 == together, "{name} {precision:?}: threads change a view");
        }
    }
}

#[test]
fn what_a_block_sees_is_settled_before_it() {
    for (name, path, cases) in families() {
        let case = &cases[2];
        let Some(block) = case.block_length else { continue };
        for precision in [Precision::F32, Precision::Bf16] {
            let mut model = case.load(&path, precision);
            let whole = told(&mut model, &[case.view()]).remove(0).1;
            // What comes later does not exist for a block: the prefix alone gives the same bits.
            let prefix = 3 * block;
            let view = View { tokens: &case.tokens[..prefix], ..case.view() };
            assert!(told(&mut model, &[view])[0].1 == whole[..prefix], "{name}");
            // One block on stored keys and values gives the same bits, too.
            let stored: Vec<usize> = (0..block).collect();
            model.observe(&[View { run: 1, compute: Compute::Only(&stored), ..case.view() }]).unwrap();
            let positions: Vec<usize> = (block..2 * block).collect();
            let view = View { run: 1, compute: Compute::Only(&positions), ..case.view() };
            model.observe(&[view]).unwrap();
            let sampling = lacuna::Sampling::default();
            for &position in &positions[1..] {
                let row = common::row(0, lacuna::Target::Position(position), &sampling);
                let belief = model.read(&[row]).unwrap().remove(0);
                let row = &whole[if model.description().shifted { position - 1 } else { position }];
                let best = (0..row.len()).rev().max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap();
                assert_eq!(belief.token as usize, best, "{name} position {position}");
            }
        }
    }
}

#[test]
fn shadows_keep_to_their_block() {
    let (_, path, cases) = families().remove(0);
    let case = &cases[2];
    let block = case.block_length.expect("SDAR is block-causal");
    let mut model = case.load(&path, Precision::F32);
    let sampling = lacuna::Sampling::default();
    let mut read = |tokens: &[Token], shadows: &[usize]| {
        model.observe(&[View { tokens, shadows, ..case.view() }]).unwrap();
        let row = common::row(0, lacuna::Target::Shadow(shadows[0]), &sampling);
        model.read(&[row]).unwrap().remove(0)
    };
    let mut later = case.tokens.clone();
    later[2 * block..].fill(1);
    let alone = read(&case.tokens, &[block]);
    assert_eq!(alone, read(&later, &[block]), "a shadow does not see later blocks");
    assert_eq!(alone, read(&case.tokens, &[block, 2 * block]), "nor their shadows");
    assert_ne!(alone, read(&case.tokens, &[block, block + 1]), "but those of its own block");
}

#[test]
fn what_the_gpu_cannot_compute_yet_is_refused_in_a_sentence() {
    for (name, part) in
        [("sdar", "block-causal attention"), ("llada2", "a mixture of experts"), ("a2d-qwen3", "normalised")]
    {
        let path = data("families").join(name);
        let checkpoint = Checkpoint::open(path).unwrap().with_mask_token(0).unwrap();
        let refused = CudaPredictor::load(&checkpoint, Some(Precision::F32)).err().unwrap();
        assert!(matches!(refused, Error::NotOnGpu { .. }));
        let refused = refused.to_string();
        assert!(
            refused.starts_with(part) && refused.ends_with("not supported on CUDA yet: use device cpu"),
            "{refused}"
        );
    }
}
