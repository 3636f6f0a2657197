//! Beliefs from what the kernels find in logits.

use lacuna::{Belief, Error, Result, Token};

use super::kernel::{Outcome, Summary};

/// The belief that an outcome holds; as [`lacuna::Row::believe`] to about a millionth.
pub(crate) fn believe(outcome: &Outcome, position: usize, witness: bool, compared: bool) -> Result<Belief> {
    let &Outcome {
        summary: Summary { total, weighted, first, second, drawn, drawn_logit, witness: support, .. }, ..
    } = outcome;
    let log_total = f64::from(first) + total.ln();
    if !log_total.is_finite() {
        return Err(Error::NotFinite { position });
    }
    let probability = |logit: f32| (f64::from(logit) - log_total).exp();
    Ok(Belief {
        token: drawn as Token,
        probability: probability(drawn_logit),
        first: probability(first),
        second: probability(second),
        entropy: (total.ln() - weighted / total).max(0.0),
        divergence: compared.then_some(outcome.divergence),
        witness: witness.then(|| probability(support)),
    })
}
