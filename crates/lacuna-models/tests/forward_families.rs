//! The forward pass of further families against what their published code computed, on the CPU.

mod common;

use common::families::{self, attention, families, told};
use common::on_cpu;
use lacuna::View;
use lacuna_models::{Checkpoint, Precision};

#[test]
fn logits_and_dependency_scores_are_those_of_the_official_models() {
    families::logits_and_dependency_scores_are_those_of_the_official_models(on_cpu);
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
            let mut model = cases[2].load(on_cpu, &path, precision);
            model.observe(&[cases[2].view()]).unwrap();
            let logits = model.logits(0).unwrap().concat();
            let error = norm(&mut logits.iter().zip(&cases[2].logits).map(|(a, b)| a - b));
            let relative = error / norm(&mut cases[2].logits.iter().copied());
            assert!(relative < bound, "{name}: {precision:?} is off by {relative:.4} of the logits' norm");
        }
    }
}

#[test]
fn a_batch_is_each_view_alone_and_threads_change_no_bit() {
    for (name, path, cases) in families() {
        for precision in [Precision::F32, Precision::Bf16, Precision::Int8] {
            let run = |threads: usize| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| {
                    let mut model = cases[1].load(on_cpu, &path, precision);
                    let attention = attention(model.as_ref());
                    let views: Vec<View<'_>> =
                        cases.iter().map(|case| View { attention: &attention, ..case.view() }).collect();
                    let alone: Vec<_> = views.iter().map(|view| told(model.as_mut(), &[*view]).remove(0)).collect();
                    (told(model.as_mut(), &views), alone)
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
    families::what_a_block_sees_is_settled_before_it(on_cpu);
}

#[test]
fn shadows_keep_to_their_block() {
    families::shadows_keep_to_their_block(on_cpu);
}
