//! How fast the matrix products are: `cargo run --release -p lacuna-models --example products`.
#![allow(clippy::print_stdout)]

use lacuna_models::{Precision, product_gflops};

fn main() {
    println!("{:>6} {:>6} {:>6} {:>10} {:>10}", "m", "k", "n", "f32", "bf16");
    let shapes = [(320, 960), (320, 896), (896, 320), (1536, 4096), (4096, 1536)];
    for (m, (k, n)) in shapes.map(|shape| (192, shape)).into_iter().chain([(1, (4096, 4096)), (16, (4096, 4096))]) {
        let rate = |precision| product_gflops(precision, [m, k, n], 200);
        println!("{m:>6} {k:>6} {n:>6} {:>10.1} {:>10.1}", rate(Precision::F32), rate(Precision::Bf16));
    }
}
