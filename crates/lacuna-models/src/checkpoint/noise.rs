//! Numbers for models that exist only to be measured.

/// The golden ratio in 32 bits: consecutive multiples of it are far apart.
const MIX: u32 = 0x9E37_79B9;

/// A tensor that is made when it is read: uniform noise around a mean, the same each time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noise {
    seed: u32,
    mean: f32,
    reach: f32,
}

impl Noise {
    /// Numbers that keep activations near 1: matrices get the variance 1/k, the vectors of norms are 1, biases are small.
    pub(crate) fn new(name: &str, shape: &[usize]) -> Self {
        let seed = name.bytes().fold(0, |seed: u32, byte| (seed ^ u32::from(byte)).wrapping_mul(MIX).rotate_left(5));
        let (mean, reach) = match shape {
            [_, k] => (0.0, (3.0 / *k as f32).sqrt()),
            _ if name.ends_with(".bias") => (0.0, 0.1),
            _ => (1.0, 0.0),
        };
        Self { seed, mean, reach }
    }

    /// Reads the numbers from `first` on.
    pub(crate) fn read(&self, first: usize, values: &mut [f32]) {
        let (seed, mean, step) = self.recipe();
        let start = (first as u32).wrapping_add(seed);
        for (index, value) in values.iter_mut().enumerate() {
            let mut x = start.wrapping_add(index as u32).wrapping_mul(MIX);
            x = (x ^ (x >> 15)).wrapping_mul(0x85EB_CA6B);
            x ^= x >> 13;
            *value = mean + x as i32 as f32 * step;
        }
    }

    /// The seed, the mean, and the factor on a 32-bit integer.
    pub(crate) fn recipe(&self) -> (u32, f32, f32) {
        (self.seed, self.mean, self.reach / (1u32 << 31) as f32)
    }

    /// The numbers from `first` on.
    pub(crate) fn skip(self, first: usize) -> Self {
        Self { seed: self.seed.wrapping_add(first as u32), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_has_the_mean_and_the_variance_it_should() {
        let noise = Noise::new("some.weight", &[200, 64]);
        let mut values = vec![0.0; 200 * 64];
        noise.read(0, &mut values);
        let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / values.len() as f64;
        assert!(mean.abs() < 0.005 && (variance * 64.0 - 1.0).abs() < 0.05, "{mean} {variance}");

        let mut part = vec![0.0; 100];
        noise.read(777, &mut part);
        assert_eq!(part, values[777..877]);
        noise.skip(700).read(77, &mut part);
        assert_eq!(part, values[777..877]);
        let mut norm = [0.0; 8];
        Noise::new("norm.weight", &[8]).read(0, &mut norm);
        assert_eq!(norm, [1.0; 8]);
    }
}
