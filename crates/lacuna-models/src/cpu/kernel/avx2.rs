//! The kernels for AVX2 and FMA, and for AVX-VNNI: a tile is 6 rows × 2 registers of 8 columns, 12 sums in 16 registers.
#![allow(unsafe_code)]
#![allow(
    clippy::needless_range_loop,
    reason = "iterators over arrays of registers are not always compiled to registers"
)]

use std::arch::x86_64::*;

use half::bf16;

use super::element::{keep_f32, keep_i8, widen_bf16, widen_i8};
use super::tile::{Ahead, Kernel, Output, nothing};

const ROWS: usize = 6;
const COLUMNS: usize = 16;
const DEPTH_F32: usize = 256;
const DEPTH_BF16: usize = 512;
const DEPTH_I8: usize = 1024;

pub(super) static F32: Kernel<f32> = Kernel {
    rows: ROWS,
    columns: COLUMNS,
    step: 1,
    depth: DEPTH_F32,
    block: DEPTH_F32,
    size: 4,
    task_rows: 32 * ROWS,
    copy: None,
    narrow: keep_f32,
    tile: tile_f32,
    begin: nothing,
    end: nothing,
};

/// Weights are widened to f32 in registers, activations when they are laid out.
pub(super) static BF16: Kernel<bf16> = Kernel {
    rows: ROWS,
    columns: COLUMNS,
    step: 2,
    depth: DEPTH_BF16,
    block: DEPTH_BF16,
    size: 4,
    task_rows: 32 * ROWS,
    copy: None,
    narrow: widen_bf16,
    tile: tile_bf16,
    begin: nothing,
    end: nothing,
};

/// Weights are widened to 16 bits in registers, activations when they are laid out.
pub(super) static I8: Kernel<i8> = Kernel {
    rows: ROWS,
    columns: COLUMNS,
    step: 4,
    depth: DEPTH_I8,
    block: DEPTH_I8,
    size: 2,
    task_rows: 32 * ROWS,
    copy: None,
    narrow: widen_i8,
    tile: tile_i8,
    begin: nothing,
    end: nothing,
};

/// For machines with AVX-VNNI: the same sums by dot products of bytes.
pub(super) static I8_DOT: Kernel<i8> = Kernel { size: 1, narrow: keep_i8, tile: tile_i8_dot, ..I8 };

/// Sums of one row.
type Sums = [__m256; 2];

macro_rules! tile {
    ($name:ident, $sums:ident, $activation:ty, $weight:ty, $features:literal) => {
        /// # Safety
        /// See [`super::tile::Tile`].
        unsafe fn $name(activations: *const u8, weights: *const $weight, depth: usize, output: Output, _: Ahead) {
            #[target_feature(enable = $features)]
            unsafe fn rows<const R: usize>(a: *const $activation, b: *const $weight, depth: usize, output: Output) {
                // SAFETY: the caller's promise.
                unsafe { store(&$sums::<R>(a, b, depth), output) }
            }
            let activations = activations.cast();
            // SAFETY: the caller's promise.
            unsafe {
                match output.rows {
                    1 => rows::<1>(activations, weights, depth, output),
                    2 => rows::<2>(activations, weights, depth, output),
                    3 => rows::<3>(activations, weights, depth, output),
                    4 => rows::<4>(activations, weights, depth, output),
                    5 => rows::<5>(activations, weights, depth, output),
                    _ => rows::<ROWS>(activations, weights, depth, output),
                }
            }
        }
    };
}

tile!(tile_f32, sums_f32, f32, f32, "avx2,fma");
tile!(tile_bf16, sums_bf16, f32, bf16, "avx2,fma");
tile!(tile_i8, sums_i8, i16, i8, "avx2,fma");
tile!(tile_i8_dot, sums_i8_dot, u8, i8, "avx2,fma,avxvnni");

#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn sums_f32<const R: usize>(a: *const f32, b: *const f32, depth: usize) -> [Sums; R] {
    let mut sums = [[_mm256_setzero_ps(); 2]; R];
    for k in 0..depth {
        // SAFETY: the caller promises `depth` rows of a panel.
        let b = unsafe { [_mm256_loadu_ps(b.add(k * COLUMNS)), _mm256_loadu_ps(b.add(k * COLUMNS + 8))] };
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the caller promises R rows of `depth` values.
            let a = _mm256_set1_ps(unsafe { *a.add(row * DEPTH_F32 + k) });
            sums[0] = _mm256_fmadd_ps(a, b[0], sums[0]);
            sums[1] = _mm256_fmadd_ps(a, b[1], sums[1]);
        }
    }
    sums
}

#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn sums_bf16<const R: usize>(a: *const f32, b: *const bf16, depth: usize) -> [Sums; R] {
    let mut sums = [[_mm256_setzero_ps(); 2]; R];
    for k in (0..depth).step_by(2) {
        // SAFETY: the caller promises `depth` rows of a panel.
        let pairs = unsafe { load(b.add(k * COLUMNS).cast()) };
        // The odd ones first, as the dot product does it; one after the other, so that they fit into the registers.
        let b = [odd(pairs[0]), odd(pairs[1])];
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the caller promises R rows of `depth` values.
            let a = _mm256_set1_ps(unsafe { *a.add(row * DEPTH_BF16 + k + 1) });
            sums[0] = _mm256_fmadd_ps(a, b[0], sums[0]);
            sums[1] = _mm256_fmadd_ps(a, b[1], sums[1]);
        }
        let b = [even(pairs[0]), even(pairs[1])];
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the caller promises R rows of `depth` values.
            let a = _mm256_set1_ps(unsafe { *a.add(row * DEPTH_BF16 + k) });
            sums[0] = _mm256_fmadd_ps(a, b[0], sums[0]);
            sums[1] = _mm256_fmadd_ps(a, b[1], sums[1]);
        }
    }
    sums
}

#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn sums_i8<const R: usize>(a: *const i16, b: *const i8, depth: usize) -> [Sums; R] {
    let mut sums = [[_mm256_setzero_si256(); 2]; R];
    for k in (0..depth).step_by(4) {
        // SAFETY: the caller promises `depth` rows of a panel.
        let quads = unsafe { load(b.add(k * COLUMNS)) };
        // Of every four values the even ones stand first in a row.
        for part in 0..2 {
            let b = if part == 0 {
                [shift_bytes(quads[0]), shift_bytes(quads[1])]
            } else {
                [_mm256_srai_epi16::<8>(quads[0]), _mm256_srai_epi16::<8>(quads[1])]
            };
            for (row, sums) in sums.iter_mut().enumerate() {
                // SAFETY: the caller promises R rows of `depth` values.
                let a = unsafe { a.add(row * DEPTH_I8 + k + 2 * part).cast::<i32>().read_unaligned() };
                let a = _mm256_set1_epi32(a);
                sums[0] = _mm256_add_epi32(sums[0], _mm256_madd_epi16(a, b[0]));
                sums[1] = _mm256_add_epi32(sums[1], _mm256_madd_epi16(a, b[1]));
            }
        }
    }
    // SAFETY: the caller promises both trailers.
    unsafe { scale_i8(&sums, a.add(ROWS * DEPTH_I8).cast(), b, depth) }
}

#[inline]
#[target_feature(enable = "avx2,fma,avxvnni")]
unsafe fn sums_i8_dot<const R: usize>(a: *const u8, b: *const i8, depth: usize) -> [Sums; R] {
    // SAFETY: the caller promises the trailer.
    let mut sums = [unsafe { load(b.add(depth * COLUMNS)) }; R];
    for k in (0..depth).step_by(4) {
        // SAFETY: the caller promises `depth` rows of a panel.
        let b = unsafe { load(b.add(k * COLUMNS)) };
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the caller promises R rows of `depth` values.
            let a = _mm256_set1_epi32(unsafe { a.add(row * DEPTH_I8 + k).cast::<i32>().read_unaligned() });
            sums[0] = _mm256_dpbusd_avx_epi32(sums[0], a, b[0]);
            sums[1] = _mm256_dpbusd_avx_epi32(sums[1], a, b[1]);
        }
    }
    // SAFETY: the caller promises both trailers.
    unsafe { scale_i8(&sums, a.add(ROWS * DEPTH_I8).cast(), b, depth) }
}

/// Sums times the scales of their row and column.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn scale_i8<const R: usize>(
    sums: &[[__m256i; 2]; R],
    row_scales: *const f32,
    b: *const i8,
    depth: usize,
) -> [Sums; R] {
    let mut scaled = [[_mm256_setzero_ps(); 2]; R];
    // SAFETY: the caller promises both trailers.
    unsafe {
        let scales = load(b.add(depth * COLUMNS + 4 * COLUMNS));
        for row in 0..R {
            let scale = row_scales.add(row).read_unaligned();
            for half in 0..2 {
                let sum = _mm256_mul_ps(_mm256_cvtepi32_ps(sums[row][half]), _mm256_castsi256_ps(scales[half]));
                scaled[row][half] = _mm256_mul_ps(sum, _mm256_set1_ps(scale));
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

/// The even values of bf16 pairs.
#[inline]
#[target_feature(enable = "avx2")]
fn even(pairs: __m256i) -> __m256 {
    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(pairs))
}

/// The odd values of bf16 pairs.
#[inline]
#[target_feature(enable = "avx2")]
fn odd(pairs: __m256i) -> __m256 {
    _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(0xFFFF_0000_u32 as i32)))
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
