//! The forward pass against what PyTorch computed with the official models.

mod common;

use common::{all_layers, distance, goldens, load, read};
use lacuna::{Predictor, Target, View};
use lacuna_models::{CpuPredictor, Model, Precision};

fn logits(model: &mut CpuPredictor) -> Vec<f32> {
    model.logits(0).unwrap().concat()
}

#[test]
fn logits_and_dependency_scores_are_those_of_the_official_models() {
    for name in ["llada-tiny", "dream-tiny"] {
        let mut model = load(name, Precision::F32);
        for (case, golden) in goldens(name).into_iter().enumerate() {
            let attention = all_layers();
            let view = View { tokens: &golden.tokens, attention: &attention, ..View::default() };
            let seen = model.observe(&[view]).unwrap().remove(0);
            let error = distance(&logits(&mut model), &golden.logits);
            assert!(error < 2e-4, "{name} case {case}: logits are off by {error:e}");

            let at_masked = |scores: &Vec<f32>| golden.masked.iter().map(|&position| scores[position]).collect();
            let scores: Vec<Vec<f32>> = seen.dependency.iter().map(at_masked).collect();
            let error = distance(&scores.concat(), &golden.dependency);
            assert!(error < 5e-6, "{name} case {case}: dependency scores are off by {error:e}");
            let elsewhere = (0..golden.tokens.len()).filter(|position| !golden.masked.contains(position));
            assert!(elsewhere.into_iter().all(|position| seen.dependency.iter().all(|scores| scores[position] == 0.0)));
        }
    }
}

#[test]
fn beliefs_come_from_the_logits_shifted_for_dream() {
    for (name, shift) in [("llada-tiny", 0), ("dream-tiny", 1)] {
        let mut model = load(name, Precision::F32);
        for golden in goldens(name) {
            let length = golden.tokens.len();
            model.observe(&[common::view(&golden.tokens)]).unwrap();
            let rows = model.logits(0).unwrap();
            let places: Vec<Target> = (0..length).map(Target::Position).collect();
            for (position, belief) in read(&mut model, 0, &places).into_iter().enumerate() {
                let row = &rows[if shift == 1 { position.saturating_sub(1) } else { position }];
                let best = (0..511).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap();
                assert_eq!(belief.token as usize, best, "{name} position {position}");
            }
        }
    }
}

#[test]
fn a_sharded_checkpoint_is_the_same_model_bit_for_bit() {
    let (mut single, mut sharded) = (load("llada-tiny", Precision::F32), load("llada-tiny-sharded", Precision::F32));
    for golden in goldens("llada-tiny") {
        single.observe(&[common::view(&golden.tokens)]).unwrap();
        sharded.observe(&[common::view(&golden.tokens)]).unwrap();
        assert_eq!(logits(&mut single), logits(&mut sharded));
    }
}

#[test]
fn bf16_stays_close_to_f32() {
    for name in ["llada-tiny", "dream-tiny"] {
        let mut model = load(name, Precision::Bf16);
        for golden in goldens(name) {
            model.observe(&[common::view(&golden.tokens)]).unwrap();
            let logits = logits(&mut model);
            let squares = |values: &mut dyn Iterator<Item = f32>| values.map(|x| f64::from(x * x)).sum::<f64>().sqrt();
            let error = squares(&mut logits.iter().zip(&golden.logits).map(|(a, b)| a - b));
            let relative = error / squares(&mut golden.logits.iter().copied());
            assert!(relative < 0.02, "{name}: bf16 is off by {relative:.4} of the logits' norm");
        }
    }
}
