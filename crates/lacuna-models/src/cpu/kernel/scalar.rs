//! The kernels in plain Rust: what runs where nothing better does, and what the others are compared with.
#![allow(unsafe_code)]

use half::bf16;

use super::element::{Element, Output};
use super::{COLUMNS, ROWS};

/// # Safety
/// See [`super::element::Tile`].
pub(super) unsafe fn tile_f32(activations: *const f32, weights: *const f32, depth: usize, output: Output) {
    for row in 0..output.rows {
        let mut sums = [0.0; COLUMNS];
        for k in 0..depth {
            // SAFETY: `row` and `k` are within what the caller promises.
            let (a, b) = unsafe {
                (*activations.add(row * f32::DEPTH + k), &*weights.add(k * COLUMNS).cast::<[f32; COLUMNS]>())
            };
            for (sum, b) in sums.iter_mut().zip(b) {
                *sum += a * b;
            }
        }
        // SAFETY: the caller owns the output.
        unsafe { store(&sums, row, output) };
    }
}

/// # Safety
/// See [`super::element::Tile`].
pub(super) unsafe fn tile_bf16(activations: *const bf16, weights: *const bf16, depth: usize, output: Output) {
    for row in 0..output.rows {
        let mut sums = [0.0; COLUMNS];
        for k in (0..depth).step_by(2) {
            // SAFETY: `row` and `k` are within what the caller promises, and `depth` is even.
            let (a, b) = unsafe {
                (
                    &*activations.add(row * bf16::DEPTH + k).cast::<[bf16; 2]>(),
                    &*weights.add(k * COLUMNS).cast::<[[bf16; 2]; COLUMNS]>(),
                )
            };
            // The odd one first, as vdpbf16ps does it. The products are exact in f32.
            for (sum, b) in sums.iter_mut().zip(b) {
                *sum += widen(a[1]) * widen(b[1]);
                *sum += widen(a[0]) * widen(b[0]);
            }
        }
        // SAFETY: the caller owns the output.
        unsafe { store(&sums, row, output) };
    }
}

fn widen(value: bf16) -> f32 {
    f32::from_bits(u32::from(value.to_bits()) << 16)
}

/// # Safety
/// See [`super::element::Tile`].
pub(super) unsafe fn tile_i8(activations: *const i8, weights: *const i8, depth: usize, output: Output) {
    for row in 0..output.rows {
        // SAFETY: the caller promises both trailers.
        let (mut sums, units, row_unit) = unsafe {
            let trailer = weights.add(depth * COLUMNS);
            (
                trailer.cast::<[i32; COLUMNS]>().read_unaligned(),
                trailer.cast::<[f32; COLUMNS]>().add(1).read_unaligned(),
                activations.add(ROWS * i8::DEPTH).cast::<f32>().add(row).read_unaligned(),
            )
        };
        for k in (0..depth).step_by(4) {
            // SAFETY: `row` and `k` are within what the caller promises, and `depth` is a multiple of 4.
            let (a, b) = unsafe {
                (
                    &*activations.add(row * i8::DEPTH + k).cast::<[u8; 4]>(),
                    &*weights.add(k * COLUMNS).cast::<[[i8; 4]; COLUMNS]>(),
                )
            };
            for (sum, b) in sums.iter_mut().zip(b) {
                *sum += a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum::<i32>();
            }
        }
        let mut scaled = [0.0; COLUMNS];
        for column in 0..COLUMNS {
            scaled[column] = sums[column] as f32 * units[column] * row_unit;
        }
        // SAFETY: the caller owns the output.
        unsafe { store(&scaled, row, output) };
    }
}

/// # Safety
/// The row of the output can be written and is nobody else's.
unsafe fn store(sums: &[f32; COLUMNS], row: usize, output: Output) {
    // SAFETY: the caller's promise.
    let row = unsafe { std::slice::from_raw_parts_mut(output.start.add(row * output.stride), output.columns) };
    for (value, sum) in row.iter_mut().zip(sums) {
        *value = if output.add { *value + sum } else { *sum };
    }
}
