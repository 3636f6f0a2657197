//! The kernels for AVX-512: a tile is 12 rows × 2 registers of 16 columns, 24 sums in registers.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use half::bf16;

use super::element::Output;
use super::{COLUMNS, DEPTH};

/// Sums of one row of a tile.
type Sums = [__m512; 2];

/// Calls `$tile::<R>` for the R that is the number of rows.
macro_rules! by_rows {
    ($rows:expr, $tile:ident $arguments:tt, $($count:literal)*) => {
        match $rows {
            $($count => $tile::<$count> $arguments,)*
            _ => unreachable!("a tile has at most {} rows", super::ROWS),
        }
    };
}

macro_rules! tile {
    ($(#[$doc:meta])* $name:ident, $sums:ident, $element:ty, $features:literal) => {
        $(#[$doc])*
        /// # Safety
        /// See [`super::element::Tile`].
        pub(super) unsafe fn $name(activations: *const $element, weights: *const $element, depth: usize, output: Output) {
            #[target_feature(enable = $features)]
            unsafe fn rows<const R: usize>(a: *const $element, b: *const $element, depth: usize, output: Output) {
                // SAFETY: the caller's promise.
                unsafe { store($sums::<R>(a, b, depth), output) }
            }
            // SAFETY: the caller's promise.
            unsafe { by_rows!(output.rows, rows(activations, weights, depth, output), 1 2 3 4 5 6 7 8 9 10 11 12) }
        }
    };
}

tile!(tile_f32, sums_f32, f32, "avx512f");
tile!(tile_bf16, sums_bf16, bf16, "avx512f,avx512bf16");
tile!(
    /// For machines with AVX-512 that have no bf16 dot product: the same sums in the same order.
    tile_bf16_widened, sums_bf16_widened, bf16, "avx512f"
);

#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn sums_f32<const R: usize>(a: *const f32, b: *const f32, depth: usize) -> [Sums; R] {
    let mut sums = [[_mm512_setzero_ps(); 2]; R];
    for k in 0..depth {
        // SAFETY: the caller promises `depth` rows of a panel.
        let b = unsafe { [_mm512_loadu_ps(b.add(k * COLUMNS)), _mm512_loadu_ps(b.add(k * COLUMNS + 16))] };
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the caller promises R rows of `depth` values.
            let a = _mm512_set1_ps(unsafe { *a.add(row * DEPTH + k) });
            sums[0] = _mm512_fmadd_ps(a, b[0], sums[0]);
            sums[1] = _mm512_fmadd_ps(a, b[1], sums[1]);
        }
    }
    sums
}

#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn sums_bf16<const R: usize>(a: *const bf16, b: *const bf16, depth: usize) -> [Sums; R] {
    let mut sums = [[_mm512_setzero_ps(); 2]; R];
    for k in (0..depth).step_by(2) {
        // SAFETY: the caller promises `depth` rows of a panel; both types are 64 plain bytes.
        let b = unsafe { pair_columns(b, k).map(|b| std::mem::transmute::<__m512i, __m512bh>(b)) };
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the caller promises R rows of `depth` values; both types are 64 plain bytes.
            let a: __m512bh = unsafe { std::mem::transmute(_mm512_set1_epi32(pair(a, row, k))) };
            sums[0] = _mm512_dpbf16_ps(sums[0], a, b[0]);
            sums[1] = _mm512_dpbf16_ps(sums[1], a, b[1]);
        }
    }
    sums
}

#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn sums_bf16_widened<const R: usize>(a: *const bf16, b: *const bf16, depth: usize) -> [Sums; R] {
    let mut sums = [[_mm512_setzero_ps(); 2]; R];
    for k in (0..depth).step_by(2) {
        // SAFETY: the caller promises `depth` rows of a panel.
        let b = unsafe { pair_columns(b, k).map(|b| widen(b)) };
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the caller promises R rows of `depth` values.
            let a = widen(_mm512_set1_epi32(unsafe { pair(a, row, k) }));
            for (sum, b) in sums.iter_mut().zip(b) {
                *sum = _mm512_fmadd_ps(a[1], b[1], *sum);
                *sum = _mm512_fmadd_ps(a[0], b[0], *sum);
            }
        }
    }
    sums
}

/// The values `k` and `k + 1` of a row.
#[inline(always)]
unsafe fn pair(a: *const bf16, row: usize, k: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { a.add(row * DEPTH + k).cast::<i32>().read_unaligned() }
}

/// The values `k` and `k + 1` of all columns of a panel.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn pair_columns(b: *const bf16, k: usize) -> [__m512i; 2] {
    // SAFETY: the caller's promise.
    unsafe { [_mm512_loadu_epi32(b.add(k * COLUMNS).cast()), _mm512_loadu_epi32(b.add(k * COLUMNS + 32).cast())] }
}

/// The even and the odd values of bf16 pairs.
#[inline]
#[target_feature(enable = "avx512f")]
fn widen(pairs: __m512i) -> [__m512; 2] {
    let odd = _mm512_and_epi32(pairs, _mm512_set1_epi32(0xFFFF_0000_u32 as i32));
    [_mm512_castsi512_ps(_mm512_slli_epi32::<16>(pairs)), _mm512_castsi512_ps(odd)]
}

#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store<const R: usize>(sums: [Sums; R], output: Output) {
    let mask = |columns: usize| if columns >= 16 { u16::MAX } else { (1 << columns) - 1 };
    let masks = [mask(output.columns), mask(output.columns.saturating_sub(16))];
    for (row, sums) in sums.into_iter().enumerate() {
        for (half, (mut sum, mask)) in sums.into_iter().zip(masks).enumerate() {
            let target = output.start.wrapping_add(row * output.stride + half * 16);
            // SAFETY: the mask leaves out the columns that are not the caller's.
            unsafe {
                if output.add {
                    sum = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, target), sum);
                }
                _mm512_mask_storeu_ps(target, mask, sum);
            }
        }
    }
}
