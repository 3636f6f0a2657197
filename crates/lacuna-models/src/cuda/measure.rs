//! How fast this GPU computes.

use std::sync::Arc;

use super::buffer::Buffer;
use super::event::Event;
use super::fp8::Quantized;
use super::gpu::Gpu;
use super::kernel::{Kernels, Noise};
use super::matrix::Elements;
use super::product::{Factors, Products, Units};
use crate::{Precision, Result};

/// The side of the product that is measured: large enough for all of the GPU, and for its rate to be steady.
const SIDE: usize = 8192;
const REPETITIONS: usize = 10;

/// The most operations a second, in GFLOP/s: in bf16 and fp8 those of a large product of random numbers, in f32 multiply-adds
/// in registers.
pub(crate) fn ceiling_gflops(gpu: &Arc<Gpu>, kernels: &Kernels, precision: Precision) -> Result<f64> {
    if precision == Precision::F32 {
        let (blocks, threads) = (4096, 256);
        let output = Buffer::<f32>::new(gpu, 1)?;
        let operations = 2.0 * (blocks * threads * 4096 * 16) as f64;
        return best(gpu, operations, || gpu.launch(&kernels.ceiling, [blocks, 1], threads, 0, &output.at(0)));
    }
    let matrix = || -> Result<Elements> {
        let matrix = Elements::new(gpu, precision, SIDE * SIDE)?;
        let arguments = Noise {
            target: matrix.at(0),
            length: (SIDE * SIDE) as u64,
            seed: 1,
            mean: 0.0,
            step: 0.5f32.powi(31),
            wide: 0,
        };
        gpu.launch(&kernels.noise, [4096, 1], 256, 0, &arguments)?;
        Ok(matrix)
    };
    let (input, weights, output) = (matrix()?, matrix()?, matrix()?);
    let mut products = Products::new(gpu, precision)?;
    let mut factors = Factors {
        m: SIDE,
        n: SIDE,
        k: SIDE,
        input: input.at(0),
        weights: weights.at(0),
        output: output.at(0),
        units: None,
        wide: false,
        add: false,
    };
    let quantize = |matrix: &Elements| -> Result<Quantized> {
        let quantized = Quantized::new(gpu, SIDE, SIDE)?;
        quantized.fill(gpu, kernels, 0..SIDE, SIDE, matrix.at(0))?;
        Ok(quantized)
    };
    let quantized = match precision {
        Precision::Fp8 => Some([quantize(&input)?, quantize(&weights)?]),
        _ => None,
    };
    if let Some([input, weights]) = &quantized {
        factors.units = Some(Units { input: input.units.at(0), weights: weights.units.at(0) });
        (factors.input, factors.weights) = (input.numbers.at(0), weights.numbers.at(0));
    }
    best(gpu, 2.0 * (SIDE as f64).powi(3), || products.multiply(kernels, factors))
}

/// The best rate of several.
fn best(gpu: &Gpu, operations: f64, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let (begin, end) = (Event::new()?, Event::new()?);
    let mut milliseconds = f32::INFINITY;
    for _ in 0..REPETITIONS {
        begin.record(gpu)?;
        work()?;
        end.record(gpu)?;
        gpu.wait()?;
        milliseconds = milliseconds.min(begin.until(&end)?);
    }
    Ok(operations / f64::from(milliseconds) * 1e-6)
}
