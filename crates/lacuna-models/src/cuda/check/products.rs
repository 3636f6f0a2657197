//! The product for odd sizes, and kernels that measure.

use std::cell::RefCell;
use std::rc::Rc;

use super::lab::{Lab, wide};
use crate::Result;
use crate::check::{Case, Scale, Size, noise};
use crate::cuda::int4::Int4Rows;
use crate::cuda::kernel::{Factors, Output, SharedSums, to_u32};
use crate::cuda::matrix::Operand;
use crate::int4::{self, GROUP, Group};

pub(super) fn product(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let (m, n, k) = (size.of([1, 65, 17], 640), size.of([1, 3, 131], 4096), size.of([1, 33, 130], 4096));
    let ((input, rows), (weights, columns)) = (lab.elements(&noise(1, m * k))?, lab.elements(&noise(2, n * k))?);
    let before = noise(3, m * n);
    let output = Rc::new(lab.buffer(&before)?);
    let (its, target) = (lab.clone(), output.clone());
    let start = before.clone();
    let check = size != Size::Large;
    let launch = move || {
        if check {
            target.write(0, &start)?;
        }
        let input = Operand::Elements(input.all());
        let output = Output::F32 { values: target.all(), add: true };
        its.kernels.product(Factors { m, n, k, input, weights: Operand::Elements(weights.all()), output })
    };
    let its = lab.clone();
    let exact = move || {
        let sum = |i: usize| -> f64 {
            rows[i / n * k..][..k].iter().zip(&columns[i % n * k..][..k]).map(|(a, b)| a * b).sum()
        };
        Ok((0..m * n).map(|i| f64::from(before[i]) + sum(i)).collect())
    };
    Ok(Case {
        launch: Box::new(launch),
        found: Box::new(move || Ok(wide(&its.read(&output)?))),
        exact: Box::new(exact),
        tolerance: 1e-5,
        scale: Scale::Largest,
        bytes: ((m + n) * k * lab.size() + 2 * m * n * 4) as f64,
        operations: 2.0 * (m * n * k) as f64,
    })
}

pub(super) fn product_int4(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let (m, n, k) = (size.of([1, 65, 17], 32), size.of([8200, 70, 131], 4096), size.of([1, 520, 5000], 4096));
    let ((input, rows), weights) = (lab.elements(&noise(1, m * k))?, noise(2, n * k));
    let packed = Int4Rows::of(&lab.gpu, k, &weights)?;
    let output = Rc::new(lab.buffer(&noise(3, m * n))?);
    let sums = RefCell::new(SharedSums::new(&lab.gpu)?);
    let (its, target) = (lab.clone(), output.clone());
    let launch = move || {
        let (input, weights) = (Operand::Elements(input.all()), Operand::Int4(packed.rows(0..n, k)));
        let output = Output::F32 { values: target.all(), add: false };
        its.kernels.product_int4(Factors { m, n, k, input, weights, output }, &mut sums.borrow_mut())
    };
    let its = lab.clone();
    let exact = move || {
        let columns = int4_columns(&weights, k);
        let sum = |i: usize| -> f64 {
            rows[i / n * k..][..k].iter().zip(&columns[i % n * k..][..k]).map(|(a, b)| a * b).sum()
        };
        Ok((0..m * n).map(sum).collect())
    };
    Ok(Case {
        launch: Box::new(launch),
        found: Box::new(move || Ok(wide(&its.read(&output)?))),
        exact: Box::new(exact),
        tolerance: 1e-5,
        scale: Scale::Largest,
        bytes: (m * k * lab.size() + n * k * 17 / 32 + m * n * 4) as f64,
        operations: 2.0 * (m * n * k) as f64,
    })
}

/// Rows of `k` weights as they are in int4.
pub(super) fn int4_columns(weights: &[f32], k: usize) -> Vec<f64> {
    let mut columns = Vec::with_capacity(weights.len());
    for row in weights.chunks_exact(k) {
        let (mut groups, mut values) = (vec![Group::default(); int4::groups(k)], vec![0; k]);
        let row_scale = int4::choose(row, &mut groups);
        int4::round(row, row_scale, &groups, &mut values);
        let weight = |(k, &value): (usize, &u8)| f64::from(groups[k / GROUP].int8(value)) * f64::from(row_scale);
        columns.extend(values.iter().enumerate().map(weight));
    }
    columns
}

pub(super) fn compare(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let words = size.of([1, 1000, 300_001], 64 << 20);
    let one: Vec<u32> = (0..to_u32(words)).collect();
    let other: Vec<u32> = one.iter().map(|&i| if i % 77 == 3 { i + 1 } else { i }).collect();
    let expected = (0..words).filter(|i| i % 77 == 3).count() as f64;
    let lists = (lab.buffer(&one)?, lab.buffer(&other)?);
    let different = Rc::new(lab.zeros::<u32>(1)?);
    let (its, target) = (lab.clone(), different.clone());
    let launch = move || its.kernels.compare(lists.0.all(), lists.1.all(), target.all());
    let its = lab.clone();
    Ok(Case {
        launch: Box::new(launch),
        found: Box::new(move || Ok(its.read(&different)?.into_iter().map(f64::from).collect())),
        exact: Box::new(move || Ok(vec![expected])),
        tolerance: 0.0,
        scale: Scale::Largest,
        bytes: (2 * words * 4) as f64,
        operations: words as f64,
    })
}

/// It writes nothing: its sums are never 0.
pub(super) fn ceiling(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let blocks = size.of([1, 2, 3], 4096);
    let output = Rc::new(lab.buffer(&[5.0f32])?);
    let (its, target) = (lab.clone(), output.clone());
    let launch = move || its.kernels.ceiling(blocks, target.all());
    let its = lab.clone();
    Ok(Case {
        launch: Box::new(launch),
        found: Box::new(move || Ok(wide(&its.read(&output)?))),
        exact: Box::new(|| Ok(vec![5.0])),
        tolerance: 0.0,
        scale: Scale::Largest,
        bytes: 0.0,
        operations: 2.0 * (blocks * 256 * 4096 * 16) as f64,
    })
}
