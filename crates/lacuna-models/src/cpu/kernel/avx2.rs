//! The kernels for AVX2 and FMA. 16 registers hold 6 rows × 16 columns of sums, so a tile is done in four parts.
#![allow(unsafe_code)]
#![allow(
    clippy::needless_range_loop,
    reason = "iterators over arrays of registers are not always compiled to registers"
)]

use std::arch::x86_64::*;

use half::bf16;

use super::element::{Element, Output};
use super::{COLUMNS, ROWS};

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
            unsafe fn rows<const R: usize>(
                a: *const $element,
                first: usize,
                b: *const $element,
                depth: usize,
                output: Output,
            ) {
                // SAFETY: the caller's promise.
                unsafe { store(&$sums::<R>(a, first, b, depth), output) }
            }
            for row in (0..output.rows).step_by(PART) {
                for column in (0..output.columns).step_by(16) {
                    let part = Output {
                        start: output.start.wrapping_add(row * output.stride + column),
                        columns: (output.columns - column).min(16),
                        ..output
                    };
                    let b = weights.wrapping_add(column * <$element>::PAIR);
                    // SAFETY: the caller's promise, for a part of the tile.
                    unsafe {
                        match output.rows - row {
                            1 => rows::<1>(activations, row, b, depth, part),
                            2 => rows::<2>(activations, row, b, depth, part),
                            3 => rows::<3>(activations, row, b, depth, part),
                            4 => rows::<4>(activations, row, b, depth, part),
                            5 => rows::<5>(activations, row, b, depth, part),
                            _ => rows::<PART>(activations, row, b, depth, part),
                        }
                    }
                }
            }
        }
    };
}

tile!(tile_f32, sums_f32, f32);
tile!(tile_bf16, sums_bf16, bf16);
tile!(tile_i8, sums_i8, i8);

#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn sums_f32<const R: usize>(a: *const f32, first: usize, b: *const f32, depth: usize) -> [Sums; R] {
    let mut sums = [[_mm256_setzero_ps(); 2]; R];
    for k in 0..depth {
        // SAFETY: the caller promises `depth` rows of a panel.
        let b = unsafe { [_mm256_loadu_ps(b.add(k * COLUMNS)), _mm256_loadu_ps(b.add(k * COLUMNS + 8))] };
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the caller promises R rows of `depth` values.
            let a = _mm256_set1_ps(unsafe { *a.add((first + row) * f32::DEPTH + k) });
            sums[0] = _mm256_fmadd_ps(a, b[0], sums[0]);
            sums[1] = _mm256_fmadd_ps(a, b[1], sums[1]);
        }
    }
    sums
}

#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn sums_bf16<const R: usize>(a: *const bf16, first: usize, b: *const bf16, depth: usize) -> [Sums; R] {
    let mut sums = [[_mm256_setzero_ps(); 2]; R];
    for k in (0..depth).step_by(2) {
        // SAFETY: the caller promises `depth` rows of a panel.
        let b = unsafe {
            [_mm256_loadu_si256(b.add(k * COLUMNS).cast()), _mm256_loadu_si256(b.add(k * COLUMNS + 16).cast())]
        };
        let b = [widen(b[0]), widen(b[1])];
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the caller promises R rows of `depth` values.
            let a = unsafe { a.add((first + row) * bf16::DEPTH + k).cast::<i32>().read_unaligned() };
            let a = widen(_mm256_set1_epi32(a));
            for (sum, b) in sums.iter_mut().zip(b) {
                *sum = _mm256_fmadd_ps(a[1], b[1], *sum);
                *sum = _mm256_fmadd_ps(a[0], b[0], *sum);
            }
        }
    }
    sums
}

#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn sums_i8<const R: usize>(a: *const i8, first: usize, b: *const i8, depth: usize) -> [Sums; R] {
    let low = _mm256_set1_epi16(0xFF);
    // A column has four bytes of every quad of `k` and four in each half of the trailer, so `b` points at its own.
    let trailer = b.wrapping_add(depth * COLUMNS);
    // SAFETY: the caller promises the trailer.
    let mut sums = [unsafe { load(trailer) }; R];
    for k in (0..depth).step_by(4) {
        // SAFETY: the caller promises `depth` rows of a panel.
        let b = unsafe { load(b.add(k * COLUMNS)) };
        let even = [shift_bytes(b[0]), shift_bytes(b[1])];
        let odd = [_mm256_srai_epi16::<8>(b[0]), _mm256_srai_epi16::<8>(b[1])];
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the caller promises R rows of `depth` values.
            let a = unsafe { a.add((first + row) * i8::DEPTH + k).cast::<i32>().read_unaligned() };
            let a = _mm256_set1_epi32(a);
            let (a_even, a_odd) = (_mm256_and_si256(a, low), _mm256_srli_epi16::<8>(a));
            for half in 0..2 {
                sums[half] = _mm256_add_epi32(sums[half], _mm256_madd_epi16(a_even, even[half]));
                sums[half] = _mm256_add_epi32(sums[half], _mm256_madd_epi16(a_odd, odd[half]));
            }
        }
    }
    let mut scaled = [[_mm256_setzero_ps(); 2]; R];
    // SAFETY: the caller promises both trailers.
    unsafe {
        let units = load(trailer.add(4 * COLUMNS));
        for row in 0..R {
            let unit = a.add(ROWS * i8::DEPTH).cast::<f32>().add(first + row).read_unaligned();
            for half in 0..2 {
                let sum = _mm256_mul_ps(_mm256_cvtepi32_ps(sums[row][half]), _mm256_castsi256_ps(units[half]));
                scaled[row][half] = _mm256_mul_ps(sum, _mm256_set1_ps(unit));
            }
        }
    }
    scaled
}

/// 64 bytes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load(bytes: *const i8) -> [__m256i; 2] {
    // SAFETY: the caller's promise.
    unsafe { [_mm256_loadu_si256(bytes.cast()), _mm256_loadu_si256(bytes.add(32).cast())] }
}

/// The lower byte of each 16 bits, with its sign.
#[inline]
#[target_feature(enable = "avx2")]
fn shift_bytes(bytes: __m256i) -> __m256i {
    _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(bytes))
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
unsafe fn store<const R: usize>(sums: &[Sums; R], output: Output) {
    for row in 0..R {
        let target = output.start.wrapping_add(row * output.stride);
        if output.columns == 16 {
            for half in 0..2 {
                let mut sum = sums[row][half];
                // SAFETY: the caller owns the output, and all 16 columns of it.
                unsafe {
                    let target = target.add(half * 8);
                    if output.add {
                        sum = _mm256_add_ps(_mm256_loadu_ps(target), sum);
                    }
                    _mm256_storeu_ps(target, sum);
                }
            }
            continue;
        }
        let mut values = [0.0; 16];
        // SAFETY: 16 values are two registers; the caller owns the output.
        unsafe {
            _mm256_storeu_ps(values.as_mut_ptr(), sums[row][0]);
            _mm256_storeu_ps(values.as_mut_ptr().add(8), sums[row][1]);
            for (column, value) in values[..output.columns].iter().enumerate() {
                let target = target.add(column);
                *target = if output.add { *target + value } else { *value };
            }
        }
    }
}
