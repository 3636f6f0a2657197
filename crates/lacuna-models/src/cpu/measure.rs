//! Measured speed of this machine.

use std::convert::Infallible;
use std::time::Instant;

use half::bf16;
use serde::Serialize;

use super::NO_FP8;
use super::kernel::{
    Activations, Element, Isa, Panels, ceiling_bf16, ceiling_f32, ceiling_i8, memory_bandwidth, multiply,
};
use crate::Precision;

/// The most operations a second, in GFLOP/s, that this machine does in registers alone with all threads of the pool, with the
/// instruction set in use.
///
/// # Panics
/// For fp8, which the CPU does not have.
pub fn ceiling_gflops(precision: Precision) -> f64 {
    ceiling_of(precision, Isa::in_use(precision))
}

/// As [`ceiling_gflops`], with an instruction set that this machine has.
///
/// # Panics
/// For fp8, which the CPU does not have, and for an instruction set that this machine does not have.
pub fn ceiling_of(precision: Precision, isa: Isa) -> f64 {
    assert!(isa.is_available(), "this machine does not have {isa}");
    match precision {
        Precision::F32 => ceiling_f32(isa),
        Precision::Bf16 => ceiling_bf16(isa),
        Precision::Int8 => ceiling_i8(isa),
        Precision::Fp8 => unreachable!("{NO_FP8}"),
    }
}

/// The most bytes a second, in GB/s, that all threads of the pool read from memory.
pub fn memory_gbps() -> f64 {
    memory_bandwidth()
}

/// The speed of this machine's CPU with all threads of the pool, measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CpuSpeed {
    /// The instruction set in use.
    pub isa: &'static str,
    /// Its ceiling, in GFLOP/s.
    pub ceiling_gflops: f64,
    /// The fastest instruction set.
    pub fastest_isa: &'static str,
    /// Its ceiling, in GFLOP/s.
    pub fastest_ceiling_gflops: f64,
    /// The rate at which memory is read, in GB/s.
    pub memory_gbps: f64,
}

impl CpuSpeed {
    /// Measures it for products of a precision.
    ///
    /// # Panics
    /// For fp8, which the CPU does not have.
    pub fn measure(precision: Precision) -> Self {
        let (isa, fastest) = (Isa::in_use(precision), Isa::fastest(precision));
        let ceiling_gflops = ceiling_of(precision, isa);
        let fastest_ceiling_gflops = if fastest == isa { ceiling_gflops } else { ceiling_of(precision, fastest) };
        Self {
            isa: isa.name(),
            ceiling_gflops,
            fastest_isa: fastest.name(),
            fastest_ceiling_gflops,
            memory_gbps: memory_gbps(),
        }
    }

    /// Bound of work with these operations and bytes read: `arithmetic` or `memory`, whichever takes longer alone.
    pub fn bound(&self, operations: f64, bytes: f64) -> &'static str {
        if bytes / self.memory_gbps > operations / self.ceiling_gflops { "memory" } else { "arithmetic" }
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
