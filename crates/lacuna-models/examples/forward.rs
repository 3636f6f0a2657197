//! Times a forward pass and reading, and the additional cost of dependency scores:
//! `cargo run --release -p lacuna-models --example forward [SHAPE] [LENGTH] [cuda]`.
#![allow(clippy::print_stdout)]

use std::time::Instant;

use lacuna::{AttentionSource, Draw, Row, Sampling, Target, TokenSet, View};
use lacuna_models::{Checkpoint, Device, Precision, Result, Shape, forward_flops, load};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let shape = arguments.next().and_then(|name| Shape::named(&name)).unwrap_or(Shape::Mini);
    let checkpoint = Checkpoint::random(shape)?;
    let length = arguments.next().and_then(|length| length.parse().ok()).unwrap_or(192);
    let (device, precisions) = match arguments.next().as_deref() {
        Some("cuda") => (Device::Cuda(vec![0]), &[Precision::Bf16][..]),
        _ => (Device::Cpu, &[Precision::F32, Precision::Bf16, Precision::Int8, Precision::Int4][..]),
    };
    for &precision in precisions {
        let start = Instant::now();
        let mut model = load(&checkpoint, Some(precision), &device)?;
        let loaded = start.elapsed();
        let mask = model.description().mask;
        let tokens: Vec<u32> = (0..length).map(|i| if i < length / 3 { 100 + i as u32 } else { mask }).collect();
        let attention = [AttentionSource { layer: model.description().layers / 6, heads: Vec::new() }];
        let (sampling, allowed) = (Sampling::default(), TokenSet::all_but(model.description().vocabulary, &[mask]));
        let row = |position| Row::new(0, Target::Position(position), &sampling, &allowed, Draw::new(0, 0, position));
        let all: Vec<Row<'_>> = (length / 3..length).map(row).collect();
        let view = |attention| View { tokens: &tokens, attention, ..View::default() };
        let mut best = [f64::INFINITY; 4];
        for _ in 0..30 {
            let mut time = |slot: usize, work: &mut dyn FnMut() -> lacuna::Result<()>| {
                let start = Instant::now();
                work().map(|()| best[slot] = best[slot].min(start.elapsed().as_secs_f64() * 1e3))
            };
            let mut observe = |attention| {
                model.observe(&[view(attention)])?;
                Ok(model.wait()?)
            };
            time(0, &mut || observe(&[])).expect("the canvas is sound");
            time(1, &mut || observe(&attention)).expect("the canvas is sound");
            time(2, &mut || model.read(&all[..1]).map(drop)).expect("the row was observed");
            time(3, &mut || model.read(&all).map(drop)).expect("the rows were observed");
        }
        let gflops = forward_flops(checkpoint.architecture(), length, length) / best[0] * 1e-6;
        println!("{precision:?}, {} at length {length}, loaded in {loaded:.1?}", shape.name());
        println!("  observe {:.2} ms ({gflops:.0} GFLOP/s), with scores {:.2} ms", best[0], best[1]);
        println!("  read 1 row {:.2} ms, {} rows {:.2} ms", best[2], all.len(), best[3]);
    }
    Ok(())
}
