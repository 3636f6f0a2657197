//! Speed of the matrix products: `cargo run --release -p lacuna-models --example products [PRECISION]`, with `LACUNA_ISA` for
//! another instruction set than the fastest.
#![allow(clippy::print_stdout)]

use lacuna_models::{Isa, Precision, Product, Result, ceiling_gflops, memory_gbps};

const PRECISIONS: [Precision; 4] = [Precision::F32, Precision::Bf16, Precision::Int8, Precision::Int4];

fn main() -> Result<()> {
    Isa::choose(None)?;
    let asked = std::env::args().nth(1);
    let precisions: Vec<Precision> = PRECISIONS
        .into_iter()
        .filter(|precision| asked.as_deref().is_none_or(|name| name == precision.name()))
        .collect();
    println!("memory: {:.1} GB/s", memory_gbps());
    for &precision in &precisions {
        let (isa, ceiling) = (Isa::in_use(precision), ceiling_gflops(precision));
        println!("{}: {isa}, at most {ceiling:.0} GFLOP/s", precision.name());
    }
    let medium = [[256, 1536, 1536], [256, 1536, 8192], [256, 4096, 1536], [640, 1536, 8192], [640, 4096, 1536]];
    let few = [[1, 1536, 32768], [16, 1536, 32768], [32, 1536, 32768]];
    for [m, k, n] in [[256, 320, 960], [256, 896, 320], [256, 512, 3072]].into_iter().chain(medium).chain(few) {
        let repetitions = if m * n < 1 << 20 { 200 } else { 20 };
        let rates: Vec<String> = precisions
            .iter()
            .map(|&precision| format!("{:>10.1}", Product::new(precision, [m, k, n]).gflops(repetitions)))
            .collect();
        println!("{m:>6} {k:>6} {n:>6} {}", rates.concat());
    }
    Ok(())
}
