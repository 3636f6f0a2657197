//! Attention, with and without the mass on unmasked keys.
#![allow(unsafe_code, reason = "launches of kernels")]

use std::rc::Rc;

use super::lab::{Lab, wide};
use crate::Result;
use crate::check::{Case, Scale, Size, noise};
use crate::cuda::kernel::{Attend, Geometry, In, MatricesCall, MatrixTask, Rows, Tile, to_u32};

pub(super) fn attention(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    case(lab, size, false)
}

pub(super) fn attention_with_mass(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    case(lab, size, true)
}

/// Two views: rows of the first see its own keys, those of the second are shadows, which do not see the key at their own
/// position. In the second odd case attention is block-causal, in the last both attend to a cache of two layers.
fn case(lab: &Rc<Lab>, size: Size, with_mass: bool) -> Result<Case> {
    let head = lab.variant.head_size;
    let (length, heads, kv_heads) = (size.of([1, 37, 230], 320), size.of([1, 3, 4], 32), size.of([1, 1, 2], 32));
    let (rows, width) = (2 * length, 2 * kv_heads * head);
    let (cached, blocks) = (size == Size::Odd(2), size == Size::Odd(1));
    let (queries, exact_queries) = lab.elements(&noise(1, rows * heads * head))?;
    // A row of keys is followed by its values. The first layer of a cache is another's.
    let layer = usize::from(cached);
    let (key_values, exact_key_values) = lab.elements(&noise(2, rows * width))?;
    let caches = (0..2)
        .map(|view| {
            let half: Vec<f32> =
                exact_key_values[view * length * width..][..length * width].iter().map(|&x| x as f32).collect();
            lab.elements(&[noise(3, length * width), half].concat()).map(|(values, _)| values)
        })
        .collect::<Result<Vec<_>>>()?;
    let open: Vec<f32> = (0..rows).map(|i| f32::from(u8::from(i % 3 == 0))).collect();
    let positions: Vec<u32> = (0..rows).map(|i| to_u32(i % length)).collect();
    let mut tiles = Vec::new();
    for (view, cache) in caches.iter().enumerate() {
        let tile = Geometry::of(lab.variant).tile;
        for first in (0..length).step_by(tile) {
            tiles.push(Tile {
                first: to_u32(view * length + first),
                count: to_u32(tile.min(length - first)),
                key_start: to_u32(view * length),
                key_count: to_u32(length),
                tokens: to_u32(length),
                first_block: to_u32(if blocks { 3 } else { 0 }),
                block: to_u32(if blocks { 5 } else { 0 }),
                open_start: to_u32(view * length),
                shadow: u32::from(view == 1 && length > 1),
                capacity: to_u32(length),
                cached: if cached { cache.all().input() } else { In::NULL },
            });
        }
    }
    let operands = (lab.buffer(&tiles)?, lab.indices(&positions, length)?, lab.buffer(&open)?);
    let output = Rc::new((lab.element_room(rows * heads * head)?, lab.zeros::<f32>(rows * heads)?));
    let (its, target) = (lab.clone(), output.clone());
    let launch = move || {
        let ((tiles, positions, open), _alive) = (&operands, &caches);
        let all = key_values.all();
        let call = Attend {
            heads,
            key_value_heads: kv_heads,
            queries: queries.all(),
            query_stride: heads * head,
            keys: all,
            values: all.slice(width / 2..all.len()),
            key_stride: width,
            output: Some(target.0.all()),
            mass: with_mass.then(|| target.1.all()),
            tiles: tiles.all(),
            rows: Rows::First(rows),
            positions: positions.all(),
            open: open.all(),
            layer,
        };
        // SAFETY: the tiles are made of rows and keys of the two views, and of caches with two layers, which are alive.
        unsafe { its.kernels.attention(call) }
    };
    let exact = move || {
        let (mut mixed, mut mass) = (vec![0.0; rows * heads * head], vec![0.0; rows * heads]);
        for (row, index) in (0..rows).flat_map(|row| (0..heads).map(move |index| (row, index))) {
            let (view, key_head) = (row / length, index * kv_heads / heads);
            let query = &exact_queries[(row * heads + index) * head..][..head];
            let hidden = (view == 1 && length > 1).then_some(row % length);
            let key = |key: usize, behind: usize| {
                &exact_key_values[(view * length + key) * width + behind + key_head * head..][..head]
            };
            let score = |at: usize| {
                let product: f64 = query.iter().zip(key(at, 0)).map(|(a, b)| a * b).sum();
                // Blocks of 5, the first of 3.
                let later = blocks && (at + 2) / 5 > (row % length + 2) / 5;
                if later || hidden == Some(at) { 0.0 } else { (product / (head as f64).sqrt()).exp() }
            };
            let weights: Vec<f64> = (0..length).map(score).collect();
            let total: f64 = weights.iter().sum();
            for (at, weight) in weights.iter().enumerate() {
                mass[row * heads + index] += weight / total * f64::from(open[view * length + at]);
                let target = &mut mixed[(row * heads + index) * head..][..head];
                target.iter_mut().zip(key(at, width / 2)).for_each(|(sum, value)| *sum += weight / total * value);
            }
        }
        Ok([mixed, if with_mass { mass } else { Vec::new() }].concat())
    };
    let its = lab.clone();
    let found = move || {
        let mass = if with_mass { wide(&its.read(&output.1)?) } else { Vec::new() };
        Ok([its.read_elements(&output.0)?, mass].concat())
    };
    let operations = 4.0 * (rows * length * heads * head) as f64;
    let bytes = ((2 * rows * heads * head + rows * width) * lab.size()) as f64;
    let tolerance = if lab.variant.bf16 { 2e-2 } else { 1e-5 };
    Ok(Case {
        launch: Box::new(launch),
        found: Box::new(found),
        exact: Box::new(exact),
        tolerance,
        scale: Scale::Largest,
        bytes,
        operations,
    })
}

/// Two layers of two views, of which the second is block-causal.
pub(super) fn add_attention(lab: &Rc<Lab>, size: Size) -> Result<Case> {
    let head = lab.variant.head_size;
    let (length, heads, kv_heads) = (size.of([1, 37, 230], 320), size.of([1, 3, 4], 32), size.of([1, 1, 2], 8));
    let (rows, stride) = (2 * length, kv_heads * head + 2);
    let (queries, exact_queries) = lab.elements(&noise(1, rows * heads * head))?;
    let (keys, exact_keys) = lab.elements(&noise(2, rows * stride))?;
    // Rows need not stand at positions of the same number.
    let place = move |row: usize| 2 * row % length;
    let positions = lab.buffer(&(0..rows).map(|row| to_u32(place(row))).collect::<Vec<u32>>())?;
    let tasks: Vec<MatrixTask> = [0, 1]
        .map(|view| MatrixTask {
            output: (view * length * length) as u64,
            start: to_u32(view * length),
            rows: to_u32(length),
            length: to_u32(length),
            first_block: to_u32(3 * view),
            block: to_u32(5 * view),
            first: 1,
            factor: 0.5 / heads as f32,
            ..MatrixTask::default()
        })
        .to_vec();
    let again: Vec<MatrixTask> = tasks.iter().map(|task| MatrixTask { first: 0, ..*task }).collect();
    let layers = [lab.buffer(&tasks)?, lab.buffer(&again)?];
    let output = Rc::new(lab.zeros::<f32>(2 * length * length)?);
    let (its, target) = (lab.clone(), output.clone());
    let launch = move || {
        layers.iter().try_for_each(|tasks| {
            let call = MatricesCall {
                heads,
                key_value_heads: kv_heads,
                queries: queries.all(),
                query_stride: heads * head,
                keys: keys.all(),
                key_stride: stride,
                positions: positions.all(),
                tasks: tasks.all(),
                output: target.all(),
                longest: length,
                layer: 0,
            };
            // SAFETY: each task is one of the two views, and has a matrix of its own.
            unsafe { its.kernels.add_attention(call) }
        })
    };
    let exact = move || {
        let mut all = vec![0.0; rows * length];
        for (row, index) in (0..rows).flat_map(|row| (0..heads).map(move |index| (row, index))) {
            let (view, position, key_head) = (row / length, place(row), index * kv_heads / heads);
            let query = &exact_queries[(row * heads + index) * head..][..head];
            let weight = |at: usize| {
                let key = &exact_keys[(view * length + at) * stride + key_head * head..][..head];
                let product: f64 = query.iter().zip(key).map(|(a, b)| a * b).sum();
                let later = view == 1 && (at + 2) / 5 > (position + 2) / 5;
                if later { 0.0 } else { (product / (head as f64).sqrt()).exp() }
            };
            let weights: Vec<f64> = (0..length).map(weight).collect();
            let total: f64 = weights.iter().sum();
            let target = &mut all[row * length..][..length];
            target.iter_mut().zip(&weights).for_each(|(sum, weight)| *sum += weight / total / heads as f64);
        }
        Ok(all)
    };
    let its = lab.clone();
    Ok(Case {
        launch: Box::new(launch),
        found: Box::new(move || Ok(wide(&its.read(&output)?))),
        exact: Box::new(exact),
        tolerance: 1e-5,
        scale: Scale::Largest,
        bytes: (2 * rows * length * 4) as f64,
        operations: 4.0 * (rows * length * heads * head) as f64,
    })
}
