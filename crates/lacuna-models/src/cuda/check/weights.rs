//! Weights on their way into the GPU's memory.

use std::rc::Rc;

use half::f16;

use super::lab::{Lab, wide};
use crate::Result;
use crate::check::{Case, Scale, Size, noise as values};
use crate::cuda::kernel::{NoiseCall, Source, to_u32};
use crate::cuda::matrix::Target;

pub(super) fn convert(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let length = size.of([1, 37, 5001], 64 << 20);
    let mut halves: Vec<f16> = values(1, length).into_iter().map(f16::from_f32).collect();
    // The lowest index of a value that is not finite is noted.
    let wrong = length / 2;
    halves[wrong] = f16::INFINITY;
    let bytes: Vec<u8> = halves.iter().flat_map(|x| x.to_ne_bytes()).collect();
    let source = lab.buffer(&bytes)?;
    let output = Rc::new((lab.zeros::<f32>(length)?, lab.buffer(&[u64::MAX])?));
    let (its, target) = (lab.clone(), output.clone());
    let launch = move || {
        let source = Source { bytes: source.all(), dtype: 1, first: 100, length };
        its.kernels.convert(source, Target::F32(target.0.all()), target.1.all())
    };
    let its = lab.clone();
    Ok(Case {
        launch: Box::new(launch),
        found: Box::new(move || {
            let not_finite = its.read(&output.1)?[0] as f64;
            Ok([wide(&its.read(&output.0)?), vec![not_finite]].concat())
        }),
        exact: Box::new(move || Ok(halves.iter().map(|x| x.to_f64()).chain([100.0 + wrong as f64]).collect())),
        tolerance: 0.0,
        scale: Scale::Largest,
        bytes: (length * 6) as f64,
        operations: 0.0,
    })
}

pub(super) fn noise(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let length = size.of([1, 37, 5001], 64 << 20);
    let (seed, mean, step) = (12_345, 0.25, 0.5f32.powi(30));
    let output = Rc::new(lab.zeros::<f32>(length)?);
    let (its, target) = (lab.clone(), output.clone());
    let launch = move || its.kernels.noise(NoiseCall { seed, mean, step }, Target::F32(target.all()));
    let its = lab.clone();
    Ok(Case {
        launch: Box::new(launch),
        found: Box::new(move || Ok(wide(&its.read(&output)?))),
        exact: Box::new(move || {
            // As checkpoint/noise.rs has it.
            let value = |index: u32| {
                let mut x = index.wrapping_add(seed).wrapping_mul(0x9E37_79B9);
                x = (x ^ (x >> 15)).wrapping_mul(0x85EB_CA6B);
                x ^= x >> 13;
                f64::from(mean + x as i32 as f32 * step)
            };
            Ok((0..to_u32(length)).map(value).collect())
        }),
        tolerance: 0.0,
        scale: Scale::Largest,
        bytes: (length * 4) as f64,
        operations: 0.0,
    })
}
