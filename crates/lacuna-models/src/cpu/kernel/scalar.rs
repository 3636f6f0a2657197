//! The kernels in plain Rust: what runs where nothing better does, and what the others are compared with.
#![allow(unsafe_code)]

use half::bf16;

use super::element::Output;
use super::{COLUMNS, DEPTH};

/// # Safety
/// See [`super::element::Tile`].
pub(super) unsafe fn tile_f32(activations: *const f32, weights: *const f32, depth: usize, output: Output) {
    for row in 0..output.rows {
        let mut sums = [0.0; COLUMNS];
        for k in 0..depth {
            // SAFETY: `row` and `k` are within what the caller promises.
            let (a, b) =
                unsafe { (*activations.add(row * DEPTH + k), &*weights.add(k * COLUMNS).cast::<[f32; COLUMNS]>()) };
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
                    &*activations.add(row * DEPTH + k).cast::<[bf16; 2]>(),
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
/// The row of the output can be written and is nobody else's.
unsafe fn store(sums: &[f32; COLUMNS], row: usize, output: Output) {
    // SAFETY: the caller's promise.
    let row = unsafe { std::slice::from_raw_parts_mut(output.start.add(row * output.stride), output.columns) };
    for (value, sum) in row.iter_mut().zip(sums) {
        *value = if output.add { *value + sum } else { *sum };
    }
}
