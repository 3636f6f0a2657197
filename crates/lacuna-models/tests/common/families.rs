//! The forward pass of further families: what their published code computed, and what block-causal models promise.
//!
//! With `LACUNA_GOLDENS` set to a folder of `<family>/{model/,forward.safetensors}`, those are compared as well.

use std::path::{Path, PathBuf};

use lacuna::{AttentionSource, Borders, Compute, Observation, Sampling, Target, Token, View};
use lacuna_models::{Checkpoint, Model, Precision};
use safetensors::SafeTensors;

use super::{Load, data, distance, on_cpu, row};

const FAMILIES: [&str; 8] =
    ["sdar", "fast-dllm-v2", "stable-diffcoder", "a2d-qwen3", "illada", "open-dcoder", "llada-moe-alt", "llada2"];

/// One input of a family, and the official model's answer.
pub(crate) struct Case {
    pub(crate) tokens: Vec<Token>,
    pub(crate) block_length: Option<usize>,
    pub(crate) logits: Vec<f32>,
    masked: Vec<usize>,
    dependency: Vec<f32>,
}

impl Case {
    fn mask(&self) -> Token {
        self.tokens[self.masked[0]]
    }

    pub(crate) fn load(&self, load: Load, model: &Path, precision: Precision) -> Box<dyn Model> {
        load(&Checkpoint::open(model).unwrap().with_mask_token(self.mask()).unwrap(), precision)
    }

    pub(crate) fn view(&self) -> View<'_> {
        View { tokens: &self.tokens, blocks: self.block_length.map(Borders::from_zero), ..View::default() }
    }
}

/// Names, checkpoints and cases.
pub(crate) fn families() -> Vec<(String, PathBuf, Vec<Case>)> {
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

/// All heads of each layer.
pub(crate) fn attention(model: &dyn Model) -> Vec<AttentionSource> {
    (0..model.description().layers).map(|layer| AttentionSource { layer, heads: Vec::new() }).collect()
}

/// Everything a model tells of some views in one pass.
pub(crate) fn told(model: &mut dyn Model, views: &[View<'_>]) -> Vec<(Observation, Vec<Vec<f32>>)> {
    let seen = model.observe(views).unwrap();
    seen.into_iter().enumerate().map(|(view, seen)| (seen, model.logits(view).unwrap())).collect()
}

pub(crate) fn logits_and_dependency_scores_are_those_of_the_official_models(load: Load) {
    for (name, path, cases) in families() {
        for (number, case) in cases.iter().enumerate() {
            let mut model = case.load(load, &path, Precision::F32);
            let attention = attention(model.as_ref());
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

pub(crate) fn what_a_block_sees_is_settled_before_it(load: Load) {
    for (name, path, cases) in families() {
        let case = &cases[2];
        let Some(block) = case.block_length else { continue };
        for precision in [Precision::F32, Precision::Bf16] {
            let mut model = case.load(load, &path, precision);
            let whole = told(model.as_mut(), &[case.view()]).remove(0).1;
            // What comes later does not exist for a block: the prefix alone gives the same bits.
            let prefix = 3 * block;
            let view = View { tokens: &case.tokens[..prefix], ..case.view() };
            assert!(told(model.as_mut(), &[view])[0].1 == whole[..prefix], "{name}");
            // One block on stored keys and values gives the same bits, too.
            let stored: Vec<usize> = (0..block).collect();
            model.observe(&[View { run: 1, compute: Compute::Only(&stored), ..case.view() }]).unwrap();
            let positions: Vec<usize> = (block..2 * block).collect();
            let view = View { run: 1, compute: Compute::Only(&positions), ..case.view() };
            model.observe(&[view]).unwrap();
            let sampling = Sampling::default();
            for &position in &positions[1..] {
                let row = row(0, Target::Position(position), &sampling);
                let belief = model.read(&[row]).unwrap().remove(0);
                let row = &whole[if model.description().shifted { position - 1 } else { position }];
                let best = (0..row.len()).rev().max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap();
                assert_eq!(belief.token as usize, best, "{name} position {position}");
            }
        }
    }
}

pub(crate) fn shadows_keep_to_their_block(load: Load) {
    let (_, path, cases) = families().remove(0);
    let case = &cases[2];
    let block = case.block_length.expect("SDAR is block-causal");
    let mut model = case.load(load, &path, Precision::F32);
    let sampling = Sampling::default();
    let mut read = |tokens: &[Token], shadows: &[usize]| {
        model.observe(&[View { tokens, shadows, ..case.view() }]).unwrap();
        let row = row(0, Target::Shadow(shadows[0]), &sampling);
        model.read(&[row]).unwrap().remove(0)
    };
    let mut later = case.tokens.clone();
    later[2 * block..].fill(1);
    let alone = read(&case.tokens, &[block]);
    assert_eq!(alone, read(&later, &[block]), "a shadow does not see later blocks");
    assert_eq!(alone, read(&case.tokens, &[block, 2 * block]), "nor their shadows");
    assert_ne!(alone, read(&case.tokens, &[block, block + 1]), "but those of its own block");
}

/// For the families that `suit`.
pub(crate) fn a_batch_of_a_family_is_each_view_alone(load: Load, precisions: &[Precision], suit: fn(&str) -> bool) {
    for (name, path, cases) in families().into_iter().filter(|(name, ..)| suit(name)) {
        for &precision in precisions {
            let mut model = cases[1].load(load, &path, precision);
            let attention = attention(model.as_ref());
            let views: Vec<View<'_>> = cases.iter().map(|case| View { attention: &attention, ..case.view() }).collect();
            let alone: Vec<_> = views.iter().map(|view| told(model.as_mut(), &[*view]).remove(0)).collect();
            assert!(told(model.as_mut(), &views) == alone, "{name} {precision:?}: a batch changes a view");
        }
    }
}

/// LLaDA2's weights rounded to fewer bits are off by about as much as int4 on the CPU is, or by less. Another expert for a row is another
/// row, so it is the median of the rows that counts.
pub(crate) fn experts_of_few_bits_are_near(load: Load, precision: Precision) {
    let (_, path, cases) = families().into_iter().find(|(name, ..)| name == "llada2").unwrap();
    let logits = |load: Load, precision: Precision| {
        let mut model = cases[1].load(load, &path, precision);
        told(model.as_mut(), &[cases[1].view()]).remove(0).1
    };
    let exact = logits(on_cpu, Precision::F32);
    let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|x| f64::from(x).powi(2)).sum::<f64>().sqrt();
    let off = |found: Vec<Vec<f32>>| {
        let of_row = |(exact, found): (&Vec<f32>, &Vec<f32>)| {
            norm(&mut found.iter().zip(exact).map(|(a, b)| a - b)) / norm(&mut exact.iter().copied())
        };
        let mut all: Vec<f64> = exact.iter().zip(&found).map(of_row).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let (found, cpu) = (off(logits(load, precision)), off(logits(on_cpu, Precision::Int4)));
    assert!(
        found > 1e-3 && found < 1.1 * cpu,
        "{precision:?} is off by {found:.3} of a row's norm, int4 on the CPU by {cpu:.3}"
    );
}
