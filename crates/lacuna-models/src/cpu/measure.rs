//! Measured speed of this machine.

use std::convert::Infallible;
use std::time::Instant;

use serde::Serialize;

use super::NO_FP8;
use super::kernel::{Isa, ceiling_bf16, ceiling_f32, ceiling_i8, memory_bandwidth};
use super::matrix::{Input, Matrix};
use crate::Precision;
use crate::weight::Role;

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
        Precision::Int8 | Precision::Int4 => ceiling_i8(isa),
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
    input: Input,
    matrix: Matrix,
    output: Vec<f32>,
    operations: f64,
}

impl Product {
    /// A product of m rows, inner dimension k and n columns.
    ///
    /// # Panics
    /// For fp8, which the CPU does not have.
    pub fn new(precision: Precision, [m, k, n]: [usize; 3]) -> Self {
        let fill = |seed: usize, values: &mut [f32]| {
            values.iter_mut().enumerate().for_each(|(index, value)| *value = ((seed + index) % 7) as f32 - 3.0);
        };
        let read = |column, from, values: &mut [f32]| -> Result<(), Infallible> {
            fill(column + from, values);
            Ok(())
        };
        let Ok(matrix) = Matrix::pack(precision.format(Role::Output), n, k, read);
        let mut input = Input::new();
        input.fill(&matrix, m, fill);
        Self { input, matrix, output: vec![0.0; m * n], operations: 2.0 * (m * k * n) as f64 }
    }

    /// Computes it.
    pub fn compute(&mut self) {
        self.matrix.multiply(&self.input, &mut self.output, false);
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
