//! The kernels for AVX-512: a tile is 12 rows × 2 registers of 16 columns, 24 sums in registers.
#![allow(unsafe_code)]
#![allow(
    clippy::needless_range_loop,
    reason = "iterators over arrays of registers are not always compiled to registers"
)]

use std::arch::x86_64::*;

use half::bf16;

use super::element::{Element, Output};
use super::{COLUMNS, ROWS};

/// Sums of one row of a tile.
type Sums = [__m512; 2];

/// Calls `$tile::<R>` for the R that is the number of rows.
macro_rules! by_rows {
    ($rows:expr, $tile:ident $arguments:tt, $($count:literal)*) => {
        match $rows {
            $($count => $tile::<$count> $arguments,)*
            _ => unreachable!("a tile has at most {ROWS} rows"),
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
                unsafe { store(&$sums::<R>(a, b, depth), output) }
            }
            // SAFETY: the caller's promise.
            unsafe { by_rows!(output.rows, rows(activations, weights, depth, output), 1 2 3 4 5 6 7 8 9 10 11 12) }
        }
    };
}

tile!(tile_f32, sums_f32, f32, "avx512f");
tile!(tile_bf16, sums_bf16, bf16, "avx512f,avx512bf16");
tile!(tile_i8, sums_i8, i8, "avx512f,avx512vnni");
tile!(
    /// For machines with AVX-512 that have no int8 dot product: the same sums.
    tile_i8_widened, sums_i8_widened, i8, "avx512f,avx512bw"
);
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
            let a = _mm512_set1_ps(unsafe { *a.add(row * f32::DEPTH + k) });
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
        // A closure (`map`) would be compiled without these instructions and called.
        // SAFETY: the caller promises `depth` rows of a panel; both types are 128 plain bytes.
        let b: [__m512bh; 2] = unsafe { std::mem::transmute(pair_columns(b, k)) };
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
        let b = unsafe { pair_columns(b, k) };
        let b = [widen(b[0]), widen(b[1])];
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

#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn sums_i8<const R: usize>(a: *const i8, b: *const i8, depth: usize) -> [Sums; R] {
    // SAFETY: the caller promises the trailer.
    let mut sums = [unsafe { start_i8(b, depth) }; R];
    for k in (0..depth).step_by(4) {
        // SAFETY: the caller promises `depth` rows of a panel.
        let b = unsafe { quad_columns(b, k) };
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the caller promises R rows of `depth` values.
            let a = _mm512_set1_epi32(unsafe { quad(a, row, k) });
            sums[0] = _mm512_dpbusd_epi32(sums[0], a, b[0]);
            sums[1] = _mm512_dpbusd_epi32(sums[1], a, b[1]);
        }
    }
    // SAFETY: the caller promises both trailers.
    unsafe { scale_i8(&sums, a, b, depth) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn sums_i8_widened<const R: usize>(a: *const i8, b: *const i8, depth: usize) -> [Sums; R] {
    // SAFETY: the caller promises the trailer.
    let mut sums = [unsafe { start_i8(b, depth) }; R];
    let low = _mm512_set1_epi16(0xFF);
    for k in (0..depth).step_by(4) {
        // SAFETY: the caller promises `depth` rows of a panel.
        let b = unsafe { quad_columns(b, k) };
        let even = [shift_bytes(b[0]), shift_bytes(b[1])];
        let odd = [_mm512_srai_epi16::<8>(b[0]), _mm512_srai_epi16::<8>(b[1])];
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the caller promises R rows of `depth` values.
            let a = _mm512_set1_epi32(unsafe { quad(a, row, k) });
            let (a_even, a_odd) = (_mm512_and_si512(a, low), _mm512_srli_epi16::<8>(a));
            for half in 0..2 {
                sums[half] = _mm512_add_epi32(sums[half], _mm512_madd_epi16(a_even, even[half]));
                sums[half] = _mm512_add_epi32(sums[half], _mm512_madd_epi16(a_odd, odd[half]));
            }
        }
    }
    // SAFETY: the caller promises both trailers.
    unsafe { scale_i8(&sums, a, b, depth) }
}

/// The lower byte of each 16 bits, with its sign.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn shift_bytes(bytes: __m512i) -> __m512i {
    _mm512_srai_epi16::<8>(_mm512_slli_epi16::<8>(bytes))
}

/// Where the sums of a run start from.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn start_i8(b: *const i8, depth: usize) -> [__m512i; 2] {
    // SAFETY: the caller promises the trailer.
    unsafe {
        let trailer = b.add(depth * COLUMNS);
        [_mm512_loadu_epi32(trailer.cast()), _mm512_loadu_epi32(trailer.add(64).cast())]
    }
}

/// Sums in the units of their row and column.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn scale_i8<const R: usize>(sums: &[[__m512i; 2]; R], a: *const i8, b: *const i8, depth: usize) -> [Sums; R] {
    let mut scaled = [[_mm512_setzero_ps(); 2]; R];
    // SAFETY: the caller promises both trailers.
    unsafe {
        let trailer = b.add(depth * COLUMNS + 4 * COLUMNS);
        let units = [_mm512_loadu_ps(trailer.cast()), _mm512_loadu_ps(trailer.add(64).cast())];
        for row in 0..R {
            let unit = _mm512_set1_ps(a.add(ROWS * i8::DEPTH).cast::<f32>().add(row).read_unaligned());
            for half in 0..2 {
                let sum = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[row][half]), units[half]);
                scaled[row][half] = _mm512_mul_ps(sum, unit);
            }
        }
    }
    scaled
}

/// The values `k` to `k + 3` of a row.
#[inline(always)]
unsafe fn quad(a: *const i8, row: usize, k: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { a.add(row * i8::DEPTH + k).cast::<i32>().read_unaligned() }
}

/// The values `k` to `k + 3` of all columns of a panel.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn quad_columns(b: *const i8, k: usize) -> [__m512i; 2] {
    // SAFETY: the caller's promise.
    unsafe { [_mm512_loadu_epi32(b.add(k * COLUMNS).cast()), _mm512_loadu_epi32(b.add(k * COLUMNS + 64).cast())] }
}

/// The values `k` and `k + 1` of a row.
#[inline(always)]
unsafe fn pair(a: *const bf16, row: usize, k: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { a.add(row * bf16::DEPTH + k).cast::<i32>().read_unaligned() }
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
unsafe fn store<const R: usize>(sums: &[Sums; R], output: Output) {
    let masks = [first_columns(output.columns), first_columns(output.columns.saturating_sub(16))];
    for row in 0..R {
        for half in 0..2 {
            let target = output.start.wrapping_add(row * output.stride + half * 16);
            let mut sum = sums[row][half];
            // SAFETY: the mask leaves out the columns that are not the caller's.
            unsafe {
                if output.add {
                    sum = _mm512_add_ps(_mm512_maskz_loadu_ps(masks[half], target), sum);
                }
                _mm512_mask_storeu_ps(target, masks[half], sum);
            }
        }
    }
}

/// A mask of the first `columns` of a register.
#[inline(always)]
fn first_columns(columns: usize) -> __mmask16 {
    if columns >= 16 { u16::MAX } else { (1 << columns) - 1 }
}
