//! The kernels in plain Rust, for any tile geometry: what runs where nothing better does, and what the others are compared
//! with.
#![allow(unsafe_code)]

use half::bf16;

use super::element::{keep_bf16, keep_f32, keep_i8};
use super::tile::{Ahead, Kernel, Output, Rows, nothing};

const ROWS: usize = 12;
const COLUMNS: usize = 32;
const DEPTH_F32: usize = 256;
const DEPTH: usize = 1024;

pub(super) static F32: Kernel<f32> = Kernel {
    rows: ROWS,
    columns: COLUMNS,
    step: 1,
    depth: DEPTH_F32,
    block: DEPTH_F32,
    size: 4,
    task_rows: 16 * ROWS,
    copy: None,
    narrow: keep_f32,
    tile: tile_f32::<ROWS, COLUMNS, DEPTH_F32>,
    begin: nothing,
    end: nothing,
};

pub(super) static BF16: Kernel<bf16> = Kernel {
    rows: ROWS,
    columns: COLUMNS,
    step: 2,
    depth: DEPTH,
    block: DEPTH,
    size: 2,
    task_rows: 16 * ROWS,
    copy: None,
    narrow: keep_bf16,
    tile: tile_bf16::<ROWS, COLUMNS, DEPTH>,
    begin: nothing,
    end: nothing,
};

pub(super) static I8: Kernel<i8> = Kernel {
    rows: ROWS,
    columns: COLUMNS,
    step: 4,
    depth: DEPTH,
    block: DEPTH,
    size: 1,
    task_rows: 16 * ROWS,
    copy: None,
    narrow: keep_i8,
    tile: tile_i8::<ROWS, COLUMNS, DEPTH, DEPTH>,
    begin: nothing,
    end: nothing,
};

/// Index of a value in a run of a panel of rows.
fn index<const R: usize, const BLOCK: usize>(row: usize, k: usize) -> usize {
    (k / BLOCK * R + row) * BLOCK + k % BLOCK
}

/// # Safety
/// See [`super::tile::Tile`].
unsafe fn tile_f32<const R: usize, const C: usize, const BLOCK: usize>(
    activations: *const u8,
    weights: *const f32,
    depth: usize,
    output: Output,
    _: Ahead,
) {
    let activations = activations.cast::<f32>();
    for row in 0..output.rows {
        let mut sums = [0.0; C];
        for k in 0..depth {
            // SAFETY: `row` and `k` are within what the caller promises.
            let (a, b) =
                unsafe { (*activations.add(index::<R, BLOCK>(row, k)), &*weights.add(k * C).cast::<[f32; C]>()) };
            for (sum, b) in sums.iter_mut().zip(b) {
                *sum += a * b;
            }
        }
        // SAFETY: the caller owns the output.
        unsafe { store(&sums, row, output) };
    }
}

/// # Safety
/// See [`super::tile::Tile`].
pub(super) unsafe fn tile_bf16<const R: usize, const C: usize, const BLOCK: usize>(
    activations: *const u8,
    weights: *const bf16,
    depth: usize,
    output: Output,
    _: Ahead,
) {
    let activations = activations.cast::<bf16>();
    for row in 0..output.rows {
        let mut sums = [0.0; C];
        for k in (0..depth).step_by(2) {
            // SAFETY: `row` and `k` are within what the caller promises, and `depth` and blocks are even.
            let (a, b) = unsafe {
                (
                    &*activations.add(index::<R, BLOCK>(row, k)).cast::<[bf16; 2]>(),
                    &*weights.add(k * C).cast::<[[bf16; 2]; C]>(),
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
/// See [`super::tile::Tile`].
pub(super) unsafe fn tile_i8<const R: usize, const C: usize, const BLOCK: usize, const DEPTH: usize>(
    activations: *const u8,
    weights: *const i8,
    depth: usize,
    output: Output,
    _: Ahead,
) {
    for row in 0..output.rows {
        // SAFETY: the caller promises both trailers.
        let (mut sums, scales, row_scale) = unsafe {
            let trailer = weights.add(depth * C);
            (
                trailer.cast::<[i32; C]>().read_unaligned(),
                trailer.cast::<[f32; C]>().add(1).read_unaligned(),
                activations.add(R * DEPTH).cast::<f32>().add(row).read_unaligned(),
            )
        };
        for k in (0..depth).step_by(4) {
            // SAFETY: `row` and `k` are within what the caller promises; `depth` and blocks are multiples of 4.
            let (a, b) = unsafe {
                (
                    &*activations.add(index::<R, BLOCK>(row, k)).cast::<[u8; 4]>(),
                    &*weights.add(k * C).cast::<[[i8; 4]; C]>(),
                )
            };
            for (sum, b) in sums.iter_mut().zip(b) {
                *sum += a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum::<i32>();
            }
        }
        let mut scaled = [0.0; C];
        for column in 0..C {
            scaled[column] = sums[column] as f32 * scales[column] * row_scale;
        }
        // SAFETY: the caller owns the output.
        unsafe { store(&scaled, row, output) };
    }
}

/// # Safety
/// The row of the output can be written and is nobody else's.
unsafe fn store<const C: usize>(sums: &[f32; C], row: usize, output: Output) {
    // SAFETY: the caller's promise.
    let row = unsafe { std::slice::from_raw_parts_mut(output.start.add(row * output.stride), output.columns) };
    for (value, sum) in row.iter_mut().zip(sums) {
        *value = if output.add { *value + sum } else { *sum };
    }
}

/// # Safety
/// See [`super::tile::CopyRows`].
pub(super) unsafe fn copy_rows(from: Rows, to: Rows, rows: usize, columns: usize, add: bool) {
    for row in 0..rows {
        let (from, to) = (from.at(row, 0).start, to.at(row, 0).start);
        // SAFETY: the caller's promise.
        let (from, to) =
            unsafe { (std::slice::from_raw_parts(from, columns), std::slice::from_raw_parts_mut(to, columns)) };
        if add {
            to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        } else {
            to.copy_from_slice(from);
        }
    }
}
