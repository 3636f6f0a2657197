//! Random draws that depend on (seed, step, position) alone.

/// A source of random numbers for one position at one step of one run.
///
/// It is counter based: the n-th number is a hash of the key and n. Nothing is consumed, so threads, batches and
/// the order of evaluation cannot change a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    key: u64,
}

impl Draw {
    /// The draws of `position` at `step` of a run with `seed`.
    pub fn new(seed: u64, step: usize, position: usize) -> Self {
        Self { key: mix(mix(mix(seed) ^ step as u64) ^ position as u64) }
    }

    /// Key of the generator, for drawing elsewhere: lane `n` begins with `mix(key ^ mix(n))`.
    pub fn key(self) -> u64 {
        self.key
    }

    /// The number in lane `lane`, uniform in the open interval (0, 1).
    pub fn uniform(self, lane: u64) -> f64 {
        const SCALE: f64 = 1.0 / (1u64 << 53) as f64;
        ((mix(self.key ^ mix(lane)) >> 11) as f64 + 0.5) * SCALE
    }

    /// The number in lane `lane`, standard Gumbel.
    ///
    /// Adding such noise to log-weights and taking the largest is sampling from the weights; taking the k largest is
    /// sampling k of them without replacement.
    pub fn gumbel(self, lane: u64) -> f64 {
        -(-self.uniform(lane).ln()).ln()
    }

    /// Standard Gumbel noise that is added to the position's score where the order is drawn; no token has this lane.
    pub fn order_noise(self) -> f64 {
        self.gumbel(u64::MAX)
    }
}

/// A bijection of 64 bits in which every input bit moves every output bit (the finalizer of SplitMix64, Steele et al. 2014).
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_draws_fill_the_interval_evenly_along_every_axis() {
        let axes: [fn(usize) -> f64; 3] = [
            |i| Draw::new(7, i, 3).uniform(0),
            |i| Draw::new(7, 3, i).uniform(0),
            |i| Draw::new(7, 3, 3).uniform(i as u64),
        ];
        for draw in axes {
            let mut bins = [0; 16];
            (0..16_000).for_each(|i| bins[(draw(i) * 16.0) as usize] += 1);
            assert!(bins.iter().all(|count| (850..1150).contains(count)), "{bins:?}");
        }
    }

    #[test]
    fn gumbel_noise_samples_in_proportion_to_the_weights() {
        let weights = [0.1f64, 0.2, 0.7];
        let mut counts = [0; 3];
        for step in 0..20_000 {
            let draw = Draw::new(1, step, 0);
            let noisy = |i: usize| weights[i].ln() + draw.gumbel(i as u64);
            counts[(0..3).max_by(|&a, &b| noisy(a).total_cmp(&noisy(b))).unwrap()] += 1;
        }
        for (count, weight) in counts.iter().zip(weights) {
            assert!((*count as f64 / 20_000.0 - weight).abs() < 0.015, "{counts:?}");
        }
    }
}
