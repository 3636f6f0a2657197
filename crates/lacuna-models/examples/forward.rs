//! How long a forward pass and reading take: `cargo run --release -p lacuna-models --example forward [MODEL] [LENGTH]`.
#![allow(clippy::print_stdout)]

use std::time::Instant;

use lacuna::{Draw, Lens, Place, Predictor, Row, Source, View};
use lacuna_models::{Checkpoint, CpuPredictor, Precision, Result};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let checkpoint = arguments.next().map_or_else(Checkpoint::embedded, Checkpoint::open)?;
    let length = arguments.next().and_then(|length| length.parse().ok()).unwrap_or(192);
    for precision in [Precision::F32, Precision::Bf16] {
        let start = Instant::now();
        let mut model = CpuPredictor::load(&checkpoint, Some(precision))?;
        let loaded = start.elapsed();
        let mask = model.description().mask;
        let tokens: Vec<u32> = (0..length).map(|i| if i < length / 3 { 100 + i as u32 } else { mask }).collect();
        let attention = [Source { layer: 0, heads: Vec::new() }];
        let lens = Lens { suppressed: vec![mask], ..Lens::default() };
        let row = |position| Row {
            view: 0,
            place: Place::At(position),
            lens: &lens,
            draw: Draw::new(0, 0, position),
            witness: None,
            guide: None,
            remember: false,
        };
        let all: Vec<Row<'_>> = (length / 3..length).map(row).collect();
        let mut best = [f64::INFINITY; 3];
        for _ in 0..20 {
            let view = View { run: 0, tokens: &tokens, attention: &attention, shadows: &[] };
            let mut time = |slot: usize, work: &mut dyn FnMut() -> lacuna::Result<()>| {
                let start = Instant::now();
                work().map(|()| best[slot] = best[slot].min(start.elapsed().as_secs_f64() * 1e3))
            };
            time(0, &mut || model.observe(&[view]).map(drop)).expect("the canvas is sound");
            time(1, &mut || model.read(&all[..1]).map(drop)).expect("the row was observed");
            time(2, &mut || model.read(&all).map(drop)).expect("the rows were observed");
        }
        let architecture = checkpoint.architecture();
        let per_row = architecture.hidden * (2 * architecture.hidden + 3 * architecture.mlp)
            + 2 * architecture.hidden * architecture.head_size() * architecture.key_value_heads;
        let gflops = 2e-6 * (architecture.layers - 1) as f64 * (per_row * length) as f64 / best[0];
        println!(
            "{precision:?}: loaded in {loaded:.1?}; length {length}: observe {:.2} ms ({gflops:.0} GFLOP/s in products), read 1 row {:.2} ms, \
             read {} rows {:.2} ms",
            best[0],
            best[1],
            all.len(),
            best[2]
        );
    }
    Ok(())
}
