//! Operations on single rows, in f32.
//!
//! Sums run in [`LANES`] interleaved lanes that are added up at the end, so that they vectorize and still have one order.

use super::isa::for_each_isa;

pub(super) const LANES: usize = 16;

for_each_isa! {
    /// `output = row / sqrt(mean(row²) + epsilon) · weight`.
    fn rms_norm(row: &[f32], weight: &[f32], epsilon: f32, output: &mut [f32]) {
        let length = row.len();
        let (weight, output) = (&weight[..length], &mut output[..length]);
        let mut squares = [0.0f32; LANES];
        let (chunks, tail) = row.as_chunks::<LANES>();
        for chunk in chunks {
            for (square, value) in squares.iter_mut().zip(chunk) {
                *square += value * value;
            }
        }
        for (square, value) in squares.iter_mut().zip(tail) {
            *square += value * value;
        }
        let mean = total(&squares) / length as f64;
        let scale = (1.0 / (mean + f64::from(epsilon)).sqrt()) as f32;
        for index in 0..length {
            output[index] = row[index] * scale * weight[index];
        }
    }
}

for_each_isa! {
    /// `gate = silu(gate) · up`.
    fn silu_times(gate: &mut [f32], up: &[f32]) {
        let up = &up[..gate.len()];
        for index in 0..gate.len() {
            gate[index] = gate[index] / (1.0 + exp(-gate[index])) * up[index];
        }
    }
}

for_each_isa! {
    /// Rotary embedding in the "rotate half" convention, times `factor`.
    fn rotate(row: &[f32], cosines: &[f32], sines: &[f32], factor: f32, output: &mut [f32]) {
        let half = cosines.len();
        let (first, second) = row.split_at(half);
        let (first_output, second_output) = output.split_at_mut(half);
        let (sines, second, second_output) = (&sines[..half], &second[..half], &mut second_output[..half]);
        for index in 0..half {
            let (x, y, cosine, sine) = (first[index], second[index], cosines[index], sines[index]);
            first_output[index] = (x * cosine - y * sine) * factor;
            second_output[index] = (y * cosine + x * sine) * factor;
        }
    }
}

for_each_isa! {
    /// The largest value; NaN is passed over.
    fn largest(row: &[f32]) -> f32 {
        // More lanes than a register has: each comparison waits for the one before it in its lane.
        let mut lanes = [f32::NEG_INFINITY; 4 * LANES];
        let (chunks, tail) = row.as_chunks::<{ 4 * LANES }>();
        for chunk in chunks {
            for (lane, &value) in lanes.iter_mut().zip(chunk) {
                *lane = if value > *lane { value } else { *lane };
            }
        }
        for (lane, &value) in lanes.iter_mut().zip(tail) {
            *lane = if value > *lane { value } else { *lane };
        }
        halve(lanes, |one, other| if other > one { other } else { one })
    }
}

for_each_isa! {
    /// The largest absolute value; NaN is passed over.
    fn magnitude(row: &[f32]) -> f32 {
        let mut lanes = [0.0f32; LANES];
        let (chunks, tail) = row.as_chunks::<LANES>();
        for chunk in chunks {
            for (lane, &value) in lanes.iter_mut().zip(chunk) {
                *lane = if value.abs() > *lane { value.abs() } else { *lane };
            }
        }
        for (lane, &value) in lanes.iter_mut().zip(tail) {
            *lane = if value.abs() > *lane { value.abs() } else { *lane };
        }
        halve(lanes, |one, other| if other > one { other } else { one })
    }
}

for_each_isa! {
    /// Replaces `row` by `exp(row − largest)`. Adds up all of it, and the part where `open` is 1.
    fn exponentials(row: &mut [f32], largest: f32, open: &[f32]) -> [f64; 2] {
        let open = &open[..row.len()];
        let (mut sums, mut opens) = ([0.0f32; LANES], [0.0f32; LANES]);
        let (chunks, tail) = row.as_chunks_mut::<LANES>();
        let (open_chunks, open_tail) = open.as_chunks::<LANES>();
        for (chunk, open) in chunks.iter_mut().zip(open_chunks) {
            for lane in 0..LANES {
                chunk[lane] = exp(chunk[lane] - largest);
                sums[lane] += chunk[lane];
                opens[lane] += chunk[lane] * open[lane];
            }
        }
        for (lane, (value, open)) in tail.iter_mut().zip(open_tail).enumerate() {
            *value = exp(*value - largest);
            sums[lane] += *value;
            opens[lane] += *value * open;
        }
        [total(&sums), total(&opens)]
    }
}

for_each_isa! {
    /// `row = row · factor`.
    fn scale(row: &mut [f32], factor: f32) {
        for value in row {
            *value *= factor;
        }
    }
}

#[inline(always)]
fn total(lanes: &[f32; LANES]) -> f64 {
    halve(lanes.map(f64::from), |one, other| one + other)
}

/// Combines the first half of the lanes with the other, and that again, until one is left.
#[inline(always)]
fn halve<T: Copy, const N: usize>(mut lanes: [T; N], combine: impl Fn(T, T) -> T) -> T {
    let mut width = N;
    while width > 1 {
        width /= 2;
        for lane in 0..width {
            lanes[lane] = combine(lanes[lane], lanes[lane + width]);
        }
    }
    lanes[0]
}

/// The exponential function to within two units in the last place; zero below −87, NaN for NaN.
///
/// exp(x) = 2ⁿ · exp(r) with |r| ≤ ln 2 / 2 and the polynomial of Cephes' `expf` for exp(r).
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // Adding 1.5 · 2²³ rounds to the nearest integer, which then stands in the low bits.
    const ROUND: f32 = 12_582_912.0;
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let bounded = if x < -87.0 { -87.0 } else { x };
    let bounded = if bounded > 88.0 { 88.0 } else { bounded };
    let shifted = bounded.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-LN_2_LOW, n.mul_add(-LN_2_HIGH, bounded));
    let mut polynomial = 1.987_569_1e-4f32;
    for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        polynomial = polynomial.mul_add(r, coefficient);
    }
    let power = f32::from_bits(shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23);
    let value = (polynomial * r).mul_add(r, r + 1.0) * power;
    if x < -87.0 { 0.0 } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_within_two_units_in_the_last_place() {
        for step in -86_000..88_000 {
            let x = step as f32 * 1e-3;
            let exact = f64::from(x).exp();
            let relative = (f64::from(exp(x)) - exact).abs() / exact;
            assert!(relative < 2.4e-7, "exp({x}) is off by {relative:e}");
        }
        assert_eq!([exp(f32::NEG_INFINITY), exp(-1000.0), exp(0.0)], [0.0, 0.0, 1.0]);
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn sums_take_every_value_whatever_the_length() {
        for length in [1, 15, 16, 17, 100] {
            let row: Vec<f32> = (0..length).map(|i| (i as f32 * 0.7).sin()).collect();
            let open: Vec<f32> = (0..length).map(|i| (i % 3 == 0) as u8 as f32).collect();
            let top = largest(&row);
            assert_eq!(top, row.iter().copied().fold(f32::MIN, f32::max));
            let exact: Vec<f64> = row.iter().map(|&x| f64::from(x - top).exp()).collect();
            let [sum, part] = exponentials(&mut row.clone(), top, &open);
            assert!((sum - exact.iter().sum::<f64>()).abs() < 1e-5);
            assert!((part - exact.iter().step_by(3).sum::<f64>()).abs() < 1e-5);
        }
    }

    #[test]
    fn rows_are_normalized_gated_and_rotated_whatever_the_length() {
        for length in [2, 14, 16, 30, 34, 100] {
            let row: Vec<f32> = (0..length).map(|i| (i as f32 * 0.7).sin() * 3.0).collect();
            let other: Vec<f32> = (0..length).map(|i| (i as f32 * 1.3).cos()).collect();
            let wide: Vec<f64> = row.iter().map(|&x| f64::from(x)).collect();
            let close = |found: &[f32], exact: &dyn Fn(usize) -> f64| {
                found.iter().enumerate().all(|(i, &found)| (f64::from(found) - exact(i)).abs() < 2e-6)
            };
            let mut output = vec![0.0; length];
            rms_norm(&row, &other, 1e-5, &mut output);
            let root = (wide.iter().map(|x| x * x).sum::<f64>() / length as f64 + 1e-5).sqrt();
            assert!(close(&output, &|i| wide[i] / root * f64::from(other[i])));

            output.copy_from_slice(&row);
            silu_times(&mut output, &other);
            assert!(close(&output, &|i| wide[i] / (1.0 + (-wide[i]).exp()) * f64::from(other[i])));

            let half = length / 2;
            let (cosines, sines) = (&other[..half], &other[half..]);
            rotate(&row, cosines, sines, 0.5, &mut output);
            let turned = |i: usize| {
                let (cosine, sine) = (f64::from(cosines[i % half]), f64::from(sines[i % half]));
                let partner = if i < half { -wide[i + half] } else { wide[i - half] };
                (wide[i] * cosine + partner * sine) * 0.5
            };
            assert!(close(&output, &turned));
        }
    }
}
