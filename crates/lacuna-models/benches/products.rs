//! Matrix products in every precision, at the shapes of the models: `cargo bench -p lacuna-models --bench products`.

use divan::Bencher;
use divan::counter::ItemsCount;
use lacuna_models::{Precision, Product};

/// Rows, inner dimension, columns.
const SHAPES: [[usize; 3]; 6] =
    [[256, 320, 960], [256, 512, 3072], [256, 1536, 8192], [640, 4096, 1536], [1, 1536, 32_768], [32, 1536, 32_768]];

fn main() {
    divan::main();
}

fn product(bencher: Bencher<'_, '_>, precision: Precision, shape: [usize; 3]) {
    let mut product = Product::new(precision, shape);
    let operations = 2 * shape.iter().product::<usize>();
    bencher.counter(ItemsCount::new(operations)).bench_local(|| product.compute());
}

#[divan::bench(args = SHAPES)]
fn f32(bencher: Bencher<'_, '_>, shape: [usize; 3]) {
    product(bencher, Precision::F32, shape);
}

#[divan::bench(args = SHAPES)]
fn bf16(bencher: Bencher<'_, '_>, shape: [usize; 3]) {
    product(bencher, Precision::Bf16, shape);
}

#[divan::bench(args = SHAPES)]
fn int8(bencher: Bencher<'_, '_>, shape: [usize; 3]) {
    product(bencher, Precision::Int8, shape);
}
