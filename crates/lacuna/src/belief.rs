//! Beliefs: the few figures of a distribution over the vocabulary that decoding needs, computed from a row of logits.

use crate::{Alternatives, Credit, Draw, Error, Result, Row, Token, alternatives};

/// The model's belief about one position.
#[derive(Clone, Debug, PartialEq)]
pub struct Belief {
    /// The token to commit, if this position is committed.
    pub token: Token,
    /// The probability of `token`.
    pub probability: f64,
    /// The largest probability.
    pub first: f64,
    /// The second largest probability.
    pub second: f64,
    /// The entropy in nats.
    pub entropy: f64,
    /// KL(this ‖ the distribution kept before), if the row was remembered and there was one ([`Row::remember`]).
    pub divergence: Option<f64>,
    /// Probability of the scored token, if one was named ([`Row::scored_token`]).
    pub scored: Option<f64>,
    /// The most probable token before credit was added, and its probability, if the row has credit ([`Row::credit`]).
    pub vote: Option<(Token, f64)>,
    /// The most probable tokens with their log-probabilities, the most probable first, the lower id of equals; as many as were asked
    /// for ([`Row::alternatives`]) and have any probability.
    pub alternatives: Alternatives,
}

/// Sampling parameters for a row of logits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sampling {
    /// Rule that chooses the token.
    pub rule: TokenRule,
    /// Tokens that can be chosen, but whose confidence is zero unless there are no others, so that positions that want them wait
    /// (LLaDA's `confidence_eos_eot_inf`).
    pub deferred: Vec<Token>,
}

/// Rule that chooses a token from a distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum TokenRule {
    /// The most probable token, the lower id of equals.
    #[default]
    Greedy,
    /// LLaDA's: the token is drawn at this temperature, its confidence is taken without.
    Gumbel {
        /// Above 0; at 1 tokens are drawn from the model's own distribution.
        temperature: f64,
    },
    /// Dream's: everything, confidence and entropy too, is taken from the tempered and truncated distribution.
    Nucleus {
        /// 0 takes the most probable token.
        temperature: f64,
        /// Keep the most probable tokens until their probabilities exceed this; 1 keeps all.
        top_p: f64,
        /// Keep this many tokens; 0 keeps all.
        top_k: usize,
    },
}

/// A distribution kept from one step to the next.
#[derive(Clone, Debug)]
pub struct Previous {
    /// Its logits, −∞ where a token has no probability.
    pub logits: Vec<f32>,
    /// The logarithm of the sum of their exponentials.
    pub log_total: f64,
}

impl Row<'_> {
    /// The belief that a row of logits holds: the reference for every predictor.
    ///
    /// `logits` is used up. `previous` is the distribution kept for this row's run and position; it is compared with and
    /// replaced if the row is to be remembered.
    pub fn belief(&self, logits: &mut [f32], previous: &mut Option<Previous>) -> Result<Belief> {
        let not_finite = || Error::NotFinite { position: self.target.position() };
        if logits.iter().any(|logit| logit.is_nan()) {
            return Err(not_finite());
        }
        self.allowed.keep(logits);
        let vote = self.credit.map(|credit| credit.add(logits));
        let token = self.sampling.rule.choose(logits, self.draw);
        self.sampling.defer(logits);

        let Shape { first, second, log_total, entropy } = Shape::of(logits);
        if !log_total.is_finite() {
            return Err(not_finite());
        }
        let probability = |token: Token| (f64::from(logits[token as usize]) - log_total).exp();
        let mut belief = Belief {
            token,
            probability: probability(token),
            first: (first - log_total).exp(),
            second: (second - log_total).exp(),
            entropy,
            divergence: None,
            scored: self.scored_token.map(probability),
            vote,
            alternatives: alternatives(logits, log_total, self.alternatives),
        };
        if self.remember {
            belief.divergence = previous.as_ref().map(|previous| divergence(logits, log_total, previous));
            *previous = Some(Previous { logits: logits.to_vec(), log_total });
        }
        Ok(belief)
    }
}

impl Sampling {
    /// Takes their probability from deferred tokens, unless there are no others.
    fn defer(&self, logits: &mut [f32]) {
        let other = |(token, logit): (Token, &f32)| *logit > f32::NEG_INFINITY && !self.deferred.contains(&token);
        if !self.deferred.is_empty() && (0..).zip(&*logits).any(other) {
            self.deferred.iter().for_each(|&token| logits[token as usize] = f32::NEG_INFINITY);
        }
    }
}

impl Credit<'_> {
    /// Adds credit to logits; returns the token that was the most probable before, and its probability.
    fn add(self, logits: &mut [f32]) -> (Token, f64) {
        let token = argmax(logits, |logit, _| f64::from(logit));
        let Shape { first, log_total, .. } = Shape::of(logits);
        let probability = (first - log_total).exp();
        let gained = probability.powf(self.power);
        let mut raise = |token: Token, credit: f64| {
            let logit = &mut logits[token as usize];
            *logit = (f64::from(*logit) + self.weight * credit.ln_1p()) as f32;
        };
        raise(token, gained + self.of(token));
        for &(other, credit) in self.gathered.iter().filter(|(other, _)| *other != token) {
            raise(other, credit);
        }
        (token, probability)
    }

    fn of(self, token: Token) -> f64 {
        self.gathered.iter().find(|(other, _)| *other == token).map_or(0.0, |(_, credit)| *credit)
    }
}

impl TokenRule {
    /// The temperature; 0 if the choice is greedy.
    pub fn temperature(self) -> f64 {
        match self {
            TokenRule::Greedy => 0.0,
            TokenRule::Gumbel { temperature } | TokenRule::Nucleus { temperature, .. } => temperature,
        }
    }

    /// Chooses a token. Tempering and truncation, where the choice has them, stay in `logits`.
    fn choose(self, logits: &mut [f32], draw: Draw) -> Token {
        match self {
            TokenRule::Greedy => argmax(logits, |logit, _| f64::from(logit)),
            TokenRule::Gumbel { temperature } => {
                argmax(logits, |logit, token| f64::from(logit) + temperature * draw.gumbel(token as u64))
            }
            TokenRule::Nucleus { temperature, top_p, top_k } => {
                if temperature > 0.0 {
                    logits.iter_mut().for_each(|logit| *logit = (f64::from(*logit) / temperature) as f32);
                }
                truncate(logits, top_p, top_k);
                if temperature > 0.0 {
                    argmax(logits, |logit, token| f64::from(logit) + draw.gumbel(token as u64))
                } else {
                    argmax(logits, |logit, _| f64::from(logit))
                }
            }
        }
    }
}

/// The two largest logits, the logarithm of the sum of exponentials, and the entropy of a row.
struct Shape {
    first: f64,
    second: f64,
    log_total: f64,
    entropy: f64,
}

impl Shape {
    fn of(logits: &[f32]) -> Self {
        let (mut first, mut second) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
        for &logit in logits {
            if logit > first {
                (first, second) = (logit, first);
            } else if logit > second {
                second = logit;
            }
        }
        let (first, second) = (f64::from(first), f64::from(second));
        let (mut total, mut weighted) = (0.0, 0.0);
        for &logit in logits {
            let below = f64::from(logit) - first;
            // Below this, exp is too small to count in either sum, and −∞ · 0 would be NaN.
            if below > -700.0 {
                let weight = below.exp();
                total += weight;
                weighted += below * weight;
            }
        }
        Self { first, second, log_total: first + total.ln(), entropy: (total.ln() - weighted / total).max(0.0) }
    }
}

fn argmax(logits: &[f32], weight: impl Fn(f32, usize) -> f64) -> Token {
    let mut best = (f64::NEG_INFINITY, 0);
    for (token, &logit) in logits.iter().enumerate() {
        if logit > f32::NEG_INFINITY {
            let weight = weight(logit, token);
            if weight > best.0 {
                best = (weight, token);
            }
        }
    }
    best.1 as Token
}

/// Dream's truncation: first top-p, which keeps the token that crosses the bound, then top-k, which keeps equals of the last.
fn truncate(logits: &mut [f32], top_p: f64, top_k: usize) {
    if top_p >= 1.0 && top_k == 0 {
        return;
    }
    let mut ranked: Vec<f32> = logits.to_vec();
    ranked.sort_unstable_by(|a, b| b.total_cmp(a));
    let mut kept = ranked.len();
    if top_p < 1.0 {
        let log_total = Shape::of(logits).log_total;
        let mut mass = 0.0;
        let fits = |logit: &&f32| {
            let open = mass <= top_p;
            mass += (f64::from(**logit) - log_total).exp();
            open
        };
        kept = ranked.iter().take_while(fits).count().max(1);
    }
    if top_k > 0 {
        kept = kept.min(top_k);
    }
    let floor = ranked[kept - 1];
    logits.iter_mut().filter(|logit| **logit < floor).for_each(|logit| *logit = f32::NEG_INFINITY);
}

/// KL(now ‖ previous) as KLASS's code has it: 1e-12 inside both logarithms.
fn divergence(logits: &[f32], log_total: f64, previous: &Previous) -> f64 {
    const FLOOR: f64 = 1e-12;
    let terms = logits.iter().zip(&previous.logits).map(|(&now, &before)| {
        let p = (f64::from(now) - log_total).exp();
        let q = (f64::from(before) - previous.log_total).exp();
        if p > 0.0 { p * ((p + FLOOR).ln() - (q + FLOOR).ln()) } else { 0.0 }
    });
    terms.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Target, TokenSet};
    use std::sync::LazyLock;

    fn row(sampling: &Sampling) -> Row<'_> {
        static ALL: LazyLock<TokenSet> = LazyLock::new(|| TokenSet::all_but(8, &[]));
        Row::new(0, Target::Position(0), sampling, &ALL, Draw::new(0, 0, 0))
    }

    fn logits(probabilities: &[f64]) -> Vec<f32> {
        probabilities.iter().map(|p| p.ln() as f32).collect()
    }

    fn belief_of(sampling: &Sampling, probabilities: &[f64]) -> Belief {
        row(sampling).belief(&mut logits(probabilities), &mut None).unwrap()
    }

    fn assert_close(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-6, "{value} is not {expected}");
    }

    #[test]
    fn a_belief_sums_up_its_distribution() {
        let belief = belief_of(&Sampling::default(), &[0.2, 0.5, 0.3]);
        assert_eq!(belief.token, 1);
        assert_close(belief.probability, 0.5);
        assert_close(belief.first, 0.5);
        assert_close(belief.second, 0.3);
        assert_close(belief.entropy, -(0.2f64 * 0.2f64.ln() + 0.5 * 0.5f64.ln() + 0.3 * 0.3f64.ln()));
    }

    #[test]
    fn of_equal_tokens_the_lower_id_is_chosen() {
        assert_eq!(belief_of(&Sampling::default(), &[0.2, 0.4, 0.4]).token, 1);
    }

    #[test]
    fn suppressed_tokens_have_no_probability_and_deferred_ones_no_confidence() {
        let (sampling, allowed) = (Sampling::default(), TokenSet::all_but(3, &[1]));
        let suppressing = Row { allowed: &allowed, ..row(&sampling) };
        let belief = suppressing.belief(&mut logits(&[0.2, 0.5, 0.3]), &mut None).unwrap();
        assert_eq!(belief.token, 2);
        assert_close(belief.probability, 0.6);

        // LLaDA chooses the token first and then leaves it out of the softmax that gives the confidence.
        let deferring = Sampling { deferred: vec![1], ..Sampling::default() };
        let belief = belief_of(&deferring, &[0.2, 0.5, 0.3]);
        assert_eq!((belief.token, belief.probability), (1, 0.0));
        assert_close(belief.first, 0.6);
        assert_close(belief_of(&deferring, &[0.0, 0.5, 0.0]).probability, 1.0);
    }

    #[test]
    fn llada_ranks_a_drawn_token_by_its_untempered_probability() {
        let sampling = Sampling { rule: TokenRule::Gumbel { temperature: 0.5 }, ..Sampling::default() };
        let probabilities = [0.2, 0.5, 0.3];
        let mut counts = [0; 3];
        for step in 0..4000 {
            let row = Row { draw: Draw::new(9, step, 4), ..row(&sampling) };
            let belief = row.belief(&mut logits(&probabilities), &mut None).unwrap();
            assert_close(belief.probability, probabilities[belief.token as usize]);
            counts[belief.token as usize] += 1;
        }
        // At temperature 1/2 the weights are squared.
        for (count, weight) in counts.iter().zip([0.04, 0.25, 0.09]) {
            assert!((f64::from(*count) / 4000.0 - weight / 0.38).abs() < 0.03, "{counts:?}");
        }
    }

    #[test]
    fn dream_takes_everything_from_the_tempered_and_truncated_distribution() {
        let nucleus = |temperature, top_p, top_k| Sampling {
            rule: TokenRule::Nucleus { temperature, top_p, top_k },
            ..Sampling::default()
        };
        let probabilities = [0.1, 0.4, 0.3, 0.2];
        assert_close(belief_of(&nucleus(0.0, 1.0, 2), &probabilities).first, 4.0 / 7.0);
        // 0.4 does not exceed 0.5, so the token that crosses it stays too.
        assert_close(belief_of(&nucleus(0.0, 0.5, 0), &probabilities).first, 4.0 / 7.0);
        assert_close(belief_of(&nucleus(0.0, 0.75, 0), &probabilities).first, 4.0 / 9.0);
        assert_close(belief_of(&nucleus(0.5, 1.0, 0), &probabilities).first, 0.16 / 0.3);
        assert_close(belief_of(&nucleus(0.0, 0.01, 0), &probabilities).entropy, 0.0);
    }

    #[test]
    fn divergence_is_from_the_row_remembered_last() {
        let sampling = Sampling::default();
        let row = Row { remember: true, ..row(&sampling) };
        let mut previous = None;
        let (before, now) = ([0.25, 0.75], [0.5, 0.5]);
        assert_eq!(row.belief(&mut logits(&before), &mut previous).unwrap().divergence, None);
        let divergence = row.belief(&mut logits(&now), &mut previous).unwrap().divergence.unwrap();
        assert_close(divergence, 0.5 * (0.5f64 / 0.25).ln() + 0.5 * (0.5f64 / 0.75).ln());
        assert_close(row.belief(&mut logits(&now), &mut previous).unwrap().divergence.unwrap(), 0.0);
    }

    #[test]
    fn credit_raises_what_was_most_probable_before() {
        let sampling = Sampling::default();
        let credit = Some(Credit { gathered: &[(2, 1.0), (0, 0.5)], weight: 2.0, power: 0.5 });
        let belief = Row { credit, ..row(&sampling) }.belief(&mut logits(&[0.25, 0.4, 0.35]), &mut None).unwrap();
        let weights = [0.25 * 1.5f64.powi(2), 0.4 * (1.0 + 0.4f64.sqrt()).powi(2), 0.35 * 2.0f64.powi(2)];
        assert_eq!(belief.token, 2);
        assert_close(belief.first, weights[2] / weights.iter().sum::<f64>());
        let (token, probability) = belief.vote.unwrap();
        assert_eq!(token, 1);
        assert_close(probability, 0.4);
    }

    #[test]
    fn a_scored_token_is_weighed_with_the_rest() {
        let sampling = Sampling::default();
        let row = Row { scored_token: Some(2), ..row(&sampling) };
        assert_close(row.belief(&mut logits(&[0.2, 0.5, 0.3]), &mut None).unwrap().scored.unwrap(), 0.3);
    }

    #[test]
    fn alternatives_are_the_most_probable_tokens_of_what_the_token_was_chosen_from() {
        let probabilities = [0.1, 0.3, 0.05, 0.3, 0.0, 0.25];
        let sampling = Sampling::default();
        let row = Row { alternatives: 4, ..row(&sampling) };
        let found = row.belief(&mut logits(&probabilities), &mut None).unwrap().alternatives;
        assert_eq!(found.iter().map(|(token, _)| *token).collect::<Vec<_>>(), [1, 3, 5, 0]);
        for (token, logprob) in found {
            assert!((logprob.exp() - probabilities[token as usize]).abs() < 1e-6);
        }
        // A token without probability is no alternative, and a truncated distribution has few.
        let all = Row { alternatives: 20, ..row }.belief(&mut logits(&probabilities), &mut None).unwrap();
        assert_eq!(all.alternatives.len(), 5);
        let rule = TokenRule::Nucleus { temperature: 1.0, top_p: 1.0, top_k: 2 };
        let two = Sampling { rule, ..Sampling::default() };
        let belief = Row { alternatives: 4, ..self::row(&two) }.belief(&mut logits(&probabilities), &mut None).unwrap();
        assert_eq!(belief.alternatives.len(), 2);
        assert!((belief.alternatives[0].1.exp() - 0.5).abs() < 1e-6);
    }
}
