//! Elements of weights: f32, bf16 or int8, always summed up in f32.
#![allow(unsafe_code)]

use half::bf16;

use super::isa::{Choice, for_each_isa};
use super::tile::{Blocks, Kernel};
use super::{Isa, scalar};
#[cfg(target_arch = "x86_64")]
use super::{amx, avx2, avx512};

/// A number that weights are made of.
pub(crate) trait Element: Copy + Default + Send + Sync + 'static {
    /// Values of `k` that stand side by side in a column of weights: as many as dot products of 32 bits take.
    const GROUP: usize;

    /// Values are multiples of a scale that each row of activations and each column of weights has for itself. The scales
    /// stand in the trailers.
    const SCALED: bool = false;

    /// The kernel for an instruction set.
    fn kernel_for(isa: Isa) -> &'static Kernel<Self>;

    /// The instruction set to use for products of these.
    fn isa(choice: &Choice) -> Isa;

    /// The kernel to use.
    fn kernel() -> &'static Kernel<Self> {
        Self::kernel_for(Self::isa(Choice::made()))
    }

    /// The scale for values whose largest magnitude is `largest`.
    fn scale(_largest: f32) -> f32 {
        1.0
    }

    /// Rounds weights to the nearest representable multiples of `scale`.
    fn narrow(values: &[f32], scale: f32, output: &mut [Self]);

    /// Writes the scales of the columns behind a run of a panel.
    fn put_column_scales(_trailer: &mut [Self], _run: &[Self], _scales: &[f32]) {}
}

/// Picks the kernel for an instruction set; machines that are not x86 have the scalar one.
macro_rules! kernels {
    ($scalar:ident, $($isa:ident => $module:ident::$kernel:ident),*) => {
        #[cfg(target_arch = "x86_64")]
        fn kernel_for(isa: Isa) -> &'static Kernel<Self> {
            match isa {
                Isa::Scalar => &scalar::$scalar,
                $(Isa::$isa => &$module::$kernel,)*
            }
        }

        #[cfg(not(target_arch = "x86_64"))]
        fn kernel_for(_: Isa) -> &'static Kernel<Self> {
            &scalar::$scalar
        }
    };
}

impl Element for f32 {
    const GROUP: usize = 1;

    kernels!(F32, Avx2 => avx2::F32, AvxVnni => avx2::F32, Avx512 => avx512::F32, Avx512Bf16 => avx512::F32, Amx => avx512::F32);

    fn isa(choice: &Choice) -> Isa {
        choice.f32
    }

    fn narrow(values: &[f32], _: f32, output: &mut [Self]) {
        output.copy_from_slice(values);
    }
}

impl Element for bf16 {
    const GROUP: usize = 2;

    kernels!(
        BF16,
        Avx2 => avx2::BF16,
        AvxVnni => avx2::BF16,
        Avx512 => avx512::BF16_WIDENED,
        Avx512Bf16 => avx512::BF16,
        Amx => amx::BF16
    );

    fn isa(choice: &Choice) -> Isa {
        choice.bf16
    }

    fn narrow(values: &[f32], _: f32, output: &mut [Self]) {
        round_to_bf16(values, output);
    }
}

/// Weights are −127 to 127. Activations are too, but stand 128 higher, as `vpdpbusd` and `tdpbusd` want one operand without a
/// sign; what that adds to a sum, 128 times the sum of a column's run, is in the column's trailer with a minus. Kernels that
/// widen activations to 16 bits leave them as they are.
impl Element for i8 {
    const GROUP: usize = 4;
    const SCALED: bool = true;

    kernels!(
        I8,
        Avx2 => avx2::I8,
        AvxVnni => avx2::I8_DOT,
        Avx512 => avx512::I8_WIDENED,
        Avx512Bf16 => avx512::I8,
        Amx => amx::I8
    );

    fn isa(choice: &Choice) -> Isa {
        choice.i8
    }

    fn scale(largest: f32) -> f32 {
        largest / 127.0
    }

    fn narrow(values: &[f32], scale: f32, output: &mut [Self]) {
        round_to_i8(values, inverse(scale), output);
    }

    fn put_column_scales(trailer: &mut [Self], run: &[Self], scales: &[f32]) {
        let mut sums = [0i32; MAX_COLUMNS];
        let sums = &mut sums[..scales.len()];
        for quads in run.chunks_exact(scales.len() * 4) {
            for (sum, quad) in sums.iter_mut().zip(quads.as_chunks::<4>().0) {
                *sum += quad.iter().map(|&value| i32::from(value)).sum::<i32>();
            }
        }
        let starts = sums.iter().map(|sum| (-128 * sum).to_ne_bytes());
        let words = starts.chain(scales.iter().map(|scale| scale.to_ne_bytes()));
        for (target, word) in trailer.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *target = word.map(|byte| byte as i8);
        }
    }
}

/// Columns of the widest tile.
pub(super) const MAX_COLUMNS: usize = 32;

for_each_isa! {
    /// Writes f32 activations as they are.
    fn keep_f32(values: &[f32], _scale: f32, blocks: Blocks<'_>) {
        for (values, output) in pieces::<f32>(values, blocks) {
            output.copy_from_slice(values);
        }
    }
}

for_each_isa! {
    /// Rounds activations to bf16.
    fn keep_bf16(values: &[f32], _scale: f32, blocks: Blocks<'_>) {
        for (values, output) in pieces::<bf16>(values, blocks) {
            for (value, output) in values.iter().zip(output) {
                *output = bf16::from_bits(nearest_bf16(*value));
            }
        }
    }
}

for_each_isa! {
    /// Rounds activations to bf16 and keeps them as f32, for kernels without a fast dot product.
    fn widen_bf16(values: &[f32], _scale: f32, blocks: Blocks<'_>) {
        for (values, output) in pieces::<f32>(values, blocks) {
            for (value, output) in values.iter().zip(output) {
                *output = f32::from_bits(u32::from(nearest_bf16(*value)) << 16);
            }
        }
    }
}

for_each_isa! {
    /// Rounds activations to int8, 128 higher, for kernels with a dot product of bytes.
    fn keep_i8(values: &[f32], scale: f32, blocks: Blocks<'_>) {
        let factor = inverse(scale);
        for (values, output) in pieces::<u8>(values, blocks) {
            for (value, output) in values.iter().zip(output) {
                *output = (nearest_whole(value * factor) as u8).wrapping_add(128);
            }
        }
    }
}

for_each_isa! {
    /// Rounds activations to int8 and keeps them in 16 bits, of every four the even ones first and the last four filled up with
    /// zeros, for kernels without a dot product of bytes.
    fn widen_i8(values: &[f32], scale: f32, blocks: Blocks<'_>) {
        let factor = inverse(scale);
        let narrow = |quad: &[f32; 4], target: &mut [i16; 4]| {
            *target = [quad[0], quad[2], quad[1], quad[3]].map(|value| nearest_whole(value * factor) as i8 as i16);
        };
        for (values, output) in pieces::<i16>(values, blocks) {
            let (quads, rest) = values.as_chunks::<4>();
            let (targets, _) = output.as_chunks_mut::<4>();
            for (quad, target) in quads.iter().zip(&mut *targets) {
                narrow(quad, target);
            }
            if !rest.is_empty() {
                let mut last = [0.0; 4];
                last[..rest.len()].copy_from_slice(rest);
                narrow(&last, &mut targets[quads.len()]);
            }
        }
    }
}

/// Values block by block, each with its place.
#[inline(always)]
pub(super) fn pieces<'a, T: Plain>(
    values: &'a [f32],
    blocks: Blocks<'a>,
) -> impl Iterator<Item = (&'a [f32], &'a mut [T])> + use<'a, T> {
    let Blocks { bytes, block, stride } = blocks;
    values.chunks(block).zip(bytes.chunks_mut(stride)).map(|(values, bytes)| {
        let length = values.len().next_multiple_of(T::TOGETHER);
        (values, cast(&mut bytes[..length * size_of::<T>()]))
    })
}

/// A number of which every pattern of bits is valid.
pub(super) trait Plain: Copy + 'static {
    /// Number of elements written together.
    const TOGETHER: usize = 1;
}

impl Plain for f32 {}
impl Plain for bf16 {}
impl Plain for u8 {}
impl Plain for i16 {
    const TOGETHER: usize = 4;
}

/// The same memory as other numbers.
#[inline(always)]
fn cast<T: Plain>(bytes: &mut [u8]) -> &mut [T] {
    // SAFETY: any bits make a `T`, and any `T` is bytes.
    let (before, values, after) = unsafe { bytes.align_to_mut() };
    assert!(before.is_empty() && after.is_empty(), "blocks are aligned and whole");
    values
}

fn inverse(scale: f32) -> f32 {
    if scale > 0.0 { 1.0 / scale } else { 0.0 }
}

/// The bits of the nearest bf16, `bf16::from_f32` without its branch.
#[inline(always)]
fn nearest_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7FFF + ((bits >> 16) & 1)) >> 16;
    let quiet = (bits >> 16) | 0x40;
    if value.is_nan() { quiet as u16 } else { rounded as u16 }
}

/// The nearest whole number, in the low bits of an f32.
#[inline(always)]
fn nearest_whole(value: f32) -> u32 {
    // Adding 1.5 · 2²³ rounds to the nearest whole number, which then stands in the low bits.
    const ROUND: f32 = 12_582_912.0;
    (value + ROUND).to_bits()
}

for_each_isa! {
    /// Rounds to bf16.
    fn round_to_bf16(row: &[f32], output: &mut [bf16]) {
        for (value, output) in row.iter().zip(output) {
            *output = bf16::from_bits(nearest_bf16(*value));
        }
    }
}

for_each_isa! {
    /// `row · factor`, rounded to the nearest whole number.
    fn round_to_i8(row: &[f32], factor: f32, output: &mut [i8]) {
        for (value, output) in row.iter().zip(output) {
            *output = nearest_whole(value * factor) as i8;
        }
    }
}
