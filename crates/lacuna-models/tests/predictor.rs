//! The predictor's promises: what a row says depends on nothing but its view.

mod common;

use common::promises::{self, MODELS, long, places};
use common::{all_layers, data, load, on_cpu, read, row, view};
use lacuna::{AttentionSource, Belief, Observation, Predictor, Sampling, Target, View};
use lacuna_models::{Checkpoint, CpuPredictor, Model, Precision};

const PRECISIONS: [Precision; 4] = [Precision::F32, Precision::Bf16, Precision::Int8, Precision::Int4];

#[test]
fn reading_in_pieces_is_reading_at_once() {
    promises::reading_in_pieces_is_reading_at_once(on_cpu, &PRECISIONS);
}

#[test]
fn a_batch_is_each_view_alone() {
    promises::a_batch_is_each_view_alone(on_cpu, &PRECISIONS);
}

#[test]
fn threads_change_nothing() {
    fn run(name: &str, precision: Precision, threads: usize) -> (Vec<Observation>, Vec<Belief>) {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut model = load(name, precision);
            let (tokens, attention) = (long(200), all_layers());
            let seen = model.observe(&[View { tokens: &tokens, attention: &attention, ..View::default() }]).unwrap();
            (seen, read(&mut model, 0, &places(200)))
        })
    }
    for (name, precision) in MODELS.into_iter().flat_map(|name| PRECISIONS.map(|precision| (name, precision))) {
        let one = run(name, precision, 1);
        assert_eq!(one, run(name, precision, 2));
        assert_eq!(one, run(name, precision, 5));
    }
}

#[test]
fn where_nothing_has_changed_a_cache_changes_no_bit() {
    promises::where_nothing_has_changed_a_cache_changes_no_bit(on_cpu, &PRECISIONS);
}

#[test]
fn scores_of_chosen_heads_average_to_those_of_all() {
    promises::scores_of_chosen_heads_average_to_those_of_all(on_cpu);
}

#[test]
fn shadows_see_everything_but_what_they_shadow_and_nobody_sees_them() {
    promises::shadows_see_everything_but_what_they_shadow_and_nobody_sees_them(on_cpu);
}

#[test]
fn guidance_mixes_the_logits_of_two_views() {
    promises::guidance_mixes_the_logits_of_two_views(on_cpu);
}

#[test]
fn what_is_remembered_is_compared_with_until_forgotten() {
    promises::what_is_remembered_is_compared_with_until_forgotten(on_cpu);
}

#[test]
fn draws_do_not_depend_on_company() {
    promises::draws_do_not_depend_on_company(on_cpu);
}

#[test]
fn requests_that_cannot_be_met_are_refused_in_a_sentence() {
    let mut llada = load("llada-tiny", Precision::F32);
    let mut dream = load("dream-tiny", Precision::F32);
    let (tokens, wrong, endless) = (long(8), [1, 512], vec![1; 4097]);
    let source = |layer, heads: &[usize]| [AttentionSource { layer, heads: heads.to_vec() }];
    let mut refusal = |view: View<'_>| llada.observe(&[view]).unwrap_err().to_string();
    let plain = view(&tokens);
    assert_eq!(refusal(view(&wrong)), "token 512 at position 1 is out of range: the vocabulary has ids 0 to 511");
    assert!(refusal(view(&endless)).starts_with("the canvas has 4097 positions, but the model's context ends at 4096"));
    assert_eq!(refusal(view(&[])), "a canvas without positions cannot be observed");
    let attention = source(4, &[]);
    assert!(refusal(View { attention: &attention, ..plain }).starts_with("layer 4 does not exist"));
    let attention = source(3, &[4]);
    assert!(refusal(View { attention: &attention, ..plain }).starts_with("head 4 does not exist"));
    assert_eq!(refusal(View { shadows: &[8], ..plain }), "position 8 has no token to shadow");

    assert!(llada.description().shadows && !dream.description().shadows);
    let refused = dream.observe(&[View { shadows: &[1], ..plain }]).unwrap_err().to_string();
    assert_eq!(refused, "a model whose prediction is shifted has no shadow rows");

    let sampling = Sampling::default();
    let refused = dream.read(&[row(0, Target::Position(0), &sampling)]).unwrap_err().to_string();
    assert_eq!(refused, "view 0 was not among the 0 observed last");
    llada.observe(&[plain]).unwrap();
    assert!(llada.read(&[row(0, Target::Position(8), &sampling)]).is_err());
    assert!(llada.read(&[row(0, Target::Shadow(1), &sampling)]).is_err());
    let foreign = lacuna::TokenSet::all_but(4096, &[]);
    let refused =
        llada.read(&[lacuna::Row { allowed: &foreign, ..row(0, Target::Position(0), &sampling) }]).unwrap_err();
    assert!(refused.to_string().contains("are not of this model's vocabulary of 512"), "{refused}");
    assert_eq!(llada.read(&[]).unwrap(), []);
    assert_eq!(llada.observe(&[]).unwrap(), []);
}

#[test]
fn a_predictor_tells_what_it_holds() {
    let checkpoint = Checkpoint::open(data("llada-tiny")).unwrap();
    let full = CpuPredictor::load(&checkpoint, None).unwrap();
    assert_eq!((full.precision(), full.default_batch()), (Precision::F32, rayon::current_num_threads()));
    let half = CpuPredictor::load(&checkpoint, Some(Precision::Bf16)).unwrap();
    let (full, half) = (full.memory(128), half.memory(128));
    assert!((checkpoint.bytes()..2 * checkpoint.bytes()).contains(&full.weights));
    assert!(half.weights < full.weights);
    assert!(full.buffers > 64 * 512 * 4);
    assert_eq!(checkpoint.parameters() * 4, checkpoint.bytes());
}
