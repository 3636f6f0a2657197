//! Forward passes and reading on the small shape: `cargo bench -p lacuna-models --bench steps`.

use divan::Bencher;
use lacuna::{AttentionSource, Draw, Predictor, Row, Sampling, Target, Token, TokenSet, View};
use lacuna_models::{Checkpoint, CpuPredictor, Precision, Shape};

const PRECISIONS: [Precision; 4] = [Precision::F32, Precision::Bf16, Precision::Int8, Precision::Int4];
const LENGTHS: [usize; 3] = [128, 256, 1024];

fn main() {
    divan::main();
}

fn model(precision: Precision) -> CpuPredictor {
    let checkpoint = Checkpoint::random(Shape::Small).expect("the shape is sound");
    CpuPredictor::load(&checkpoint, Some(precision)).expect("random weights are finite")
}

/// A canvas whose second half is masked.
fn canvas(model: &CpuPredictor, length: usize) -> Vec<Token> {
    let mask = model.description().mask;
    (0..length).map(|i| if i < length / 2 { i as Token } else { mask }).collect()
}

#[divan::bench(args = LENGTHS)]
fn observe_bf16(bencher: Bencher<'_, '_>, length: usize) {
    observe(bencher, Precision::Bf16, length, &[]);
}

#[divan::bench(args = LENGTHS)]
fn observe_bf16_with_scores(bencher: Bencher<'_, '_>, length: usize) {
    observe(bencher, Precision::Bf16, length, &[AttentionSource { layer: 1, heads: Vec::new() }]);
}

#[divan::bench(args = PRECISIONS)]
fn observe_256(bencher: Bencher<'_, '_>, precision: Precision) {
    observe(bencher, precision, 256, &[]);
}

fn observe(bencher: Bencher<'_, '_>, precision: Precision, length: usize, attention: &[AttentionSource]) {
    let mut model = model(precision);
    let tokens = canvas(&model, length);
    bencher.bench_local(|| model.observe(&[View { tokens: &tokens, attention, ..View::default() }]));
}

#[divan::bench(args = [1, 8, 32, 128])]
fn read_bf16(bencher: Bencher<'_, '_>, rows: usize) {
    read(bencher, rows, false);
}

#[divan::bench(args = [1, 8, 32, 128])]
fn read_bf16_and_compare(bencher: Bencher<'_, '_>, rows: usize) {
    read(bencher, rows, true);
}

fn read(bencher: Bencher<'_, '_>, rows: usize, remember: bool) {
    let mut model = model(Precision::Bf16);
    let tokens = canvas(&model, 256);
    model.observe(&[View { tokens: &tokens, ..View::default() }]).expect("the canvas is sound");
    let (sampling, description) = (Sampling::default(), model.description());
    let allowed = TokenSet::all_but(description.vocabulary, &[description.mask]);
    let row = |position| Row {
        remember,
        ..Row::new(0, Target::Position(position), &sampling, &allowed, Draw::new(0, 0, position))
    };
    let rows: Vec<Row<'_>> = (128..128 + rows).map(row).collect();
    bencher.bench_local(|| model.read(&rows));
}
