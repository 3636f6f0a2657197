//! How fast the matrix products are: `cargo run --release -p lacuna-models --example products`.
#![allow(clippy::print_stdout)]

use lacuna_models::{Precision, Product};

fn main() {
    println!("{:>6} {:>6} {:>6} {:>10} {:>10} {:>10}", "m", "k", "n", "f32", "bf16", "int8");
    let medium = [[256, 1536, 1536], [256, 1536, 8192], [256, 4096, 1536], [640, 1536, 8192], [640, 4096, 1536]];
    let few = [[1, 1536, 32768], [16, 1536, 32768], [32, 1536, 32768]];
    for [m, k, n] in [[256, 320, 960], [256, 896, 320], [256, 512, 3072]].into_iter().chain(medium).chain(few) {
        let repetitions = if m * n < 1 << 20 { 200 } else { 20 };
        let rate = |precision| Product::new(precision, [m, k, n]).gflops(repetitions);
        let [f32, bf16, int8] = [Precision::F32, Precision::Bf16, Precision::Int8].map(rate);
        println!("{m:>6} {k:>6} {n:>6} {f32:>10.1} {bf16:>10.1} {int8:>10.1}");
    }
}
