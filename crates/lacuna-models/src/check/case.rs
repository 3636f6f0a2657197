//! A kernel with its operands.

use crate::Result;

/// The sizes of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// Small and odd, number 0, 1 or 2.
    Odd(usize),
    /// As in LLaDA-8B on a canvas of 640, to be timed.
    Large,
}

impl Size {
    /// One of the odd values, or the large one.
    pub(crate) fn of(self, odd: [usize; 3], large: usize) -> usize {
        match self {
            Self::Odd(index) => odd[index],
            Self::Large => large,
        }
    }
}

/// Scale of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// The largest output.
    Largest,
    /// Each output itself, or 1 if that is more: outputs are of different kinds.
    Each,
}

/// A kernel that is ready to run.
pub(crate) struct Case {
    /// Runs it. On a GPU nothing is waited for.
    pub(crate) launch: Box<dyn FnMut() -> Result<()>>,
    /// The output, once it has run.
    pub(crate) found: Box<dyn FnMut() -> Result<Vec<f64>>>,
    /// The output of the scalar twin, in f64.
    pub(crate) exact: Box<dyn Fn() -> Result<Vec<f64>>>,
    /// The largest distance of the two that is allowed, as a share of the scale.
    pub(crate) tolerance: f64,
    pub(crate) scale: Scale,
    /// Bytes that a run reads and writes.
    pub(crate) bytes: f64,
    /// Additions and multiplications of a run.
    pub(crate) operations: f64,
}

impl Case {
    /// Runs it once, and returns how far it is from its twin, as a share of the scale.
    pub(crate) fn error(&mut self) -> Result<f64> {
        (self.launch)()?;
        let (found, exact) = ((self.found)()?, (self.exact)()?);
        if found.len() != exact.len() {
            return Ok(f64::INFINITY);
        }
        let largest = exact.iter().copied().filter(|x| x.is_finite()).fold(1e-6, |a: f64, b| a.max(b.abs()));
        let apart = |(found, exact): (&f64, &f64)| match self.scale {
            _ if found == exact => 0.0,
            Scale::Largest => (found - exact).abs() / largest,
            Scale::Each => (found - exact).abs() / exact.abs().max(1.0),
        };
        // NaN counts as infinitely far away.
        let worse = |worst: f64, apart: f64| if apart.is_nan() { f64::INFINITY } else { worst.max(apart) };
        Ok(found.iter().zip(&exact).map(apart).fold(0.0, worse))
    }
}

/// Values in [−1, 1) that look random.
pub(crate) fn noise(seed: u64, length: usize) -> Vec<f32> {
    let value = |index: usize| {
        let mut x = (seed << 32) ^ (index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        x = (x ^ (x >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        ((x ^ (x >> 29)) >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..length).map(value).collect()
}
