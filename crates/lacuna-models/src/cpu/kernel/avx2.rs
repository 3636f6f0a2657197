//! The kernels for AVX2 and FMA. 16 registers hold 6 rows × 16 columns of sums, so a tile is done in four parts.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use half::bf16;

use super::element::Output;
use super::{COLUMNS, DEPTH};

/// Rows of a part.
const PART: usize = 6;

/// Sums of one row of a part.
type Sums = [__m256; 2];

macro_rules! tile {
    ($name:ident, $sums:ident, $element:ty) => {
        /// # Safety
        /// See [`super::element::Tile`].
        pub(super) unsafe fn $name(
            activations: *const $element,
            weights: *const $element,
            depth: usize,
            output: Output,
        ) {
            #[target_feature(enable = "avx2,fma")]
            unsafe fn rows<const R: usize>(a: *const $element, b: *const $element, depth: usize, output: Output) {
                // SAFETY: the caller's promise.
                unsafe { store($sums::<R>(a, b, depth), output) }
            }
            for row in (0..output.rows).step_by(PART) {
                for column in (0..output.columns).step_by(16) {
                    let part = Output {
                        start: output.start.wrapping_add(row * output.stride + column),
                        columns: (output.columns - column).min(16),
                        ..output
                    };
                    let a = activations.wrapping_add(row * DEPTH);
                    let b = weights.wrapping_add(column * <$element as super::Element>::PAIR);
                    // SAFETY: the caller's promise, for a part of the tile.
                    unsafe {
                        match output.rows - row {
                            1 => rows::<1>(a, b, depth, part),
                            2 => rows::<2>(a, b, depth, part),
                            3 => rows::<3>(a, b, depth, part),
                            4 => rows::<4>(a, b, depth, part),
                            5 => rows::<5>(a, b, depth, part),
                            _ => rows::<PART>(a, b, depth, part),
                        }
                    }
                }
            }
        }
    };
}

tile!(tile_f32, sums_f32, f32);
tile!(tile_bf16, sums_bf16, bf16);

#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn sums_f32<const R: usize>(a: *const f32, b: *const f32, depth: usize) -> [Sums; R] {
    let mut sums = [[_mm256_setzero_ps(); 2]; R];
    for k in 0..depth {
        // SAFETY: the caller promises `depth` rows of a panel.
        let b = unsafe { [_mm256_loadu_ps(b.add(k * COLUMNS)), _mm256_loadu_ps(b.add(k * COLUMNS + 8))] };
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the caller promises R rows of `depth` values.
            let a = _mm256_set1_ps(unsafe { *a.add(row * DEPTH + k) });
            sums[0] = _mm256_fmadd_ps(a, b[0], sums[0]);
            sums[1] = _mm256_fmadd_ps(a, b[1], sums[1]);
        }
    }
    sums
}

#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn sums_bf16<const R: usize>(a: *const bf16, b: *const bf16, depth: usize) -> [Sums; R] {
    let mut sums = [[_mm256_setzero_ps(); 2]; R];
    for k in (0..depth).step_by(2) {
        // SAFETY: the caller promises `depth` rows of a panel.
        let b = unsafe {
            [_mm256_loadu_si256(b.add(k * COLUMNS).cast()), _mm256_loadu_si256(b.add(k * COLUMNS + 16).cast())]
        };
        let b = [widen(b[0]), widen(b[1])];
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the caller promises R rows of `depth` values.
            let a = unsafe { a.add(row * DEPTH + k).cast::<i32>().read_unaligned() };
            let a = widen(_mm256_set1_epi32(a));
            for (sum, b) in sums.iter_mut().zip(b) {
                *sum = _mm256_fmadd_ps(a[1], b[1], *sum);
                *sum = _mm256_fmadd_ps(a[0], b[0], *sum);
            }
        }
    }
    sums
}

/// The even and the odd values of bf16 pairs.
#[inline]
#[target_feature(enable = "avx2")]
fn widen(pairs: __m256i) -> [__m256; 2] {
    let odd = _mm256_and_si256(pairs, _mm256_set1_epi32(0xFFFF_0000_u32 as i32));
    [_mm256_castsi256_ps(_mm256_slli_epi32::<16>(pairs)), _mm256_castsi256_ps(odd)]
}

#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store<const R: usize>(sums: [Sums; R], output: Output) {
    for (row, sums) in sums.into_iter().enumerate() {
        let mut values = [0.0; 16];
        // SAFETY: 16 values are two registers.
        unsafe {
            _mm256_storeu_ps(values.as_mut_ptr(), sums[0]);
            _mm256_storeu_ps(values.as_mut_ptr().add(8), sums[1]);
        }
        // SAFETY: the caller owns the output.
        let row = unsafe { std::slice::from_raw_parts_mut(output.start.add(row * output.stride), output.columns) };
        for (target, value) in row.iter_mut().zip(values) {
            *target = if output.add { *target + value } else { value };
        }
    }
}
