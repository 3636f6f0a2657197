//! How fast products are on this machine.

use std::time::Instant;

use half::bf16;

use super::Precision;
use super::kernel::{Activations, Element, Panels, multiply};

/// The best rate, in GFLOP/s, of `repetitions` products of m rows, inner dimension k and n columns.
pub fn product_gflops(precision: Precision, [m, k, n]: [usize; 3], repetitions: usize) -> f64 {
    match precision {
        Precision::F32 => measure::<f32>(m, k, n, repetitions),
        Precision::Bf16 => measure::<bf16>(m, k, n, repetitions),
    }
}

fn measure<E: Element>(m: usize, k: usize, n: usize, repetitions: usize) -> f64 {
    let fill = |seed: usize, values: &mut [f32]| {
        values.iter_mut().enumerate().for_each(|(index, value)| *value = ((seed + index) % 7) as f32 - 3.0);
    };
    let mut activations = Activations::<E>::new();
    activations.fill(m, k, fill);
    let weights = Panels::<E>::pack::<()>(n, k, |column, from, values| {
        fill(column + from, values);
        Ok(())
    });
    let Ok(weights) = weights else { return 0.0 };
    let mut output = vec![0.0; m * n];
    let seconds = (0..repetitions).map(|_| {
        let start = Instant::now();
        multiply(&activations, &weights, &mut output, n, false);
        start.elapsed().as_secs_f64()
    });
    2.0 * (m * k * n) as f64 / seconds.fold(f64::INFINITY, f64::min) * 1e-9
}
