//! The kernels for Intel's matrix unit, AMX: a tile is 32 rows × 32 columns, four accumulators of the eight tile registers.
//!
//! A tile register is 16 rows of 64 bytes. A step of `k` is what 64 bytes hold, 32 values of bf16 or 64 of int8: two registers
//! of activations, two of weights, four products. Operands are laid out so that each register is loaded from whole cache
//! lines: a block of activations is 32 rows of 64 bytes, a step of weights 16 groups of 32 columns.
#![allow(unsafe_code)]
#![allow(
    clippy::needless_range_loop,
    reason = "iterators over arrays of registers are not always compiled to registers"
)]

use std::arch::asm;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use half::bf16;

use super::avx512::convert_bf16;
use super::element::keep_i8;
use super::tile::{Ahead, Kernel, Output, Rows, nothing};
use super::{Element, Lines, avx512, scalar};
use crate::int4::GROUP;

const ROWS: usize = 32;
const COLUMNS: usize = 32;
/// Bytes of a row of a tile register.
const ROW_BYTES: usize = 64;
const STEP_BF16: usize = ROW_BYTES / 2;
const STEP_I8: usize = ROW_BYTES;
/// A run of a panel of weights stays in the L1 cache while the rows of a task go by. These pass it by (`tileloaddt1`).
const DEPTH_BF16: usize = 512;
/// As all kernels for int8 have it, which give the same bits.
const DEPTH_I8: usize = 1024;
const TASK_ROWS: usize = 256;

pub(super) static BF16: Kernel<bf16> = Kernel {
    rows: ROWS,
    columns: COLUMNS,
    step: STEP_BF16,
    depth: DEPTH_BF16,
    block: STEP_BF16,
    size: 2,
    task_rows: TASK_ROWS,
    copy: Some(copy_rows),
    narrow: convert_bf16,
    tile: tile_bf16,
    begin: configure,
    end: release,
};

pub(super) static I8: Kernel<i8> = Kernel {
    rows: ROWS,
    columns: COLUMNS,
    step: STEP_I8,
    depth: DEPTH_I8,
    block: STEP_I8,
    size: 1,
    task_rows: TASK_ROWS,
    copy: Some(copy_rows),
    narrow: keep_i8,
    tile: tile_i8,
    begin: configure,
    end: release,
};

/// The same layout without the matrix unit.
pub(super) static BF16_TWIN: Kernel<bf16> = Kernel {
    tile: scalar::tile_bf16::<ROWS, COLUMNS, STEP_BF16>,
    copy: Some(scalar::copy_rows),
    begin: nothing,
    end: nothing,
    ..BF16
};

/// The same layout without the matrix unit.
pub(super) static I8_TWIN: Kernel<i8> = Kernel {
    tile: scalar::tile_i8::<ROWS, COLUMNS, STEP_I8, DEPTH_I8>,
    copy: Some(scalar::copy_rows),
    begin: nothing,
    end: nothing,
    ..I8
};

/// Sums of a tile.
#[repr(align(64))]
struct Sums<T>([[T; COLUMNS]; ROWS]);

/// Memory as LDTILECFG takes it.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// Palette 1: eight registers of 16 rows of 64 bytes.
static CONFIGURATION: Configuration = Configuration {
    palette: 1,
    start_row: 0,
    reserved: [0; 14],
    row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

/// Configures this thread's tile registers.
///
/// # Safety
/// The machine has AMX, and the system has permitted it.
unsafe fn configure() {
    // SAFETY: the caller's promise; the configuration is 64 bytes.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const CONFIGURATION, options(nostack, readonly, preserves_flags)) };
}

/// Gives this thread's tile registers back, so that the system need not save them.
///
/// # Safety
/// As for [`configure`].
unsafe fn release() {
    // SAFETY: the caller's promise.
    unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) };
}

/// The runs that are multiplied, and where the sums go.
struct Run {
    activations: *const u8,
    weights: *const u8,
    steps: usize,
    sums: *mut u8,
    /// Bytes from row to row of the sums.
    stride: usize,
    /// Starts from the sums that stand there instead of zero.
    add: bool,
    ahead: Ahead,
}

/// The end of a step: prefetches the share of the next run that is due, and goes on with the next step.
macro_rules! next_step {
    () => {
        "mov {left:e}, {fours:e}
        test {left:e}, {left:e}
        jz 5f
        4:
        prefetcht1 [{p}]
        prefetcht1 [{p} + 64]
        prefetcht1 [{p} + 128]
        prefetcht1 [{p} + 192]
        add {p}, 256
        dec {left:e}
        jnz 4b
        5:
        add {a}, 2048
        add {b}, 2048
        dec {steps}
        jnz 3b"
    };
}

/// `sums (+)= activations · weights` for 32 rows and, named `$half`, for 16.
macro_rules! accumulate {
    ($whole:ident, $half:ident, $dot:literal) => {
        /// # Safety
        /// The tile registers are configured; activations and weights have `steps` steps; the sums are 32 × 32 and the
        /// caller's.
        unsafe fn $whole(run: &Run) {
            // SAFETY: the caller's promise. Prefetching never fails.
            unsafe {
                asm!(
                    "test {add:e}, {add:e}",
                    "jnz 2f",
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "tilezero tmm2",
                    "tilezero tmm3",
                    "jmp 3f",
                    "2:",
                    "tileloadd tmm0, [{c} + {stride}*1]",
                    "tileloadd tmm1, [{c} + {stride}*1 + 64]",
                    "tileloadd tmm2, [{d} + {stride}*1]",
                    "tileloadd tmm3, [{d} + {stride}*1 + 64]",
                    "3:",
                    "tileloaddt1 tmm4, [{a} + {line}*1]",
                    "tileloadd tmm6, [{b} + {line}*2]",
                    concat!($dot, " tmm0, tmm4, tmm6"),
                    "tileloadd tmm7, [{b} + {line}*2 + 64]",
                    concat!($dot, " tmm1, tmm4, tmm7"),
                    "tileloaddt1 tmm5, [{a} + {line}*1 + 1024]",
                    concat!($dot, " tmm2, tmm5, tmm6"),
                    concat!($dot, " tmm3, tmm5, tmm7"),
                    next_step!(),
                    "tilestored [{c} + {stride}*1], tmm0",
                    "tilestored [{c} + {stride}*1 + 64], tmm1",
                    "tilestored [{d} + {stride}*1], tmm2",
                    "tilestored [{d} + {stride}*1 + 64], tmm3",
                    a = inout(reg) run.activations => _,
                    b = inout(reg) run.weights => _,
                    c = in(reg) run.sums,
                    d = in(reg) run.sums.wrapping_add(16 * run.stride),
                    p = inout(reg) run.ahead.start => _,
                    stride = in(reg) run.stride,
                    line = in(reg) ROW_BYTES,
                    steps = inout(reg) run.steps => _,
                    fours = in(reg) run.fours(),
                    left = out(reg) _,
                    add = in(reg) u32::from(run.add),
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
        }

        /// # Safety
        /// The tile registers are configured; activations and weights have `steps` steps; the sums are 16 × 32 and the
        /// caller's.
        unsafe fn $half(run: &Run) {
            // SAFETY: the caller's promise. Prefetching never fails.
            unsafe {
                asm!(
                    "test {add:e}, {add:e}",
                    "jnz 2f",
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "jmp 3f",
                    "2:",
                    "tileloadd tmm0, [{c} + {stride}*1]",
                    "tileloadd tmm1, [{c} + {stride}*1 + 64]",
                    "3:",
                    "tileloadd tmm4, [{a} + {line}*1]",
                    "tileloadd tmm6, [{b} + {line}*2]",
                    concat!($dot, " tmm0, tmm4, tmm6"),
                    "tileloadd tmm7, [{b} + {line}*2 + 64]",
                    concat!($dot, " tmm1, tmm4, tmm7"),
                    next_step!(),
                    "tilestored [{c} + {stride}*1], tmm0",
                    "tilestored [{c} + {stride}*1 + 64], tmm1",
                    a = inout(reg) run.activations => _,
                    b = inout(reg) run.weights => _,
                    c = in(reg) run.sums,
                    p = inout(reg) run.ahead.start => _,
                    stride = in(reg) run.stride,
                    line = in(reg) ROW_BYTES,
                    steps = inout(reg) run.steps => _,
                    fours = in(reg) run.fours(),
                    left = out(reg) _,
                    add = in(reg) u32::from(run.add),
                    out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
        }
    };
}

impl Run {
    /// Prefetches of four cache lines in each step.
    fn fours(&self) -> u32 {
        self.ahead.lines.div_ceil(4 * self.steps) as u32
    }
}

accumulate!(whole_bf16, half_bf16, "tdpbf16ps");
accumulate!(whole_i8, half_i8, "tdpbusd");

/// # Safety
/// See [`super::tile::Tile`].
unsafe fn tile_bf16(activations: *const u8, weights: *const bf16, depth: usize, output: Output, ahead: Ahead) {
    let (weights, steps) = (weights.cast(), depth / STEP_BF16);
    let accumulate = if output.rows > 16 { whole_bf16 } else { half_bf16 };
    let registers = output.rows.next_multiple_of(16);
    if output.rows == registers && output.columns == COLUMNS {
        let (sums, stride) = (output.start.cast(), output.stride * size_of::<f32>());
        // SAFETY: the caller's promise; the output has all rows and columns of the registers.
        unsafe { accumulate(&Run { activations, weights, steps, sums, stride, add: output.add, ahead }) };
        return;
    }
    // The same sums by way of a tile that has all rows and columns.
    let mut whole = Sums([[0.0f32; COLUMNS]; ROWS]);
    let row = |index: usize| {
        // SAFETY: the row is the caller's.
        unsafe { std::slice::from_raw_parts_mut(output.start.add(index * output.stride), output.columns) }
    };
    if output.add {
        for index in 0..output.rows {
            whole.0[index][..output.columns].copy_from_slice(row(index));
        }
    }
    let (sums, stride) = (whole.0.as_mut_ptr().cast(), COLUMNS * size_of::<f32>());
    // SAFETY: the caller's promise; the sums are 32 × 32.
    unsafe { accumulate(&Run { activations, weights, steps, sums, stride, add: output.add, ahead }) };
    for index in 0..output.rows {
        row(index).copy_from_slice(&whole.0[index][..output.columns]);
    }
}

/// # Safety
/// See [`super::tile::Tile`].
unsafe fn tile_i8(activations: *const u8, weights: *const i8, depth: usize, output: Output, ahead: Ahead) {
    // The product writes all rows that are read.
    let mut sums = MaybeUninit::<Sums<i32>>::uninit();
    let accumulate = if output.rows > 16 { whole_i8 } else { half_i8 };
    let run = Run {
        activations,
        weights: weights.cast(),
        steps: depth / STEP_I8,
        sums: sums.as_mut_ptr().cast(),
        stride: COLUMNS * size_of::<i32>(),
        add: false,
        ahead,
    };
    // SAFETY: the caller's promise; the sums are 32 × 32.
    unsafe {
        accumulate(&run);
        scale_i8(sums.as_ptr().cast(), activations.add(ROWS * DEPTH_I8).cast(), weights.add(depth * COLUMNS), output);
    }
}

/// `output (+)= activations · weights` for one tile, with weights in four bits. Each step is widened while the one before it is
/// multiplied.
///
/// # Safety
/// As for [`super::tile::Tile`] of [`I8`]; `groups`, `values` and `trailer` are those of a run of [`super::Nibbles`].
pub(super) unsafe fn tile_nibbles(
    activations: *const u8,
    [groups, values, trailer]: [&[u8]; 3],
    output: Output,
    ahead: Ahead,
) {
    /// Two steps of weights in int8.
    #[repr(align(64))]
    struct Steps([[i8; STEP_I8 * COLUMNS]; 2]);

    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn tile(activations: *const u8, [groups, values]: [&[u8]; 2], sums: *mut i32, whole: bool, ahead: Ahead) {
        let steps = groups.len() / (COLUMNS * STEP_I8 / GROUP);
        let lines = ahead.lines.div_ceil(steps);
        let mut wide = MaybeUninit::<Steps>::uninit();
        // SAFETY: the place is there, and nothing is read.
        let first: *mut i8 = unsafe { &raw mut (*wide.as_mut_ptr()).0 }.cast();
        let wide = |step: usize| first.wrapping_add(step % 2 * STEP_I8 * COLUMNS);
        // SAFETY: the caller promises whole steps, and that tile registers are configured. They keep their values in between: the compiler
        // uses none, as no function here has AMX among its features.
        unsafe {
            let widen = |step: usize| {
                for group in 0..STEP_I8 / GROUP {
                    let first = (step * STEP_I8 / GROUP + group) * COLUMNS;
                    let (groups, values) = (groups.as_ptr().add(first), values.as_ptr().add(first * GROUP / 2));
                    avx512::widen_group(groups, values, wide(step).add(group * GROUP * COLUMNS));
                }
            };
            asm!("tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3", options(nostack));
            widen(0);
            for step in 0..steps {
                for line in 0..lines {
                    _mm_prefetch::<_MM_HINT_T1>(ahead.start.wrapping_add((step * lines + line) * 64).cast());
                }
                if step + 1 < steps {
                    widen(step + 1);
                }
                let a = activations.add(step * ROWS * ROW_BYTES);
                asm!(
                    "tileloadd tmm4, [{a} + {line}*1]",
                    "tileloadd tmm6, [{b} + {line}*2]",
                    "tdpbusd tmm0, tmm4, tmm6",
                    "tileloadd tmm7, [{b} + {line}*2 + 64]",
                    "tdpbusd tmm1, tmm4, tmm7",
                    a = in(reg) a,
                    b = in(reg) wide(step),
                    line = in(reg) ROW_BYTES,
                    options(nostack),
                );
                if whole {
                    asm!(
                        "tileloadd tmm5, [{a} + {line}*1 + 1024]",
                        "tdpbusd tmm2, tmm5, tmm6",
                        "tdpbusd tmm3, tmm5, tmm7",
                        a = in(reg) a,
                        line = in(reg) ROW_BYTES,
                        options(nostack),
                    );
                }
            }
            asm!(
                "tilestored [{c} + {stride}*1], tmm0",
                "tilestored [{c} + {stride}*1 + 64], tmm1",
                "tilestored [{d} + {stride}*1], tmm2",
                "tilestored [{d} + {stride}*1 + 64], tmm3",
                c = in(reg) sums,
                d = in(reg) sums.add(16 * COLUMNS),
                stride = in(reg) COLUMNS * size_of::<i32>(),
                options(nostack),
            );
        }
    }
    let mut sums = MaybeUninit::<Sums<i32>>::uninit();
    // SAFETY: the caller's promise; the sums are 32 × 32, and a machine with AMX has AVX-512.
    unsafe {
        tile(activations, [groups, values], sums.as_mut_ptr().cast(), output.rows > 16, ahead);
        scale_i8(sums.as_ptr().cast(), activations.add(ROWS * DEPTH_I8).cast(), trailer.as_ptr().cast(), output);
    }
}

/// Stores sums times the scales of their row and column.
#[target_feature(enable = "avx512f")]
unsafe fn scale_i8(sums: *const i32, row_scales: *const f32, trailer: *const i8, output: Output) {
    for half in 0..2 {
        let columns = output.columns.saturating_sub(16 * half);
        let mask: __mmask16 = if columns >= 16 { u16::MAX } else { (1 << columns) - 1 };
        // SAFETY: the caller promises the sums of all rows and both trailers; the mask leaves out the columns that are not
        // the caller's.
        unsafe {
            let start = _mm512_loadu_epi32(trailer.add(64 * half).cast());
            let scales = _mm512_loadu_ps(trailer.add(4 * COLUMNS + 64 * half).cast());
            for row in 0..output.rows {
                let sum = _mm512_add_epi32(start, _mm512_loadu_epi32(sums.add(row * COLUMNS + 16 * half)));
                let sum = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), scales);
                let mut sum = _mm512_mul_ps(sum, _mm512_set1_ps(row_scales.add(row).read_unaligned()));
                let target = output.start.wrapping_add(row * output.stride + 16 * half);
                if output.add {
                    sum = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, target), sum);
                }
                _mm512_mask_storeu_ps(target, mask, sum);
            }
        }
    }
}

/// # Safety
/// See [`super::tile::CopyRows`].
unsafe fn copy_rows(from: Rows, to: Rows, rows: usize, columns: usize, add: bool) {
    #[target_feature(enable = "avx512f")]
    unsafe fn copy(from: Rows, to: Rows, rows: usize, columns: usize, add: bool) {
        for half in 0..COLUMNS / 16 {
            let columns = columns.saturating_sub(16 * half);
            let mask: __mmask16 = if columns >= 16 { u16::MAX } else { (1 << columns) - 1 };
            for row in 0..rows {
                let (from, to) = (from.at(row, 16 * half), to.at(row, 16 * half));
                // SAFETY: the caller's promise; the mask leaves out the columns that are not there.
                unsafe {
                    let mut values = _mm512_maskz_loadu_ps(mask, from.start);
                    if add {
                        values = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to.start), values);
                    }
                    _mm512_mask_storeu_ps(to.start, mask, values);
                }
            }
        }
    }
    // SAFETY: the caller's promise; a machine with AMX has AVX-512.
    unsafe { copy(from, to, rows, columns, add) }
}

/// Products of tile registers in a round of the loops below.
pub(super) const DOTS: usize = 4;

/// Multiplies tile registers over and over, for measuring. They hold numbers of all kinds: with zeros a chip runs faster than it
/// ever will in a product.
macro_rules! dots {
    ($name:ident, $dot:literal) => {
        pub(super) fn $name(rounds: usize) {
            let mut state = 1u32;
            let mut number = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                bf16::from_f32((state >> 8) as f32 / (1 << 23) as f32 - 1.0)
            };
            let values: [[bf16; STEP_BF16]; 16] = std::array::from_fn(|_| std::array::from_fn(|_| number()));
            // SAFETY: a loop is only picked where AMX is usable; the values fill a register.
            unsafe {
                configure();
                asm!(
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "tilezero tmm2",
                    "tilezero tmm3",
                    "tileloadd tmm4, [{values} + {line}*1]",
                    "tileloadd tmm5, [{values} + {line}*1]",
                    "tileloadd tmm6, [{values} + {line}*1]",
                    "tileloadd tmm7, [{values} + {line}*1]",
                    "2:",
                    concat!($dot, " tmm0, tmm4, tmm6"),
                    concat!($dot, " tmm1, tmm4, tmm7"),
                    concat!($dot, " tmm2, tmm5, tmm6"),
                    concat!($dot, " tmm3, tmm5, tmm7"),
                    "dec {rounds}",
                    "jnz 2b",
                    rounds = inout(reg) rounds => _,
                    values = in(reg) values.as_ptr(),
                    line = in(reg) ROW_BYTES,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack, readonly),
                );
                release();
            }
        }
    };
}

dots!(dot_bf16, "tdpbf16ps");
dots!(dot_i8, "tdpbusd");

/// The machine has AMX with bf16 and int8, the system lets this process use it, and it computes what it should.
///
/// CPUID leaf 0x1D, which describes the tiles, is not asked: virtual machines hide it.
pub(super) fn usable() -> bool {
    const TILE_BF16_INT8: u32 = 1 << 22 | 1 << 24 | 1 << 25;
    const TILE_STATE: u64 = 1 << 17 | 1 << 18;
    /// The state of the tile registers was saved and restored by the system.
    #[target_feature(enable = "xsave")]
    fn saved() -> bool {
        // SAFETY: the caller found XSAVE, and register 0 is always there.
        unsafe { _xgetbv(0) & TILE_STATE == TILE_STATE }
    }
    let leaf = __cpuid_count(7, 0);
    leaf.edx & TILE_BF16_INT8 == TILE_BF16_INT8
        && is_x86_feature_detected!("xsave")
        // SAFETY: XSAVE was found, and the system has it on.
        && unsafe { saved() }
        && permitted()
        && agrees(&BF16, &BF16_TWIN, whole_number, |value, bytes| {
            bytes.copy_from_slice(&whole_number(value).to_ne_bytes());
        })
        && agrees(&I8, &I8_TWIN, |value| value, |value, bytes| bytes[0] = (value as u8).wrapping_add(128))
}

fn whole_number(value: i8) -> bf16 {
    bf16::from_f32(f32::from(value))
}

/// Asks Linux to let this process use the tile registers.
#[cfg(target_os = "linux")]
fn permitted() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const XFEATURE_XTILEDATA: libc::c_long = 18;
    // SAFETY: the call changes nothing but what this process may use.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn permitted() -> bool {
    false
}

/// A tile of small whole numbers is the same from a kernel and its scalar twin. `weight` and `activation` write a number.
///
/// Operands are written by hand: functions on rows ask for the instruction set, which is just being found out.
fn agrees<E: Element>(
    kernel: &Kernel<E>,
    twin: &Kernel<E>,
    weight: fn(i8) -> E,
    activation: fn(i8, &mut [u8]),
) -> bool {
    let depth = 2 * kernel.step;
    let small = |index: usize| (index % 7) as i8 - 3;
    let mut activations = Lines::new(kernel.run_bytes());
    let values = activations[..ROWS * kernel.depth * kernel.size].chunks_exact_mut(kernel.size);
    values.enumerate().for_each(|(index, value)| activation(small(5 * index), value));
    (0..ROWS).for_each(|row| kernel.put_scale(&mut activations, row, 0.5));
    let mut weights = Lines::new(depth * COLUMNS + kernel.column_trailer());
    let (values, trailer) = weights.split_at_mut(depth * COLUMNS);
    values.iter_mut().enumerate().for_each(|(index, target)| *target = weight(small(index)));
    E::put_column_scales(trailer, values, &[1.0; COLUMNS]);
    let product = |kernel: &Kernel<E>| {
        let mut product = [[0.0f32; COLUMNS]; ROWS];
        let output =
            Output { start: product.as_mut_ptr().cast(), stride: COLUMNS, rows: ROWS, columns: COLUMNS, add: false };
        let ahead = Ahead { start: std::ptr::null(), lines: 0 };
        let _session = kernel.session();
        // SAFETY: both operands are one run, laid out for both kernels, the output is a whole tile, and the session is open.
        unsafe { (kernel.tile)(activations.as_ptr(), weights.as_ptr(), depth, output, ahead) };
        product
    };
    product(kernel) == product(twin)
}
