//! Beliefs from what the kernels find in logits.

use lacuna::{Belief, Error, Result, Token};

use super::kernel::Summary;

/// The belief that a row's summary holds; as [`lacuna::Row::believe`] to about a millionth.
///
/// `before` is the logarithm of the sum of exponentials that the row is compared with, if any.
pub(crate) fn believe(found: &Summary, position: usize, witness: bool, before: Option<f64>) -> Result<Belief> {
    let log_total = log_total(found);
    if !log_total.is_finite() {
        return Err(Error::NotFinite { position });
    }
    let &Summary { total, weighted, moved, .. } = found;
    let probability = |logit: f32| (f64::from(logit) - log_total).exp();
    Ok(Belief {
        token: found.drawn as Token,
        probability: probability(found.drawn_logit),
        first: probability(found.first),
        second: probability(found.second),
        entropy: (total.ln() - weighted / total).max(0.0),
        // KLASS's code adds 1e-12 to both probabilities. So do the kernels, to the one before; what it makes of the one now is
        // at most as much for each token.
        divergence: before.map(|before| moved / total + before - log_total),
        scored: witness.then(|| probability(found.witness)),
        vote: None,
    })
}

/// The logarithm of the sum of all exponentials.
pub(crate) fn log_total(found: &Summary) -> f64 {
    f64::from(found.first) + found.total.ln()
}
