//! Kernels that work on single rows.
#![allow(unsafe_code, reason = "launches of kernels")]

use std::rc::Rc;

use super::lab::{Lab, wide};
use crate::Result;
use crate::check::{Case, Scale, Size, noise};
use crate::cuda::fp8::Fp8Rows;
use crate::cuda::kernel::{CacheCall, CacheSlot, NormCall, RotateCall, Rows, Table, to_u32};
use crate::cuda::matrix::Operand;
use crate::int8;

const EPSILON: f32 = 1e-5;

/// Tokens of the table that is embedded in.
const VOCABULARY: usize = 50;

pub(super) fn embed(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let values = noise(1, VOCABULARY * embedding_width(size));
    let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_ne_bytes()).collect();
    embedding(lab, size, &bytes, None, values)
}

pub(super) fn embed_int8(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let width = embedding_width(size);
    let int8::Rows { values, scales } = int8::Rows::of(&noise(1, VOCABULARY * width), width);
    let bytes: Vec<u8> = values.iter().map(|&value| value as u8).collect();
    let exact = values.iter().enumerate().map(|(at, &value)| f32::from(value) * scales[at / width]).collect();
    embedding(lab, size, &bytes, Some(&scales), exact)
}

fn embedding_width(size: Size) -> usize {
    size.of([1, 37, 130], 4096)
}

/// Look-ups in a table: its bytes, the scales of its rows, and its values.
fn embedding(lab: &Rc<Lab>, size: Size, bytes: &[u8], scales: Option<&[f32]>, values: Vec<f32>) -> Result<Case> {
    let (rows, width, vocabulary) = (size.of([1, 3, 17], 640), embedding_width(size), VOCABULARY);
    let row_bytes = bytes.len() / vocabulary + size_of::<f32>() * width;
    let (table, scales) = (lab.buffer(bytes)?, scales.map(|scales| lab.buffer(scales)).transpose()?);
    let tokens: Vec<u32> = (0..rows).map(|i| to_u32(i * 7 % vocabulary)).collect();
    let (indices, hidden) = (lab.indices(&tokens, vocabulary)?, Rc::new(lab.zeros::<f32>(rows * width)?));
    let (its, output) = (lab.clone(), hidden.clone());
    let launch = move || {
        let bits = if scales.is_some() { 8 } else { 32 };
        let table = Table { bytes: table.all(), bits, row_scales: scales.as_ref().map(|scales| scales.all()) };
        its.kernels.embed(table, indices.all(), width, output.all())
    };
    let its = lab.clone();
    let row = move |&token: &u32| wide(&values[token as usize * width..][..width]);
    Ok(Case {
        launch: Box::new(launch),
        found: Box::new(move || Ok(wide(&its.read(&hidden)?))),
        exact: Box::new(move || Ok(tokens.iter().flat_map(&row).collect())),
        tolerance: 0.0,
        scale: Scale::Largest,
        bytes: (rows * row_bytes) as f64,
        operations: 0.0,
    })
}

/// The scalar norm of a row.
fn norm_of(row: &[f64], weight: &[f64]) -> Vec<f64> {
    let mean = row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64;
    let scale = 1.0 / (mean + f64::from(EPSILON)).sqrt();
    row.iter().zip(weight).map(|(x, weight)| x * scale * weight).collect()
}

pub(super) fn rms_norm(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let (rows, width) = (size.of([1, 3, 17], 640), size.of([1, 37, 132], 4096));
    let (input, weight) = (noise(1, rows * width), noise(2, width));
    // Some rows of the input, in another order.
    let selected: Vec<u32> = (0..rows).map(|i| to_u32((i * 5 + 2) % rows)).collect();
    let (list, source, factor) = (lab.indices(&selected, rows)?, lab.buffer(&input)?, lab.buffer(&weight)?);
    let output = Rc::new((lab.element_room(rows * width)?, lab.zeros::<f32>(rows * width)?));
    let (its, target) = (lab.clone(), output.clone());
    let launch = move || {
        its.kernels.rms_norm(NormCall {
            input: source.all(),
            rows: Rows::Selected(list.all()),
            weight: factor.all(),
            epsilon: EPSILON,
            copy: Some(target.1.all()),
            output: Operand::Elements(target.0.all()),
        })
    };
    let its = lab.clone();
    Ok(Case {
        launch: Box::new(launch),
        found: Box::new(move || Ok([its.read_elements(&output.0)?, wide(&its.read(&output.1)?)].concat())),
        exact: Box::new(move || {
            let (input, weight) = (wide(&input), wide(&weight));
            let row = |&row: &u32| input[row as usize * width..][..width].to_vec();
            let normed = selected.iter().flat_map(|index| norm_of(&row(index), &weight));
            Ok(normed.chain(selected.iter().flat_map(row)).collect())
        }),
        tolerance: lab.tolerance(1e-5),
        scale: Scale::Largest,
        bytes: (rows * width * (8 + lab.size())) as f64,
        operations: (4 * rows * width) as f64,
    })
}

/// Heads are normalised and turned in part; in the first odd case they are turned whole, and not normalised.
pub(super) fn rotate(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let (rows, heads, head) = (size.of([1, 3, 17], 640), size.of([1, 3, 5], 96), lab.variant.head_size);
    let plain = size == Size::Odd(0);
    let (half, width, rotated) = (if plain { head / 2 } else { head / 4 }, heads * head, heads - heads / 3);
    let queries = rotated / 2;
    let (data, bias, norms) = (noise(1, rows * width), noise(2, width), noise(4, 2 * head));
    let angles = noise(3, rows * half);
    let (cosines, sines): (Vec<f32>, Vec<f32>) = angles.iter().map(|x| (x.cos(), x.sin())).unzip();
    let positions: Vec<u32> = (0..rows).map(|i| to_u32((i * 3 + 1) % rows)).collect();
    let (values, exact_values) = lab.elements(&data)?;
    let values = Rc::new(values);
    let operands = (lab.buffer(&bias)?, lab.indices(&positions, rows)?, lab.buffer(&cosines)?, lab.buffer(&sines)?);
    let weights = lab.buffer(&norms)?;
    // Every second row is cached, in the second layer of two.
    let cached_width = (heads - queries) * head;
    let cache = Rc::new(lab.element_room(2 * rows * cached_width)?);
    let slot = |row: usize| match row % 2 {
        0 => CacheSlot {
            first: cache.all().slice(row * cached_width..cache.all().len()).output(),
            layer_stride: (rows * cached_width) as u64,
        },
        _ => CacheSlot::default(),
    };
    let slots = lab.buffer(&(0..rows).map(slot).collect::<Vec<_>>())?;
    let (its, target) = (lab.clone(), (values.clone(), cache.clone()));
    let launch = move || {
        let (bias, positions, cosines, sines) = &operands;
        let call = RotateCall {
            data: target.0.all(),
            bias: Some(bias.all()),
            rows: Rows::First(rows),
            positions: positions.all(),
            cosines: cosines.all(),
            sines: sines.all(),
            norms: (!plain).then(|| weights.all()),
            epsilon: EPSILON,
            rotary: 2 * half,
            heads,
            rotated,
            queries,
            cache: Some(CacheCall { slots: slots.all(), layer: 1 }),
        };
        // SAFETY: slot i begins with position i of a cache of `rows` positions and two layers, which is alive.
        unsafe { its.kernels.rotate(call) }
    };
    let its = lab.clone();
    let exact = move || {
        let (mut all, norms) = (exact_values.clone(), wide(&norms));
        for (row, &position) in all.chunks_exact_mut(width).zip(&positions) {
            row.iter_mut().zip(&bias).for_each(|(x, &bias)| *x += f64::from(bias));
            for (index, values) in row.chunks_exact_mut(head).take(rotated).enumerate() {
                if !plain {
                    let weights = if index < queries { &norms[..head] } else { &norms[head..] };
                    values.copy_from_slice(&norm_of(values, weights));
                }
                for i in 0..half {
                    let (x, y) = (values[i], values[i + half]);
                    let at = position as usize * half + i;
                    let (cosine, sine) = (f64::from(cosines[at]), f64::from(sines[at]));
                    (values[i], values[i + half]) = (x * cosine - y * sine, y * cosine + x * sine);
                }
            }
        }
        let mut cached = vec![0.0; 2 * rows * cached_width];
        for row in (0..rows).step_by(2) {
            cached[(rows + row) * cached_width..][..cached_width]
                .copy_from_slice(&all[row * width + queries * head..(row + 1) * width]);
        }
        all.extend(cached);
        Ok(all)
    };
    Ok(Case {
        launch: Box::new(launch),
        found: Box::new(move || Ok([its.read_elements(&values)?, its.read_elements(&cache)?].concat())),
        exact: Box::new(exact),
        tolerance: lab.tolerance(1e-5),
        scale: Scale::Largest,
        bytes: (2 * rows * width * lab.size()) as f64,
        operations: (4 * rows * width) as f64,
    })
}

pub(super) fn add_bias(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let (rows, width) = (size.of([1, 3, 17], 640), size.of([1, 37, 1030], 4096));
    let (before, bias) = (noise(1, rows * width), noise(2, width));
    let (hidden, device) = (Rc::new(lab.buffer(&before)?), lab.buffer(&bias)?);
    let (its, target) = (lab.clone(), hidden.clone());
    let launch = move || its.kernels.add_bias(target.all(), rows, device.all());
    let its = lab.clone();
    let exact = move || {
        let sum = |(i, x): (usize, &f32)| f64::from(x + bias[i % width]);
        Ok(before.iter().enumerate().map(sum).collect())
    };
    Ok(Case {
        launch: Box::new(launch),
        found: Box::new(move || Ok(wide(&its.read(&hidden)?))),
        exact: Box::new(exact),
        tolerance: 0.0,
        scale: Scale::Largest,
        bytes: (2 * rows * width * 4) as f64,
        operations: (rows * width) as f64,
    })
}

fn gated(gate_up: &[f64], width: usize) -> Vec<f64> {
    let row = |row: &[f64]| -> Vec<f64> {
        let (gate, up) = row.split_at(width);
        gate.iter().zip(up).map(|(x, y)| x / (1.0 + (-x).exp()) * y).collect()
    };
    gate_up.chunks_exact(2 * width).flat_map(row).collect()
}

pub(super) fn silu_times(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let (rows, width) = (size.of([1, 3, 17], 640), size.of([1, 37, 2052], 12_288));
    let (gate_up, values) = lab.elements(&noise(1, rows * 2 * width))?;
    let output = Rc::new(lab.element_room(rows * width)?);
    let (its, target) = (lab.clone(), output.clone());
    let launch = move || its.kernels.silu_times(gate_up.all(), rows, width, Operand::Elements(target.all()));
    let its = lab.clone();
    Ok(Case {
        launch: Box::new(launch),
        found: Box::new(move || its.read_elements(&output)),
        exact: Box::new(move || Ok(gated(&values, width))),
        tolerance: lab.tolerance(1e-5),
        scale: Scale::Largest,
        bytes: (3 * rows * width * lab.size()) as f64,
        operations: (4 * rows * width) as f64,
    })
}

/// Rows in fp8 as they are when they are multiplied with their scales.
fn dequantized(lab: &Lab, rows: &Fp8Rows, width: usize) -> Result<Vec<f64>> {
    let slice = rows.all();
    let (mut values, mut scales) = (vec![0u8; slice.values.len()], vec![0f32; slice.scales.len()]);
    rows.read(&mut values, &mut scales)?;
    lab.gpu.wait()?;
    let value = |code: u8| {
        let (exponent, mantissa) = (i32::from(code >> 3 & 15), f64::from(code & 7));
        let magnitude = match exponent {
            0 => mantissa / 8.0 * 2f64.powi(-6),
            _ => (1.0 + mantissa / 8.0) * 2f64.powi(exponent - 7),
        };
        if code >> 7 == 1 { -magnitude } else { magnitude }
    };
    Ok(values.iter().enumerate().map(|(i, &code)| value(code) * f64::from(scales[i / width])).collect())
}

/// e4m3 has three bits behind the point: half a step is a sixteenth of a value, or of a row's largest.
const FP8_TOLERANCE: f64 = 1.0 / 15.0;

fn fp8_sizes(size: Size) -> (usize, usize) {
    (size.of([1, 3, 17], 640), size.of([16, 48, 2064], 4096))
}

pub(super) fn rms_norm_fp8(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let (rows, width) = fp8_sizes(size);
    let (input, weight) = (noise(1, rows * width), noise(2, width));
    let (source, factor) = (lab.buffer(&input)?, lab.buffer(&weight)?);
    let output = Rc::new(Fp8Rows::new(&lab.gpu, rows, width)?);
    let (its, target) = (lab.clone(), output.clone());
    let launch = move || {
        its.kernels.rms_norm(NormCall {
            input: source.all(),
            rows: Rows::First(rows),
            weight: factor.all(),
            epsilon: EPSILON,
            copy: None,
            output: Operand::Fp8(target.all()),
        })
    };
    let its = lab.clone();
    Ok(Case {
        launch: Box::new(launch),
        found: Box::new(move || dequantized(&its, &output, width)),
        exact: Box::new(move || {
            let weight = wide(&weight);
            Ok(wide(&input).chunks_exact(width).flat_map(|row| norm_of(row, &weight)).collect())
        }),
        tolerance: FP8_TOLERANCE,
        scale: Scale::Largest,
        bytes: (rows * width * 5) as f64,
        operations: (6 * rows * width) as f64,
    })
}

pub(super) fn silu_times_fp8(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let (rows, width) = fp8_sizes(size);
    let (gate_up, values) = lab.elements(&noise(1, rows * 2 * width))?;
    let output = Rc::new(Fp8Rows::new(&lab.gpu, rows, width)?);
    let (its, target) = (lab.clone(), output.clone());
    let launch = move || its.kernels.silu_times(gate_up.all(), rows, width, Operand::Fp8(target.all()));
    let its = lab.clone();
    Ok(Case {
        launch: Box::new(launch),
        found: Box::new(move || dequantized(&its, &output, width)),
        exact: Box::new(move || Ok(gated(&values, width))),
        tolerance: FP8_TOLERANCE,
        scale: Scale::Largest,
        bytes: (rows * width * (2 * lab.size() + 1)) as f64,
        operations: (6 * rows * width) as f64,
    })
}

pub(super) fn quantize(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let (rows, width) = fp8_sizes(size);
    let (source, values) = lab.elements(&noise(1, rows * width))?;
    let output = Rc::new(Fp8Rows::new(&lab.gpu, rows, width)?);
    let (its, target) = (lab.clone(), output.clone());
    let launch = move || its.kernels.quantize(source.all(), width, target.all());
    let its = lab.clone();
    Ok(Case {
        launch: Box::new(launch),
        found: Box::new(move || dequantized(&its, &output, width)),
        exact: Box::new(move || Ok(values.clone())),
        tolerance: FP8_TOLERANCE,
        scale: Scale::Largest,
        bytes: (rows * width * (lab.size() + 1)) as f64,
        operations: (2 * rows * width) as f64,
    })
}
