//! Weights of four bits.
//!
//! A row has a scale (f32), and each of its groups of [`GROUP`] weights has a scale and a zero point: a weight is
//! `(value − zero) · scale · row scale`, with a value of 0 to 15. `(value − zero) · scale` is from −128 to 127, so int8 holds it,
//! and bf16 too: every product with int4 weights is one with int8 weights that take less room.

use crate::cpu::kernel::{for_each_isa, magnitude};

/// Weights that share a scale and a zero point.
pub(crate) const GROUP: usize = 32;

/// Largest value.
const MAX_LEVEL: f32 = 15.0;
/// int8 value of a row's largest weight.
const MAX_INT8: f32 = 120.0;

/// Scale, 1 to 16, and zero point, 0 to 15, of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Group(u8);

impl Group {
    fn new(scale: f32, zero: f32) -> Self {
        Self((scale as u8 - 1) | ((zero as u8) << 4))
    }

    /// As it is stored: the scale less one in the lower four bits, the zero point in the upper.
    pub(crate) fn byte(self) -> u8 {
        self.0
    }

    /// A group as it is stored; none if its values do not fit into int8.
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        let group = Self(byte);
        let fits = |value| i8::try_from(group.int8(value)).is_ok();
        (fits(0) && fits(15)).then_some(group)
    }

    pub(crate) fn scale(self) -> u8 {
        (self.0 & 15) + 1
    }

    pub(crate) fn zero(self) -> u8 {
        self.0 >> 4
    }

    /// The int8 value of a weight with this value.
    pub(crate) fn int8(self, value: u8) -> i16 {
        (i16::from(value) - i16::from(self.zero())) * i16::from(self.scale())
    }
}

/// Number of groups in a row of so many weights.
pub(crate) fn groups(columns: usize) -> usize {
    columns.div_ceil(GROUP)
}

/// Chooses the groups of a row, and returns the row's scale. Of scales and zero points near those that just hold a group, those with the
/// least squared error.
pub(crate) fn choose(row: &[f32], groups: &mut [Group]) -> f32 {
    let row_scale = magnitude(row) / MAX_INT8;
    // Of a smaller one there is no inverse.
    let row_scale = if row_scale < f32::MIN_POSITIVE { 0.0 } else { row_scale };
    choose_groups(row, inverse(row_scale), groups);
    row_scale
}

/// Rounds a row, or whole groups of one, to values of 0 to 15.
pub(crate) fn round(row: &[f32], row_scale: f32, groups: &[Group], output: &mut [u8]) {
    round_groups(row, inverse(row_scale), groups, output);
}

/// The values of a group in half as many bytes: the first half in the lower four bits.
pub(crate) fn pack(values: &[u8; GROUP], output: &mut [u8]) {
    let (low, high) = values.split_at(GROUP / 2);
    output.iter_mut().zip(low.iter().zip(high)).for_each(|(byte, (low, high))| *byte = low | high << 4);
}

fn inverse(row_scale: f32) -> f32 {
    if row_scale > 0.0 { 1.0 / row_scale } else { 0.0 }
}

for_each_isa! {
    fn choose_groups(row: &[f32], factor: f32, groups: &mut [Group]) {
        for (weights, group) in row.chunks(GROUP).zip(groups) {
            // Zeros change neither the range nor the error.
            let mut scaled = [0.0f32; GROUP];
            scaled.iter_mut().zip(weights).for_each(|(scaled, weight)| *scaled = weight * factor);
            let (mut low, mut high) = (0.0f32, 0.0f32);
            for &scaled in &scaled {
                low = if scaled < low { scaled } else { low };
                high = if scaled > high { scaled } else { high };
            }
            let enough = ((high - low) / MAX_LEVEL).ceil();
            let mut least = f32::INFINITY;
            for below in [0.0, 1.0] {
                let scale = (enough - below).clamp(1.0, 16.0);
                let zeros = ((MAX_LEVEL - 127.0 / scale).ceil().max(0.0), (128.0 / scale).floor().min(MAX_LEVEL));
                for above in [0.0, 1.0] {
                    let zero = ((-low / scale).floor() + above).clamp(zeros.0, zeros.1);
                    let error = squared_error(&scaled, scale, zero);
                    if error < least {
                        (least, *group) = (error, Group::new(scale, zero));
                    }
                }
            }
        }
    }
}

/// Added in a fixed order that vectors can follow.
#[inline(always)]
fn squared_error(scaled: &[f32; GROUP], scale: f32, zero: f32) -> f32 {
    const LANES: usize = 16;
    let factor = 1.0 / scale;
    let mut lanes = [0.0f32; LANES];
    for part in scaled.as_chunks::<LANES>().0 {
        for (lane, &scaled) in lanes.iter_mut().zip(part) {
            let error = scaled - (value(scaled * factor, zero) - zero) * scale;
            *lane += error * error;
        }
    }
    lanes.iter().sum()
}

/// The value nearest to so many scales.
#[inline(always)]
fn value(scales: f32, zero: f32) -> f32 {
    // Adding 1.5 · 2²³ rounds to the nearest whole number.
    const ROUND: f32 = 12_582_912.0;
    (scales + ROUND - ROUND + zero).clamp(0.0, MAX_LEVEL)
}

for_each_isa! {
    fn round_groups(row: &[f32], factor: f32, groups: &[Group], output: &mut [u8]) {
        for ((weights, output), group) in row.chunks(GROUP).zip(output.chunks_mut(GROUP)).zip(groups) {
            let (scale, zero) = (1.0 / f32::from(group.scale()), f32::from(group.zero()));
            for (weight, output) in weights.iter().zip(output) {
                *output = value(weight * factor * scale, zero) as u8;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A row through four bits and back.
    fn rounded(row: &[f32]) -> (Vec<f32>, f32, Vec<Group>) {
        let mut chosen = vec![Group::default(); groups(row.len())];
        let row_scale = choose(row, &mut chosen);
        let mut values = vec![0; row.len()];
        round(row, row_scale, &chosen, &mut values);
        let back = |(index, &value): (usize, &u8)| f32::from(chosen[index / GROUP].int8(value)) * row_scale;
        (values.iter().enumerate().map(back).collect(), row_scale, chosen)
    }

    proptest! {
        #[test]
        fn every_group_fits_and_is_near(row in prop::collection::vec(-2.0f32..2.0, 1..200), power in -40i32..30) {
            let row: Vec<f32> = row.iter().map(|weight| weight * 2f32.powi(power)).collect();
            let (back, row_scale, chosen) = rounded(&row);
            for ((row, back), group) in row.chunks(GROUP).zip(back.chunks(GROUP)).zip(&chosen) {
                prop_assert_eq!(Group::from_byte(group.byte()), Some(*group));
                let (low, high) = row.iter().fold((0.0f32, 0.0f32), |(a, b), &x| (a.min(x), b.max(x)));
                // No weight is worth a worse fit of the others than the scale that just holds the group.
                let bound = 16.0 * (high - low) / 15.0 + 2.0 * row_scale;
                for (a, b) in row.iter().zip(back) {
                    prop_assert!((a - b).abs() <= bound, "{a} became {b}");
                }
            }
        }

        #[test]
        fn what_was_rounded_stays(row in prop::collection::vec(-1.0f32..1.0, 1..200)) {
            let (back, row_scale, chosen) = rounded(&row);
            let (mut first, mut again) = (vec![0; row.len()], vec![0; row.len()]);
            round(&row, row_scale, &chosen, &mut first);
            round(&back, row_scale, &chosen, &mut again);
            prop_assert_eq!(first, again);
        }
    }

    #[test]
    fn rows_of_nothing_stay_so_and_tiny_ones_vanish() {
        assert!(rounded(&[0.0; 40]).0.iter().all(|&weight| weight == 0.0));
        assert!(rounded(&[1e-41; 3]).0.iter().all(|&weight| weight == 0.0));
    }

    #[test]
    fn groups_that_would_leave_int8_are_none() {
        assert_eq!(Group::from_byte(15), None);
        assert!(Group::from_byte(15 | 8 << 4).is_some());
        assert_eq!(Group::new(16.0, 8.0).int8(0), -128);
    }

    #[test]
    fn the_error_is_what_a_full_search_finds_nearly() {
        // Sums of uniform numbers are nearly normal.
        let mut state = 1u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 24) as f32 - 0.5
        };
        let row: Vec<f32> = (0..4096).map(|_| (0..12).map(|_| uniform()).sum()).collect();
        let (back, ..) = rounded(&row);
        let square = |x: f32| f64::from(x).powi(2);
        let error: f64 = row.iter().zip(&back).map(|(a, b)| square(a - b)).sum();
        let norm: f64 = row.iter().map(|&a| square(a)).sum();
        assert!((error / norm).sqrt() < 0.085, "{}", (error / norm).sqrt());
    }
}
