//! The kernels for AVX-512: a tile is 12 rows × 2 registers of 16 columns, 24 sums in registers.
#![allow(unsafe_code)]
#![allow(
    clippy::needless_range_loop,
    reason = "iterators over arrays of registers are not always compiled to registers"
)]

use std::arch::x86_64::*;

use half::bf16;

use super::element::{keep_bf16, keep_f32, keep_i8, pieces, widen_bf16, widen_i8};
use super::tile::{Ahead, Blocks, Kernel, Output, nothing};
use crate::int4::GROUP;

const ROWS: usize = 12;
const COLUMNS: usize = 32;
const DEPTH_F32: usize = 256;
/// A run of activations takes twice as many bytes as its weights.
const DEPTH_WIDENED: usize = 512;
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
    tile: tile_f32,
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
    narrow: convert_bf16,
    tile: tile_bf16,
    begin: nothing,
    end: nothing,
};

/// For machines whose bf16 dot product is missing or slow: weights are widened in registers.
pub(super) static BF16_WIDENED: Kernel<bf16> =
    Kernel { depth: DEPTH_WIDENED, block: DEPTH_WIDENED, size: 4, narrow: widen_bf16, tile: tile_bf16_widened, ..BF16 };

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
    tile: tile_i8,
    begin: nothing,
    end: nothing,
};

/// For machines without an int8 dot product: the same sums.
pub(super) static I8_WIDENED: Kernel<i8> = Kernel { size: 2, narrow: widen_i8, tile: tile_i8_widened, ..I8 };

/// Rounds activations to bf16 by the chip's own conversion, if it has one. That takes denormals for zero, as dot products of bf16
/// do with their operands, so products are those of [`keep_bf16`].
pub(super) fn convert_bf16(values: &[f32], scale: f32, blocks: Blocks<'_>) {
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    fn convert(values: &[f32], blocks: Blocks<'_>) {
        for (values, output) in pieces::<bf16>(values, blocks) {
            for (values, output) in values.chunks(16).zip(output.chunks_mut(16)) {
                let mask = (1u32 << values.len()).wrapping_sub(1) as __mmask16;
                // SAFETY: the mask covers the values, of which the output has as many; both types are 32 plain bytes.
                unsafe {
                    let wide = _mm512_maskz_loadu_ps(mask, values.as_ptr());
                    let narrow: __m256i = std::mem::transmute(_mm512_cvtneps_pbh(wide));
                    _mm256_mask_storeu_epi16(output.as_mut_ptr().cast(), mask, narrow);
                }
            }
        }
    }
    if is_x86_feature_detected!("avx512bf16") && is_x86_feature_detected!("avx512vl") {
        // SAFETY: the instructions are there; a machine with kernels for AVX-512 has the others.
        unsafe { convert(values, blocks) }
    } else {
        keep_bf16(values, scale, blocks);
    }
}

/// Sums of one row of a tile.
type Sums = [__m512; 2];

/// Calls `$tile::<R>` for the R that is the number of rows.
macro_rules! by_rows {
    ($rows:expr, $tile:ident $arguments:tt, $($count:literal)*) => {
        match $rows {
            $($count => $tile::<$count> $arguments,)*
            _ => unreachable!("a tile has no more rows"),
        }
    };
}

macro_rules! tile {
    ($name:ident, $sums:ident, $activation:ty, $weight:ty, $features:literal) => {
        /// # Safety
        /// See [`super::tile::Tile`].
        unsafe fn $name(activations: *const u8, weights: *const $weight, depth: usize, output: Output, ahead: Ahead) {
            #[target_feature(enable = $features)]
            unsafe fn rows<const R: usize>(
                a: *const $activation,
                b: *const $weight,
                depth: usize,
                output: Output,
                ahead: Ahead,
            ) {
                // SAFETY: the caller's promise.
                unsafe { store(&$sums::<R>(a, b, depth, ahead), output) }
            }
            let activations = activations.cast();
            // SAFETY: the caller's promise.
            unsafe { by_rows!(output.rows, rows(activations, weights, depth, output, ahead), 1 2 3 4 5 6 7 8 9 10 11 12) }
        }
    };
}

tile!(tile_f32, sums_f32, f32, f32, "avx512f");
tile!(tile_bf16, sums_bf16, bf16, bf16, "avx512f,avx512bf16");
tile!(tile_bf16_widened, sums_bf16_widened, f32, bf16, "avx512f");
tile!(tile_i8, sums_i8, u8, i8, "avx512f,avx512vnni");
tile!(tile_i8_widened, sums_i8_widened, i16, i8, "avx512f,avx512bw");

#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn sums_f32<const R: usize>(a: *const f32, b: *const f32, depth: usize, _: Ahead) -> [Sums; R] {
    let mut sums = [[_mm512_setzero_ps(); 2]; R];
    for k in 0..depth {
        // SAFETY: the caller promises `depth` rows of a panel.
        let b = unsafe { [_mm512_loadu_ps(b.add(k * COLUMNS)), _mm512_loadu_ps(b.add(k * COLUMNS + 16))] };
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the caller promises R rows of `depth` values.
            let a = _mm512_set1_ps(unsafe { *a.add(row * DEPTH_F32 + k) });
            sums[0] = _mm512_fmadd_ps(a, b[0], sums[0]);
            sums[1] = _mm512_fmadd_ps(a, b[1], sums[1]);
        }
    }
    sums
}

#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn sums_bf16<const R: usize>(a: *const bf16, b: *const bf16, depth: usize, _: Ahead) -> [Sums; R] {
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
unsafe fn sums_bf16_widened<const R: usize>(a: *const f32, b: *const bf16, depth: usize, _: Ahead) -> [Sums; R] {
    let mut sums = [[_mm512_setzero_ps(); 2]; R];
    for k in (0..depth).step_by(2) {
        // SAFETY: the caller promises `depth` rows of a panel.
        let b = unsafe { pair_columns(b, k) };
        let b = [widen(b[0]), widen(b[1])];
        for (row, sums) in sums.iter_mut().enumerate() {
            // The odd one first, as the dot product does it.
            for odd in [1, 0] {
                // SAFETY: the caller promises R rows of `depth` values.
                let a = _mm512_set1_ps(unsafe { *a.add(row * DEPTH_WIDENED + k + odd) });
                sums[0] = _mm512_fmadd_ps(a, b[0][odd], sums[0]);
                sums[1] = _mm512_fmadd_ps(a, b[1][odd], sums[1]);
            }
        }
    }
    sums
}

#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn sums_i8<const R: usize>(a: *const u8, b: *const i8, depth: usize, ahead: Ahead) -> [Sums; R] {
    // SAFETY: the caller promises the trailer.
    let mut sums = [unsafe { start_i8(b.add(depth * COLUMNS)) }; R];
    // The weights that come next are prefetched on the way: where they are widened first, nothing else reads them ahead.
    let stride = (ahead.lines * 64 / (depth / 4)).min(64);
    for k in (0..depth).step_by(4) {
        _mm_prefetch::<_MM_HINT_T1>(ahead.start.wrapping_add(k / 4 * stride).cast());
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
    unsafe { scale_i8(&sums, a.add(ROWS * DEPTH).cast(), b.add(depth * COLUMNS)) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn sums_i8_widened<const R: usize>(a: *const i16, b: *const i8, depth: usize, _: Ahead) -> [Sums; R] {
    let mut sums = [[_mm512_setzero_si512(); 2]; R];
    for k in (0..depth).step_by(4) {
        // SAFETY: the caller promises `depth` rows of a panel.
        let b = unsafe { quad_columns(b, k) };
        let even = [shift_bytes(b[0]), shift_bytes(b[1])];
        let odd = [_mm512_srai_epi16::<8>(b[0]), _mm512_srai_epi16::<8>(b[1])];
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the caller promises R rows of `depth` values, the even ones of every four first.
            let [a_even, a_odd] = unsafe { a.add(row * DEPTH + k).cast::<[i32; 2]>().read_unaligned() };
            let (a_even, a_odd) = (_mm512_set1_epi32(a_even), _mm512_set1_epi32(a_odd));
            for half in 0..2 {
                sums[half] = _mm512_add_epi32(sums[half], _mm512_madd_epi16(a_even, even[half]));
                sums[half] = _mm512_add_epi32(sums[half], _mm512_madd_epi16(a_odd, odd[half]));
            }
        }
    }
    // SAFETY: the caller promises both trailers.
    unsafe { scale_i8(&sums, a.add(ROWS * DEPTH).cast(), b.add(depth * COLUMNS)) }
}

/// Most rows of a tile of [`tile_nibbles`]: for more it pays to widen a run once and keep it in memory, except with AMX.
pub(super) const NIBBLE_ROWS: usize = 8;

/// `output (+)= activations · weights` for few rows, with weights in four bits that are widened in registers.
///
/// # Safety
/// `activations` is a run of a panel of rows of `kernel`, whose activations are bytes and whose tiles have [`COLUMNS`] columns, with
/// its trailer. `groups`, `values` and `trailer` are those of a run of [`super::Nibbles`]. The output has at most [`NIBBLE_ROWS`]
/// rows, can be written and is nobody else's; the machine has the instructions.
pub(super) unsafe fn tile_nibbles(
    kernel: &Kernel<i8>,
    activations: *const u8,
    [groups, values, trailer]: [&[u8]; 3],
    output: Output,
    ahead: Ahead,
) {
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn rows<const R: usize>(
        kernel: &Kernel<i8>,
        activations: *const u8,
        [groups, values, trailer]: [&[u8]; 3],
        output: Output,
        ahead: Ahead,
    ) {
        let count = groups.len() / COLUMNS;
        let lines = ahead.lines.div_ceil(count);
        let trailer = trailer.as_ptr().cast();
        // SAFETY: the caller promises the trailer.
        let mut sums = [unsafe { start_i8(trailer) }; R];
        for group in 0..count {
            for line in 0..lines {
                _mm_prefetch::<_MM_HINT_T1>(ahead.start.wrapping_add((group * lines + line) * 64).cast());
            }
            let k = group * GROUP;
            let a = activations.wrapping_add(k / kernel.block * kernel.block * kernel.rows + k % kernel.block);
            // SAFETY: the caller promises a byte of each column.
            let scales = unsafe { nibble_scales(groups.as_ptr().add(group * COLUMNS)) };
            for eight in 0..GROUP / 8 {
                // SAFETY: the caller promises four bytes of each column.
                let mut bytes = unsafe { quad_columns(values.as_ptr().cast(), 4 * (group * GROUP / 8 + eight)) };
                for part in 0..2 {
                    let mut b = bytes;
                    for half in 0..2 {
                        b[half] = widen_nibbles(bytes[half], scales[half]);
                        bytes[half] = _mm512_srli_epi16::<4>(bytes[half]);
                    }
                    for (row, sums) in sums.iter_mut().enumerate() {
                        let quad = a.wrapping_add(row * kernel.block + 8 * eight + 4 * part).cast::<i32>();
                        // SAFETY: the caller promises R rows of as many values; a group does not cross a block.
                        let a = _mm512_set1_epi32(unsafe { quad.read_unaligned() });
                        sums[0] = _mm512_dpbusd_epi32(sums[0], a, b[0]);
                        sums[1] = _mm512_dpbusd_epi32(sums[1], a, b[1]);
                    }
                }
            }
        }
        let row_scales = activations.wrapping_add(kernel.rows * kernel.depth).cast();
        // SAFETY: the caller promises both trailers and the output.
        unsafe { store(&scale_i8(&sums, row_scales, trailer), output) }
    }
    let run = [groups, values, trailer];
    // SAFETY: the caller's promise.
    unsafe { by_rows!(output.rows, rows(kernel, activations, run, output, ahead), 1 2 3 4 5 6 7 8) }
}

/// Widens 32 values of `k` of [`COLUMNS`] columns in four bits, a group of [`super::Nibbles`], to int8.
///
/// # Safety
/// There are a byte of each column in `groups`, its values in `values` and room for them in `output`; the machine has the instructions.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn widen_group(groups: *const u8, values: *const u8, output: *mut i8) {
    // SAFETY: the caller's promise.
    unsafe {
        let scales = nibble_scales(groups);
        for eight in 0..GROUP / 8 {
            for (half, mut bytes) in quad_columns(values.cast(), 4 * eight).into_iter().enumerate() {
                for part in 0..2 {
                    let target = output.add((2 * eight + part) * 4 * COLUMNS + 64 * half);
                    _mm512_storeu_epi8(target, widen_nibbles(bytes, scales[half]));
                    bytes = _mm512_srli_epi16::<4>(bytes);
                }
            }
        }
    }
}

/// For both halves of the columns of a group their scales, in each 16 bits, and what is subtracted from their values, in each byte.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn nibble_scales(groups: *const u8) -> [[__m512i; 2]; 2] {
    let lowest_byte = _mm512_set4_epi32(0x0C0C_0C0C, 0x0808_0808, 0x0404_0404, 0);
    let mut scales = [[_mm512_setzero_si512(); 2]; 2];
    for half in 0..2 {
        // SAFETY: the caller promises a byte of each column.
        let bytes = _mm512_cvtepu8_epi32(unsafe { _mm_loadu_si128(groups.add(16 * half).cast()) });
        let scale = _mm512_add_epi32(_mm512_and_epi32(bytes, _mm512_set1_epi32(15)), _mm512_set1_epi32(1));
        let zero = _mm512_mullo_epi16(scale, _mm512_srli_epi32::<4>(bytes));
        let both = _mm512_or_epi32(scale, _mm512_slli_epi32::<16>(scale));
        scales[half] = [both, _mm512_shuffle_epi8(zero, lowest_byte)];
    }
    scales
}

/// The lower four bits of each byte, in int8. A product fits into a byte, so a multiplication of 16 bits makes two.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn widen_nibbles(bytes: __m512i, [scale, zero]: [__m512i; 2]) -> __m512i {
    _mm512_sub_epi8(_mm512_mullo_epi16(_mm512_and_epi32(bytes, _mm512_set1_epi8(15)), scale), zero)
}

/// The lower byte of each 16 bits, with its sign.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn shift_bytes(bytes: __m512i) -> __m512i {
    _mm512_srai_epi16::<8>(_mm512_slli_epi16::<8>(bytes))
}

/// Initial sums of a run.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn start_i8(trailer: *const i8) -> [__m512i; 2] {
    // SAFETY: the caller promises the trailer.
    unsafe { [_mm512_loadu_epi32(trailer.cast()), _mm512_loadu_epi32(trailer.add(64).cast())] }
}

/// Sums times the scales of their row and column.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn scale_i8<const R: usize>(sums: &[[__m512i; 2]; R], row_scales: *const f32, trailer: *const i8) -> [Sums; R] {
    let mut scaled = [[_mm512_setzero_ps(); 2]; R];
    // SAFETY: the caller promises both trailers.
    unsafe {
        let scales = trailer.add(4 * COLUMNS);
        let scales = [_mm512_loadu_ps(scales.cast()), _mm512_loadu_ps(scales.add(64).cast())];
        for row in 0..R {
            let scale = _mm512_set1_ps(row_scales.add(row).read_unaligned());
            for half in 0..2 {
                let sum = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[row][half]), scales[half]);
                scaled[row][half] = _mm512_mul_ps(sum, scale);
            }
        }
    }
    scaled
}

/// The values `k` to `k + 3` of a row.
#[inline(always)]
unsafe fn quad(a: *const u8, row: usize, k: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { a.add(row * DEPTH + k).cast::<i32>().read_unaligned() }
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
