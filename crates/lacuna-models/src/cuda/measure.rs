//! Peak throughput of this GPU.

use super::buffer::Buffer;
use super::event::Event;
use super::fp8::Fp8Rows;
use super::gpu::Gpu;
use super::kernel::{Factors, Kernels, NoiseCall, Output};
use super::matrix::{Elements, Operand, Target};
use super::product::Products;
use crate::{Precision, Result};

/// The side of the product that is measured: large enough for all of the GPU, and for its rate to be steady.
const SIDE: usize = 8192;
const REPETITIONS: usize = 10;

/// The most operations a second, in GFLOP/s: in bf16 and fp8 those of a large product of random values, in f32 multiply-adds
/// in registers.
pub(crate) fn ceiling_gflops(kernels: &Kernels, precision: Precision) -> Result<f64> {
    let gpu = kernels.gpu();
    if precision == Precision::F32 {
        let blocks = 4096;
        let output = Buffer::<f32>::new(gpu, 1)?;
        let operations = 2.0 * (blocks * 256 * 4096 * 16) as f64;
        return best(gpu, operations, || kernels.ceiling(blocks, output.all()));
    }
    let matrix = || -> Result<Elements> {
        let matrix = Elements::new(gpu, precision, SIDE * SIDE)?;
        let noise = NoiseCall { seed: 1, mean: 0.0, step: 0.5f32.powi(31) };
        kernels.noise(noise, Target::Elements(matrix.all()))?;
        Ok(matrix)
    };
    let (input, weights, output) = (matrix()?, matrix()?, matrix()?);
    let quantize = |matrix: &Elements| -> Result<Fp8Rows> {
        let quantized = Fp8Rows::new(gpu, SIDE, SIDE)?;
        kernels.quantize(matrix.all(), SIDE, quantized.all())?;
        Ok(quantized)
    };
    let quantized = match precision {
        Precision::Fp8 => Some([quantize(&input)?, quantize(&weights)?]),
        _ => None,
    };
    let [input, weights] = match &quantized {
        Some(quantized) => quantized.each_ref().map(|rows| Operand::Fp8(rows.all())),
        None => [&input, &weights].map(|matrix| Operand::Elements(matrix.all())),
    };
    let output = Output::Elements(output.all());
    let mut products = Products::new(gpu, precision)?;
    let factors = Factors { m: SIDE, n: SIDE, k: SIDE, input, weights, output };
    best(gpu, 2.0 * (SIDE as f64).powi(3), || products.multiply(kernels, factors))
}

/// Launches some 20 ms of work.
pub(crate) fn keep_busy(kernels: &Kernels) -> Result<()> {
    let output = Buffer::<f32>::new(kernels.gpu(), 1)?;
    kernels.ceiling(if kernels.gpu().is_emulated() { 1 } else { 40_000 }, output.all())
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
