//! Two strategies on the same problems.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Measurement;
use crate::statistics::mcnemar;

/// Paired comparison of one strategy with another on the same problems.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Problems that both have answered.
    pub shared: usize,
    /// Problems that only the first gets right.
    pub gained: Vec<String>,
    /// Problems that only the second gets right.
    pub lost: Vec<String>,
    /// Exact two-sided p-value (McNemar).
    pub p: f64,
}

/// Compares `this` with `that`, problem by problem.
pub fn compare(this: &Measurement, that: &Measurement) -> Comparison {
    let theirs: BTreeMap<usize, bool> = that.samples.iter().map(|sample| (sample.row, sample.correct)).collect();
    let (mut shared, mut gained, mut lost) = (0, Vec::new(), Vec::new());
    for sample in &this.samples {
        let Some(&other) = theirs.get(&sample.row) else { continue };
        shared += 1;
        match (sample.correct, other) {
            (true, false) => gained.push(sample.id.clone()),
            (false, true) => lost.push(sample.id.clone()),
            _ => {}
        }
    }
    let p = mcnemar(gained.len(), lost.len());
    Comparison { shared, gained, lost, p }
}
