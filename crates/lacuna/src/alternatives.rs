//! The most probable tokens of a row.

use crate::context::RunState;
use crate::{Commit, Predictor, Result, Row, Sampling, Target, Token, TokenSet};

/// Tokens with their log-probabilities, the most probable first.
pub type Alternatives = Vec<(Token, f64)>;

/// The `count` most probable tokens of a row of logits with their log-probabilities, as [`Belief::alternatives`] has them.
///
/// [`Belief::alternatives`]: crate::Belief::alternatives
pub fn alternatives(logits: &[f32], log_total: f64, count: usize) -> Alternatives {
    if count == 0 {
        return Vec::new();
    }
    let mut best: Vec<(Token, f32)> = Vec::with_capacity(count + 1);
    for (token, &logit) in (0..).zip(logits) {
        let enters = best.len() < count || best.last().is_some_and(|(_, least)| logit > *least);
        if enters && logit > f32::NEG_INFINITY {
            let place = best.partition_point(|(_, other)| *other >= logit);
            best.insert(place, (token, logit));
            best.truncate(count);
        }
    }
    best.into_iter().map(|(token, logit)| (token, f64::from(logit) - log_total)).collect()
}

/// The `count` most probable tokens at `rows` of the views observed last, and how many rows were read for them.
///
/// A model that does not tell them ([`Description::alternatives`](crate::Description::alternatives)) is asked for the most probable
/// token again and again, each time without those found before; its rows must not be tempered or truncated.
pub fn most_probable(
    rows: &[Row<'_>],
    count: usize,
    predictor: &mut dyn Predictor,
) -> Result<(Vec<Alternatives>, usize)> {
    if predictor.description().alternatives {
        let asked: Vec<Row<'_>> = rows.iter().map(|row| Row { remember: false, alternatives: count, ..*row }).collect();
        let beliefs = predictor.read(&asked)?;
        return Ok((beliefs.into_iter().map(|belief| belief.alternatives).collect(), rows.len()));
    }
    let greedy = Sampling::default();
    let mut left: Vec<TokenSet> = rows.iter().map(|row| row.sampling.undeferred(row.allowed)).collect();
    let mut found: Vec<Alternatives> = vec![Vec::new(); rows.len()];
    // Log-probability of the next token of each row, once it is known.
    let mut next: Vec<Option<f64>> = vec![None; rows.len()];
    let mut read = 0;
    for _ in 0..count {
        let open: Vec<usize> = (0..rows.len()).filter(|&row| next[row] != Some(f64::NEG_INFINITY)).collect();
        let asked =
            open.iter().map(|&row| Row { sampling: &greedy, allowed: &left[row], remember: false, ..rows[row] });
        let asked: Vec<Row<'_>> = asked.collect();
        let beliefs = if asked.is_empty() { Vec::new() } else { predictor.read(&asked)? };
        read += beliefs.len();
        for (row, belief) in open.into_iter().zip(beliefs) {
            let logprob = next[row].unwrap_or(belief.first.ln());
            found[row].push((belief.token, logprob));
            next[row] = Some(logprob + (belief.second / belief.first).ln());
            left[row].remove(belief.token);
        }
    }
    Ok((found, read))
}

impl Sampling {
    /// The allowed tokens but deferred ones, unless there are no others.
    fn undeferred(&self, allowed: &TokenSet) -> TokenSet {
        let mut others = allowed.clone();
        self.deferred.iter().for_each(|&token| others.remove(token));
        if others.words().iter().all(|&word| word == 0) { allowed.clone() } else { others }
    }
}

impl RunState {
    /// Reads the most probable tokens at the positions of `decided`, if they are asked for; the run is view number `view`. Returns
    /// how many rows were read.
    pub(crate) fn read_alternatives(
        &self,
        view: usize,
        decided: Vec<&mut Commit>,
        predictor: &mut dyn Predictor,
    ) -> Result<usize> {
        if self.options.alternatives == 0 || decided.is_empty() {
            return Ok(0);
        }
        let row = |commit: &&mut Commit| self.row(view, Target::Position(commit.position));
        let rows: Vec<Row<'_>> = decided.iter().map(row).collect();
        let (found, read) = most_probable(&rows, self.options.alternatives, predictor)?;
        decided.into_iter().zip(found).for_each(|(commit, found)| commit.alternatives = found);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::Scripted;
    use crate::{Draw, View};

    #[test]
    fn a_model_that_does_not_tell_them_is_asked_one_by_one() {
        let logits = |_: &[Token], position: usize| {
            let logit = |token: usize| ((token * 37 + position * 11) % 41) as f32 / 3.0;
            (0..12).map(|token| if token == 5 { f32::NEG_INFINITY } else { logit(token) }).collect()
        };
        let mut model = Scripted::new(12, 0, logits);
        let allowed = TokenSet::all_but(12, &[0, 7]);
        for deferred in [Vec::new(), vec![3, 4], (1..12).collect()] {
            let sampling = Sampling { deferred, ..Sampling::default() };
            let mut told = [true, false].map(|tells| {
                model.read_alternatives(tells);
                model.observe(&[View { tokens: &[0; 3], ..View::default() }]).unwrap();
                let row =
                    |position| Row::new(0, Target::Position(position), &sampling, &allowed, Draw::new(0, 0, position));
                most_probable(&[row(0), row(2)], 11, &mut model).unwrap().0
            });
            assert_eq!(
                told[0].iter().map(Vec::len).collect::<Vec<_>>(),
                told[1].iter().map(Vec::len).collect::<Vec<_>>()
            );
            for (one, other) in told[0].clone().into_iter().flatten().zip(told[1].drain(..).flatten()) {
                assert_eq!(one.0, other.0);
                assert!((one.1 - other.1).abs() < 1e-9, "{one:?} {other:?}");
            }
            assert!(told[0].iter().all(|row| row.len() >= 7));
        }
    }
}
