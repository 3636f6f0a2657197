//! How fast this machine computes.

use std::convert::Infallible;
use std::time::Instant;

use half::bf16;

use super::NO_FP8;
use super::kernel::{Activations, Element, Panels, ceiling_bf16, ceiling_f32, ceiling_i8, multiply};
use crate::Precision;

/// The most operations a second, in GFLOP/s, that this machine does in registers alone with all threads of the pool.
///
/// # Panics
/// For fp8, which the CPU does not have.
pub fn ceiling_gflops(precision: Precision) -> f64 {
    match precision {
        Precision::F32 => ceiling_f32(),
        Precision::Bf16 => ceiling_bf16(),
        Precision::Int8 => ceiling_i8(),
        Precision::Fp8 => unreachable!("{NO_FP8}"),
    }
}

/// A matrix product that is ready to be measured.
pub struct Product {
    operands: Operands,
    output: Vec<f32>,
    operations: f64,
}

enum Operands {
    F32(Activations<f32>, Panels<f32>),
    Bf16(Activations<bf16>, Panels<bf16>),
    Int8(Activations<i8>, Panels<i8>),
}

impl Product {
    /// A product of m rows, inner dimension k and n columns.
    ///
    /// # Panics
    /// For fp8, which the CPU does not have.
    pub fn new(precision: Precision, [m, k, n]: [usize; 3]) -> Self {
        fn operands<E: Element>(m: usize, k: usize, n: usize) -> (Activations<E>, Panels<E>) {
            let fill = |seed: usize, values: &mut [f32]| {
                values.iter_mut().enumerate().for_each(|(index, value)| *value = ((seed + index) % 7) as f32 - 3.0);
            };
            let mut activations = Activations::new();
            activations.fill(m, k, fill);
            let pack = |column, from, values: &mut [f32]| -> Result<(), Infallible> {
                fill(column + from, values);
                Ok(())
            };
            let Ok(weights) = Panels::pack(n, k, pack);
            (activations, weights)
        }
        let operands = match precision {
            Precision::F32 => {
                let (activations, weights) = operands(m, k, n);
                Operands::F32(activations, weights)
            }
            Precision::Bf16 => {
                let (activations, weights) = operands(m, k, n);
                Operands::Bf16(activations, weights)
            }
            Precision::Int8 => {
                let (activations, weights) = operands(m, k, n);
                Operands::Int8(activations, weights)
            }
            Precision::Fp8 => unreachable!("{NO_FP8}"),
        };
        Self { operands, output: vec![0.0; m * n], operations: 2.0 * (m * k * n) as f64 }
    }

    /// Computes it.
    pub fn compute(&mut self) {
        let Self { operands, output, .. } = self;
        match operands {
            Operands::F32(activations, weights) => multiply(activations, weights, output, weights.n(), false),
            Operands::Bf16(activations, weights) => multiply(activations, weights, output, weights.n(), false),
            Operands::Int8(activations, weights) => multiply(activations, weights, output, weights.n(), false),
        }
    }

    /// The best rate of `repetitions`, in GFLOP/s.
    pub fn gflops(&mut self, repetitions: usize) -> f64 {
        let seconds = (0..repetitions).map(|_| {
            let start = Instant::now();
            self.compute();
            start.elapsed().as_secs_f64()
        });
        let best = seconds.fold(f64::INFINITY, f64::min);
        self.operations / best * 1e-9
    }
}
