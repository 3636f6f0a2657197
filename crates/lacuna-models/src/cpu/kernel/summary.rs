//! Summary of a row of logits for decoding, in one pass over it.
//!
//! A row is cut into stretches that stay in the first cache: each is passed over twice, for its largest values and for sums
//! relative to them. Sums are f64 sums of f32 terms. Where a row is cut does not depend on the threads, so neither do its bits.

use super::isa::for_each_isa;
use super::row::{LANES, exp};

/// Logits of a stretch.
const STRETCH: usize = 4096;

/// The two largest of some logits, where the first of them stands, and sums relative to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summary {
    pub(crate) first: f32,
    pub(crate) second: f32,
    pub(crate) token: usize,
    /// Σ exp(logit − first); NaN if a logit is.
    pub(crate) total: f64,
    /// Σ (logit − first) · exp(logit − first).
    pub(crate) weighted: f64,
}

impl Summary {
    /// Sums up a row, on several threads if it is long.
    pub(crate) fn of(logits: &[f32]) -> Self {
        if logits.len() <= STRETCH {
            return summarize(logits);
        }
        let middle = middle(logits.len());
        let (left, right) = rayon::join(|| Self::of(&logits[..middle]), || Self::of(&logits[middle..]));
        left.then(Self { token: middle + right.token, ..right })
    }

    /// This, and what follows it.
    fn then(self, next: Self) -> Self {
        let (high, low) = if next.first > self.first { (next, self) } else { (self, next) };
        if low.total == 0.0 {
            return high;
        }
        let below = f64::from(low.first) - f64::from(high.first);
        let factor = below.exp();
        Self {
            second: high.second.max(low.first),
            total: high.total + factor * low.total,
            weighted: high.weighted + factor * (low.weighted + below * low.total),
            ..high
        }
    }
}

/// KL(now ‖ before) of two rows of logits with the logarithms of their sums of exponentials, as KLASS's code has it: 1e-12 is
/// added to both probabilities.
pub(crate) fn divergence(now: (&[f32], f64), before: (&[f32], f64)) -> f64 {
    let length = now.0.len();
    if length <= STRETCH {
        return diverge(now.0, now.1, before.0, before.1);
    }
    let middle = middle(length);
    let (left, right) = rayon::join(
        || divergence((&now.0[..middle], now.1), (&before.0[..middle], before.1)),
        || divergence((&now.0[middle..], now.1), (&before.0[middle..], before.1)),
    );
    left + right
}

/// Split point of a row: a multiple of the stretch.
fn middle(length: usize) -> usize {
    length.div_ceil(2).next_multiple_of(STRETCH)
}

for_each_isa! {
    /// Sums up a stretch.
    fn summarize(logits: &[f32]) -> Summary {
        let (mut firsts, mut seconds) = ([f32::NEG_INFINITY; LANES], [f32::NEG_INFINITY; LANES]);
        let (chunks, tail) = logits.as_chunks::<LANES>();
        for chunk in chunks {
            for lane in 0..LANES {
                (firsts[lane], seconds[lane]) = insert(chunk[lane], firsts[lane], seconds[lane]);
            }
        }
        for (lane, &logit) in tail.iter().enumerate() {
            (firsts[lane], seconds[lane]) = insert(logit, firsts[lane], seconds[lane]);
        }
        let (mut first, mut second) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
        for lane in 0..LANES {
            (first, second) = insert(firsts[lane], first, second);
            (first, second) = insert(seconds[lane], first, second);
        }
        if first == f32::NEG_INFINITY {
            let total = if logits.iter().any(|logit| logit.is_nan()) { f64::NAN } else { 0.0 };
            return Summary { first, second, token: 0, total, weighted: 0.0 };
        }

        let (mut totals, mut weighteds) = ([0.0f64; LANES], [0.0f64; LANES]);
        for chunk in chunks {
            for lane in 0..LANES {
                let [weight, weighted] = weigh(chunk[lane] - first);
                totals[lane] += f64::from(weight);
                weighteds[lane] += f64::from(weighted);
            }
        }
        for (lane, &logit) in tail.iter().enumerate() {
            let [weight, weighted] = weigh(logit - first);
            totals[lane] += f64::from(weight);
            weighteds[lane] += f64::from(weighted);
        }
        Summary {
            first,
            second,
            token: logits.iter().position(|&logit| logit == first).unwrap_or(0),
            total: totals.iter().sum(),
            weighted: weighteds.iter().sum(),
        }
    }
}

#[inline(always)]
fn insert(logit: f32, first: f32, second: f32) -> (f32, f32) {
    let lower = if logit > first { first } else { logit };
    (if logit > first { logit } else { first }, if lower > second { lower } else { second })
}

/// exp(x) and x · exp(x) for x ≤ 0.
#[inline(always)]
fn weigh(below: f32) -> [f32; 2] {
    // −∞ · 0 would be NaN.
    let below = if below < -88.0 { -88.0 } else { below };
    let weight = exp(below);
    [weight, below * weight]
}

for_each_isa! {
    /// The part of the divergence that a stretch has.
    fn diverge(now: &[f32], now_total: f64, before: &[f32], before_total: f64) -> f64 {
        let before = &before[..now.len()];
        let mut sums = [0.0f64; LANES];
        let (now_chunks, now_tail) = now.as_chunks::<LANES>();
        let (before_chunks, before_tail) = before.as_chunks::<LANES>();
        for (now, before) in now_chunks.iter().zip(before_chunks) {
            for lane in 0..LANES {
                sums[lane] += f64::from(term(now[lane], now_total, before[lane], before_total));
            }
        }
        for (lane, (now, before)) in now_tail.iter().zip(before_tail).enumerate() {
            sums[lane] += f64::from(term(*now, now_total, *before, before_total));
        }
        sums.iter().sum()
    }
}

#[inline(always)]
fn term(now: f32, now_total: f64, before: f32, before_total: f64) -> f32 {
    const FLOOR: f32 = 1e-12;
    let p = exp((f64::from(now) - now_total) as f32);
    let q = exp((f64::from(before) - before_total) as f32);
    p * ln((p + FLOOR) / (q + FLOOR))
}

/// The natural logarithm of a positive, normal number, to within a few units in the last place: the polynomial of Cephes'
/// `logf` on [√½, √2).
#[inline(always)]
fn ln(x: f32) -> f32 {
    const ROOT_HALF: u32 = 0x3F35_04F3;
    const COEFFICIENTS: [f32; 8] = [
        -1.151_461e-1,
        1.167_699_9e-1,
        -1.242_014_1e-1,
        1.424_932_3e-1,
        -1.666_805_7e-1,
        2.000_071_4e-1,
        -2.499_999_4e-1,
        3.333_333e-1,
    ];
    let shifted = x.to_bits().wrapping_sub(ROOT_HALF);
    let exponent = (shifted as i32 >> 23) as f32;
    let z = f32::from_bits((shifted & 0x007F_FFFF).wrapping_add(ROOT_HALF)) - 1.0;
    let mut polynomial = 7.037_683_6e-2;
    for coefficient in COEFFICIENTS {
        polynomial = polynomial * z + coefficient;
    }
    let square = z * z;
    let tail = polynomial * z * square + exponent * -2.121_944_4e-4 - 0.5 * square;
    z + tail + exponent * 0.693_359_4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ln_is_within_a_few_units_in_the_last_place() {
        for step in -27_000..27_000 {
            let x = (f64::from(step) * 1e-3).exp() as f32;
            let exact = f64::from(x).ln();
            assert!((f64::from(ln(x)) - exact).abs() <= 3e-7 * exact.abs().max(0.1), "ln({x})");
        }
        assert_eq!(ln(1.0), 0.0);
    }

    #[test]
    fn summaries_are_exact_whatever_the_length() {
        for length in [1, 2, 15, 16, 17, 4095, 4096, 4097, 12_289, 70_000] {
            let noise = |i: usize| ((i * 7919 % 10_007) as f32 / 500.0 - 10.0) * (i as f32 * 0.11).sin();
            let mut logits: Vec<f32> = (0..length).map(noise).collect();
            logits[length / 2] = f32::NEG_INFINITY;
            if length == 1 {
                logits[0] = 3.0;
            }
            let summary = Summary::of(&logits);
            let mut sorted = logits.clone();
            sorted.sort_by(|a, b| b.total_cmp(a));
            assert_eq!(summary.first, sorted[0]);
            assert_eq!(summary.second, sorted.get(1).copied().unwrap_or(f32::NEG_INFINITY));
            assert_eq!(Some(summary.token), logits.iter().position(|&logit| logit == sorted[0]));
            let below = logits.iter().map(|&x| f64::from(x) - f64::from(sorted[0])).filter(|x| x.is_finite());
            let total: f64 = below.clone().map(f64::exp).sum();
            let weighted: f64 = below.map(|x| x * x.exp()).sum();
            assert!((summary.total - total).abs() < 1e-6 * total, "{length}: {} is not {total}", summary.total);
            assert!((summary.weighted - weighted).abs() <= 1e-6 * weighted.abs(), "{length}: {}", summary.weighted);
        }
    }

    #[test]
    fn what_is_no_number_shows_wherever_it_stands() {
        for position in [0, 100, 4096, 9_999] {
            let mut logits = vec![f32::NEG_INFINITY; 10_000];
            assert_eq!(Summary::of(&logits).total, 0.0);
            logits[position] = f32::NAN;
            assert!(Summary::of(&logits).total.is_nan());
            logits.fill(1.0);
            logits[position] = f32::NAN;
            assert!(Summary::of(&logits).total.is_nan());
            logits[position] = f32::INFINITY;
            assert!(Summary::of(&logits).total.is_nan());
        }
    }
}
