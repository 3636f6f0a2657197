//! The CPU's kernels.

use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;

use half::bf16;

use super::case::{Case, Scale, Size, noise};
use super::run::CpuKernel;
use crate::cpu::kernel::{
    Activations, Columns, Element, Nibbles, Panels, Summary, divergence, exponentials, largest, magnitude, multiply,
    rms_norm, rotate, scale, silu_times,
};

/// All of them.
pub(super) const KERNELS: &[CpuKernel] = &[
    ("gemm", &[("f32", gemm::<f32>), ("bf16", gemm::<bf16>), ("int8", gemm::<i8>), ("int4", gemm_int4)]),
    ("rms_norm", &[("f32", norm)]),
    ("silu_times", &[("f32", gate)]),
    ("rotate", &[("f32", rotation)]),
    ("softmax", &[("f32", softmax)]),
    ("magnitude", &[("f32", magnitudes)]),
    ("summary", &[("f32", summary)]),
    ("divergence", &[("f32", divergences)]),
];

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

/// A case whose kernel writes `length` values.
fn case(
    length: usize,
    tolerance: f64,
    [bytes, operations]: [f64; 2],
    run: impl Fn(&mut [f32]) + 'static,
    exact: impl Fn() -> Vec<f64> + 'static,
) -> Case {
    let output = Rc::new(RefCell::new(vec![0.0f32; length]));
    let found = output.clone();
    Case {
        launch: Box::new(move || {
            run(&mut output.borrow_mut());
            Ok(())
        }),
        found: Box::new(move || Ok(wide(&found.borrow()))),
        exact: Box::new(move || Ok(exact())),
        tolerance,
        scale: Scale::Largest,
        bytes,
        operations,
    }
}

fn gemm<E: Element>(size: Size) -> Case {
    // Operands are rounded to the element's dtype.
    let tolerance = [5e-2, 1e-2, 1e-5][size_of::<E>() / 2];
    product(size, size_of::<E>() as f64, tolerance, |n, k, source| Panels::<E>::pack(n, k, source))
}

fn gemm_int4(size: Size) -> Case {
    product(size, 0.53, 0.3, |n, k, source| Nibbles::pack(n, k, source))
}

/// A product with columns of so many bytes a weight.
fn product<E: Element, C: Columns<E> + 'static>(
    size: Size,
    bytes: f64,
    tolerance: f64,
    pack: impl FnOnce(
        usize,
        usize,
        &(dyn Fn(usize, usize, &mut [f32]) -> Result<(), Infallible> + Sync),
    ) -> Result<C, Infallible>,
) -> Case {
    let (m, k, n) = (size.of([1, 13, 40], 256), size.of([7, 333, 1100], 1536), size.of([1, 33, 95], 4096));
    let (rows, columns) = (noise(1, m * k), noise(2, n * k));
    let mut activations = Activations::<E>::new();
    activations.fill(m, k, |row, values| values.copy_from_slice(&rows[row * k..][..k]));
    let Ok(weights) = pack(n, k, &|column, from, values: &mut [f32]| {
        values.copy_from_slice(&columns[column * k + from..][..values.len()]);
        Ok(())
    });
    let exact = move || {
        let product = |i: usize| -> f64 {
            let (row, column) = (&rows[i / n * k..][..k], &columns[i % n * k..][..k]);
            row.iter().zip(column).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
        };
        (0..m * n).map(product).collect()
    };
    let values = (m * k * size_of::<E>() + m * n * 4) as f64;
    let work = [values + (n * k) as f64 * bytes, 2.0 * (m * n * k) as f64];
    case(m * n, tolerance, work, move |output| multiply(&activations, &weights, output, n, false), exact)
}

fn norm(size: Size) -> Case {
    let width = size.of([1, 37, 1001], 4096);
    let (row, weight) = (noise(1, width), noise(2, width));
    let (input, factors) = (wide(&row), wide(&weight));
    let exact = move || {
        let root = (input.iter().map(|x| x * x).sum::<f64>() / width as f64 + 1e-5).sqrt();
        input.iter().zip(&factors).map(|(x, weight)| x / root * weight).collect()
    };
    let work = [(3 * width * 4) as f64, (4 * width) as f64];
    case(width, 1e-5, work, move |output| rms_norm(&row, &weight, 1e-5, output), exact)
}

fn gate(size: Size) -> Case {
    let width = size.of([1, 37, 1001], 12_288);
    let (gates, ups) = (noise(1, width), noise(2, width));
    let (x, y) = (wide(&gates), wide(&ups));
    let exact = move || x.iter().zip(&y).map(|(x, y)| x / (1.0 + (-x).exp()) * y).collect();
    let work = [(3 * width * 4) as f64, (4 * width) as f64];
    case(
        width,
        1e-5,
        work,
        move |output| {
            output.copy_from_slice(&gates);
            silu_times(output, &ups);
        },
        exact,
    )
}

fn rotation(size: Size) -> Case {
    let half = size.of([1, 11, 40], 64);
    let (row, angles) = (noise(1, 2 * half), noise(2, half));
    let cosines: Vec<f32> = angles.iter().map(|angle| angle.cos()).collect();
    let sines: Vec<f32> = angles.iter().map(|angle| angle.sin()).collect();
    let (x, cos, sin) = (wide(&row), wide(&cosines), wide(&sines));
    let exact = move || {
        let first = (0..half).map(|i| (x[i] * cos[i] - x[i + half] * sin[i]) * 0.5);
        first.chain((0..half).map(|i| (x[i + half] * cos[i] + x[i] * sin[i]) * 0.5)).collect()
    };
    let work = [(6 * half * 4) as f64, (8 * half) as f64];
    case(2 * half, 1e-5, work, move |output| rotate(&row, &cosines, &sines, 0.5, output), exact)
}

/// Attention's softmax: the largest score, exponentials with their sum and the sum over open keys, and the division.
fn softmax(size: Size) -> Case {
    let length = size.of([1, 37, 1001], 640);
    let row: Vec<f32> = noise(1, length).iter().map(|x| x * 8.0).collect();
    let open: Vec<f32> = (0..length).map(|i| f32::from(u8::from(i % 3 == 0))).collect();
    let (x, opened) = (wide(&row), wide(&open));
    let exact = move || {
        let weights: Vec<f64> = x.iter().map(|x| x.exp()).collect();
        let total: f64 = weights.iter().sum();
        let mass: f64 = weights.iter().zip(&opened).map(|(weight, open)| weight * open).sum();
        weights.iter().map(|weight| weight / total).chain([mass / total]).collect()
    };
    let run = move |output: &mut [f32]| {
        let (weights, mass) = output.split_at_mut(length);
        weights.copy_from_slice(&row);
        let top = largest(weights);
        let [total, part] = exponentials(weights, top, &open);
        scale(weights, (1.0 / total) as f32);
        mass[0] = (part / total) as f32;
    };
    case(length + 1, 1e-5, [(4 * length * 4) as f64, (30 * length) as f64], run, exact)
}

fn magnitudes(size: Size) -> Case {
    let width = size.of([1, 37, 1001], 4096);
    let row = noise(1, width);
    let x = wide(&row);
    let exact = move || vec![x.iter().fold(0.0, |a: f64, b| a.max(b.abs()))];
    case(1, 0.0, [(width * 4) as f64, width as f64], move |output| output[0] = magnitude(&row), exact)
}

/// Largest logits, sum of exponentials and entropy of a distribution.
fn summary(size: Size) -> Case {
    let length = size.of([2, 333, 5001], 126_464);
    let logits: Vec<f32> = noise(1, length).iter().map(|x| x * 10.0).collect();
    let x = wide(&logits);
    let exact = move || {
        let mut sorted = x.clone();
        sorted.sort_unstable_by(|a, b| b.total_cmp(a));
        let total: f64 = x.iter().map(|x| (x - sorted[0]).exp()).sum();
        let weighted: f64 = x.iter().map(|x| (x - sorted[0]) * (x - sorted[0]).exp()).sum();
        vec![sorted[0], sorted[1], total.ln(), total.ln() - weighted / total]
    };
    let run = move |output: &mut [f32]| {
        let found = Summary::of(&logits);
        let log_total = found.total.ln();
        let entropy = log_total - found.weighted / found.total;
        output.copy_from_slice(&[found.first, found.second, log_total as f32, entropy as f32]);
    };
    case(4, 1e-5, [(length * 4) as f64, (30 * length) as f64], run, exact)
}

fn divergences(size: Size) -> Case {
    let length = size.of([2, 333, 5001], 126_464);
    let [now, before] = [1, 2].map(|seed| noise(seed, length));
    let log_total = |logits: &[f32]| logits.iter().map(|&x| f64::from(x).exp()).sum::<f64>().ln();
    let (now_total, before_total) = (log_total(&now), log_total(&before));
    let (x, y) = (wide(&now), wide(&before));
    let exact = move || {
        let term = |(x, y): (&f64, &f64)| {
            let (p, q) = ((x - now_total).exp(), (y - before_total).exp());
            p * ((p + 1e-12).ln() - (q + 1e-12).ln())
        };
        vec![x.iter().zip(&y).map(term).sum()]
    };
    let run = move |output: &mut [f32]| output[0] = divergence((&now, now_total), (&before, before_total)) as f32;
    case(1, 1e-3, [(2 * length * 4) as f64, (60 * length) as f64], run, exact)
}
