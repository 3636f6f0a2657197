//! The rotary embedding's table.

/// Cosines and sines for every position up to the longest seen.
pub(crate) struct Rope {
    frequencies: Vec<f32>,
    cosines: Vec<f32>,
    sines: Vec<f32>,
}

impl Rope {
    /// A table for `width` rotated dimensions of a head, empty at first.
    pub(crate) fn new(width: usize, theta: f64) -> Self {
        let exponent = |i: usize| 2.0 * i as f64 / width as f64;
        let frequencies = (0..width / 2).map(|i| (1.0 / theta.powf(exponent(i))) as f32).collect();
        Self { frequencies, cosines: Vec::new(), sines: Vec::new() }
    }

    /// Makes sure of the positions before `length`.
    pub(crate) fn extend(&mut self, length: usize) {
        for position in self.length()..length {
            // Frequency and angle are rounded to f32 as in the reference models; a better angle would be another model.
            let angles = self.frequencies.iter().map(|frequency| f64::from(position as f32 * frequency));
            self.cosines.extend(angles.clone().map(|angle| angle.cos() as f32));
            self.sines.extend(angles.map(|angle| angle.sin() as f32));
        }
    }

    /// The cosines and sines of a position.
    pub(crate) fn at(&self, position: usize) -> (&[f32], &[f32]) {
        let half = self.frequencies.len();
        (&self.cosines[position * half..][..half], &self.sines[position * half..][..half])
    }

    /// All cosines and sines, position by position.
    pub(crate) fn all(&self) -> (&[f32], &[f32]) {
        (&self.cosines, &self.sines)
    }

    fn length(&self) -> usize {
        self.cosines.len() / self.frequencies.len()
    }
}
