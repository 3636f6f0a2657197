//! Beliefs from logits in one pass, as [`Row::belief`] defines them.

use lacuna::{Belief, Error, Previous, Result, Row, Token, alternatives};

use super::kernel::{Summary, divergence};
use crate::checks::is_greedy;

/// The belief of a row of logits, which are used up; as [`Row::belief`] to about a millionth, and several times as fast.
///
/// `logits` must have room for every token that the row names.
pub fn fast_belief(row: &Row<'_>, logits: &mut [f32], previous: &mut Option<Previous>) -> Result<Belief> {
    if !is_greedy(row.sampling) || row.credit.is_some() {
        return row.belief(logits, previous);
    }
    let not_finite = || Error::NotFinite { position: row.target.position() };
    if !row.allowed.keep(logits) {
        return Err(not_finite());
    }
    let Summary { first, second, token, total, weighted } = Summary::of(logits);
    let log_total = f64::from(first) + total.ln();
    if !log_total.is_finite() {
        return Err(not_finite());
    }
    let probability = |logit: f32| (f64::from(logit) - log_total).exp();
    let divergence = row.remember.then(|| compare(logits, log_total, previous)).flatten();
    Ok(Belief {
        token: token as Token,
        probability: probability(first),
        first: probability(first),
        second: probability(second),
        entropy: (total.ln() - weighted / total).max(0.0),
        divergence,
        scored: row.scored_token.map(|token| probability(logits[token as usize])),
        vote: None,
        alternatives: alternatives(logits, log_total, row.alternatives),
    })
}

/// The divergence from the distribution kept before, which this one replaces.
fn compare(logits: &[f32], log_total: f64, previous: &mut Option<Previous>) -> Option<f64> {
    match previous {
        Some(previous) => {
            let divergence = divergence((logits, log_total), (&previous.logits, previous.log_total));
            previous.logits.copy_from_slice(logits);
            previous.log_total = log_total;
            Some(divergence)
        }
        None => {
            *previous = Some(Previous { logits: logits.to_vec(), log_total });
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lacuna::{Draw, Sampling, Target, TokenRule, TokenSet};

    fn close(found: f64, exact: f64) -> bool {
        (found - exact).abs() <= 2e-6 * exact.abs() + 1e-12
    }

    /// Logits between −`reach` and `reach`, some of them −∞.
    fn logits(seed: usize, length: usize, reach: f32) -> Vec<f32> {
        let noise = |i: usize| ((i * 48_271 + seed * 7919) % 65_537) as f32 / 32_768.0 - 1.0;
        (0..length).map(|i| if i % 97 == 5 { f32::NEG_INFINITY } else { noise(i) * reach }).collect()
    }

    #[test]
    fn beliefs_are_those_of_the_reference() {
        for (length, reach) in [(7, 3.0), (511, 0.1), (2048, 12.0), (4097, 30.0), (50_000, 20.0), (50_000, 200.0)] {
            for choice in [TokenRule::Greedy, TokenRule::Nucleus { temperature: 0.0, top_p: 1.0, top_k: 0 }] {
                let sampling = Sampling { rule: choice, deferred: Vec::new() };
                let allowed = TokenSet::all_but(length, &[3, 6]);
                let draw = Draw::new(0, 0, 0);
                let (target, scored_token) = (Target::Position(0), Some(4));
                let row = Row { scored_token, remember: true, ..Row::new(0, target, &sampling, &allowed, draw) };
                let (mut kept, mut kept_exact) = (None, None);
                for step in 0..3 {
                    let found = fast_belief(&row, &mut logits(step, length, reach), &mut kept).unwrap();
                    let exact = row.belief(&mut logits(step, length, reach), &mut kept_exact).unwrap();
                    assert_eq!(found.token, exact.token);
                    for (found, exact) in [
                        (found.probability, exact.probability),
                        (found.first, exact.first),
                        (found.second, exact.second),
                        (found.entropy, exact.entropy),
                        (found.scored.unwrap(), exact.scored.unwrap()),
                    ] {
                        assert!(close(found, exact), "length {length}, reach {reach}: {found} is not {exact}");
                    }
                    match (found.divergence, exact.divergence) {
                        (Some(found), Some(exact)) => assert!((found - exact).abs() < 2e-6 * exact.abs().max(1.0)),
                        (found, exact) => assert_eq!((found, step), (exact, 0)),
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_not_finite_is_refused_even_where_it_is_suppressed() {
        let (sampling, allowed) = (Sampling::default(), TokenSet::all_but(40, &[3]));
        let draw = Draw::new(0, 0, 0);
        let row = Row::new(0, Target::Position(9), &sampling, &allowed, draw);
        for (position, value) in [(3, f32::NAN), (5, f32::NAN), (5, f32::INFINITY)] {
            let mut logits = logits(1, 40, 2.0);
            logits[position] = value;
            assert!(matches!(fast_belief(&row, &mut logits, &mut None), Err(Error::NotFinite { position: 9 })));
        }
        assert!(fast_belief(&row, &mut [f32::NEG_INFINITY; 8], &mut None).is_err());
    }
}
