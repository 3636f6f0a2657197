//! The likelihood of a given text.
//!
//! A masked diffusion model has no one likelihood to read off. LLaDA's Monte Carlo estimate is a lower bound on it; along an order, the
//! tokens' log-probabilities add up to the likelihood of writing the text in that order.

use std::collections::HashMap;

use crate::{
    Description, Draw, Error, Guide, MersenneTwister, Predictor, Result, Row, Sampling, Target, Token, TokenSet, View,
    Visibility,
};

/// A text, of which the part behind its prompt is scored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Prompt and text.
    pub tokens: Vec<Token>,
    /// Length of the prompt.
    pub prompt: usize,
}

/// The way to score a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Likelihood {
    /// LLaDA's Monte Carlo estimate of a lower bound on the log-likelihood, with the masks of its evaluation code: each sample masks l of
    /// the text's L tokens and weighs their log-probabilities with L / l.
    MonteCarlo {
        /// Number of samples; LLaDA's evaluation takes 128.
        samples: usize,
        /// Seed of the masks; LLaDA's evaluation has 1234.
        seed: u64,
    },
    /// Step by step: the tokens at a step's positions are scored while they and those of later steps are masked. Positions in no step
    /// are shown as they are.
    Along(Vec<Vec<usize>>),
}

/// Samples whose numbers of masks are spread evenly: the batch size of LLaDA's evaluation.
const GROUP: usize = 32;

/// The score of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// The log-likelihood, or a lower bound on it, in nats.
    pub loglikelihood: f64,
    /// Standard error of the estimate; none along an order, where nothing is drawn.
    pub standard_error: Option<f64>,
    /// Along an order, for each step the position and log-probability of its tokens.
    pub steps: Vec<Vec<(usize, f64)>>,
    /// Number of tokens that were scored.
    pub tokens: usize,
    /// Forward passes (NFE).
    pub forwards: usize,
}

/// Texts on their way to their scores, stepped from outside.
///
/// Texts share forward passes; a score does not depend on what is computed with it.
#[derive(Debug)]
pub struct Scoring {
    passages: Vec<(Passage, Likelihood)>,
    queries: Vec<Query>,
    /// Looks that have been taken.
    done: usize,
    guidance: f32,
    sampling: Sampling,
    all: TokenSet,
    mask: Token,
}

/// A masked canvas whose forward pass scores some tokens.
#[derive(Debug)]
struct Query {
    passage: usize,
    /// Masked positions, ascending.
    masked: Vec<usize>,
    /// Positions whose tokens are scored.
    scored: Vec<usize>,
    /// Number of samples that are this canvas.
    times: usize,
    /// Log-probabilities of the scored tokens, once they are known.
    found: Vec<f64>,
}

impl Scoring {
    /// Scores passages, with classifier-free guidance of this scale; 0 is none. What cannot be scored is refused here.
    pub fn new(passages: Vec<(Passage, Likelihood)>, guidance: f32, model: &Description) -> Result<Self> {
        if !(guidance >= 0.0 && guidance.is_finite()) {
            return Err(Error::parameter("guidance", guidance.to_string(), "must be 0 or more"));
        }
        let mut queries = Vec::new();
        for (number, (passage, likelihood)) in passages.iter().enumerate() {
            passage.check(model)?;
            queries.extend(likelihood.queries(number, passage, model)?);
        }
        let all = TokenSet::all_but(model.vocabulary, &[]);
        Ok(Self { passages, queries, done: 0, guidance, sampling: Sampling::default(), all, mask: model.mask })
    }

    /// True if every score is known.
    pub fn is_finished(&self) -> bool {
        self.done == self.queries.len()
    }

    /// Shows the model the next canvases, together: at most so many with at most so many positions, but at least one.
    pub fn step(&mut self, canvases: usize, positions: usize, predictor: &mut dyn Predictor) -> Result<()> {
        let width = if self.guidance > 0.0 { 2 } else { 1 };
        let mut taken = 0;
        let fits = |query: &&Query| {
            taken += self.passages[query.passage].0.tokens.len() * width;
            taken <= positions
        };
        let count = self.queries[self.done..].iter().take((canvases / width).max(1)).take_while(fits).count().max(1);
        let end = (self.done + count).min(self.queries.len());
        let queries = &self.queries[self.done..end];
        let canvas = |query: &Query, prompt: usize| {
            let mut tokens = self.passages[query.passage].0.tokens.clone();
            query.masked.iter().copied().chain(0..prompt).for_each(|position| tokens[position] = self.mask);
            tokens
        };
        let shown =
            |query| [canvas(query, 0), canvas(query, self.passages[query.passage].0.prompt)].into_iter().take(width);
        let canvases: Vec<Vec<Token>> = queries.iter().flat_map(shown).collect();
        let views: Vec<View<'_>> = canvases.iter().map(|tokens| View { tokens, ..View::default() }).collect();
        predictor.observe(&views)?;
        let mut rows = Vec::new();
        for (number, query) in queries.iter().enumerate() {
            let (view, passage) = (number * width, &self.passages[query.passage].0);
            rows.extend(query.scored.iter().map(|&position| Row {
                scored_token: Some(passage.tokens[position]),
                guide: (width > 1).then_some(Guide { view: view + 1, scale: self.guidance }),
                ..Row::new(view, Target::Position(position), &self.sampling, &self.all, Draw::new(0, 0, position))
            }));
        }
        let beliefs = predictor.read(&rows)?;
        let logprob = |probability: Option<f64>| probability.unwrap_or(0.0).max(f64::MIN_POSITIVE).ln();
        let mut found = beliefs.into_iter().map(|belief| logprob(belief.scored));
        for query in &mut self.queries[self.done..end] {
            query.found = found.by_ref().take(query.scored.len()).collect();
        }
        self.done = end;
        Ok(())
    }

    /// Takes all remaining steps.
    pub fn finish(&mut self, canvases: usize, positions: usize, predictor: &mut dyn Predictor) -> Result<Vec<Score>> {
        while !self.is_finished() {
            self.step(canvases, positions, predictor)?;
        }
        Ok(self.scores())
    }

    /// The score of each passage, once all are known.
    pub fn scores(&self) -> Vec<Score> {
        let width = if self.guidance > 0.0 { 2 } else { 1 };
        let score = |(number, (passage, likelihood)): (usize, &(Passage, Likelihood))| {
            let queries: Vec<&Query> = self.queries.iter().filter(|query| query.passage == number).collect();
            let forwards = queries.len() * width;
            match likelihood {
                Likelihood::MonteCarlo { samples, .. } => {
                    let tokens = passage.tokens.len() - passage.prompt;
                    let estimate = |query: &&&Query| {
                        let sum: f64 = query.found.iter().sum();
                        (query.times as f64, sum * tokens as f64 / query.scored.len() as f64)
                    };
                    let estimates: Vec<(f64, f64)> = queries.iter().map(|query| estimate(&query)).collect();
                    let samples = *samples as f64;
                    let mean = estimates.iter().map(|(times, estimate)| times * estimate).sum::<f64>() / samples;
                    let squares: f64 = estimates.iter().map(|(times, one)| times * (one - mean).powi(2)).sum();
                    let error = (samples > 1.0).then(|| (squares / (samples - 1.0) / samples).sqrt());
                    Score { loglikelihood: mean, standard_error: error, steps: Vec::new(), tokens, forwards }
                }
                Likelihood::Along(_) => {
                    let step = |query: &&Query| query.scored.iter().copied().zip(query.found.iter().copied()).collect();
                    let steps: Vec<Vec<(usize, f64)>> = queries.iter().map(step).collect();
                    let loglikelihood = steps.iter().flatten().map(|(_, logprob)| logprob).sum();
                    let tokens = steps.iter().map(Vec::len).sum();
                    Score { loglikelihood, standard_error: None, steps, tokens, forwards }
                }
            }
        };
        self.passages.iter().enumerate().map(score).collect()
    }
}

impl Passage {
    fn check(&self, model: &Description) -> Result<()> {
        let (length, context, vocabulary) = (self.tokens.len(), model.context, model.vocabulary);
        if self.prompt >= length {
            return Err(Error::Incompatible("the text is empty: there is nothing to score".into()));
        }
        if length > context {
            return Err(Error::TooLong { length, context });
        }
        match self.tokens.iter().position(|&token| token as usize >= vocabulary) {
            Some(position) => Err(Error::TokenOutOfRange { token: self.tokens[position], position, vocabulary }),
            None => Ok(()),
        }
    }
}

impl Likelihood {
    fn queries(&self, number: usize, passage: &Passage, model: &Description) -> Result<Vec<Query>> {
        let Passage { tokens, prompt } = passage;
        let query = |masked: Vec<usize>, scored: Vec<usize>, times| Query {
            passage: number,
            masked,
            scored,
            times,
            found: Vec::new(),
        };
        match self {
            Self::MonteCarlo { samples, seed } => {
                if let Visibility::Blocks(_) = model.visibility {
                    let why = "the estimate masks tokens all over the text, but this block-causal model was trained with finished \
                               blocks before the masked one: score along an order";
                    return Err(Error::Incompatible(why.into()));
                }
                if let Some(position) = tokens.iter().position(|&token| token == model.mask) {
                    let why =
                        format!("the text has the mask token at position {position}: there is nothing to score there");
                    return Err(Error::Incompatible(why.into()));
                }
                let group = GROUP.min(*samples);
                if group == 0 || !samples.is_multiple_of(group) {
                    let expected = format!("must be from 1 to {GROUP}, or a multiple of {GROUP}");
                    return Err(Error::parameter("samples", samples.to_string(), expected));
                }
                // Few tokens can be masked in few ways: what is the same is looked at once.
                let mut queries: Vec<Query> = Vec::new();
                let mut known: HashMap<Vec<usize>, usize> = HashMap::new();
                let mut torch = TorchGenerator::new(*seed);
                for _ in 0..samples / group {
                    for masked in torch.masks(group, tokens.len() - prompt) {
                        let masked: Vec<usize> = masked.into_iter().map(|place| prompt + place).collect();
                        let next = queries.len();
                        match *known.entry(masked.clone()).or_insert(next) {
                            new if new == next => queries.push(query(masked.clone(), masked, 1)),
                            old => queries[old].times += 1,
                        }
                    }
                }
                Ok(queries)
            }
            Self::Along(steps) => {
                let mut open: Vec<usize> = steps.concat();
                open.sort_unstable();
                let scorable =
                    |&position: &usize| (*prompt..tokens.len()).contains(&position) && tokens[position] != model.mask;
                if let Some(position) = open.iter().find(|position| !scorable(position)) {
                    let why = format!(
                        "position {position} has no token to score: the text is at {prompt} to {}",
                        tokens.len() - 1
                    );
                    return Err(Error::Incompatible(why.into()));
                }
                if let Some(twice) = open.windows(2).find(|pair| pair[0] == pair[1]) {
                    let why =
                        format!("position {} is written twice: each position has one place in an order", twice[0]);
                    return Err(Error::Incompatible(why.into()));
                }
                let mut queries = Vec::new();
                for step in steps.iter().filter(|step| !step.is_empty()) {
                    let mut scored = step.clone();
                    scored.sort_unstable();
                    queries.push(query(open.clone(), scored, 1));
                    open.retain(|position| !step.contains(position));
                }
                Ok(queries)
            }
        }
    }

    /// One token a step: from the left, from the right, or in an order that is drawn.
    pub fn one_by_one(order: Direction, passage: &Passage) -> Self {
        let mut places: Vec<usize> = (passage.prompt..passage.tokens.len()).collect();
        match order {
            Direction::Left => {}
            Direction::Right => places.reverse(),
            Direction::Random { seed } => {
                let drawn = TorchGenerator::new(seed).permutation(places.len());
                places = drawn.into_iter().map(|place| passage.prompt + place).collect();
            }
        }
        Self::Along(places.into_iter().map(|position| vec![position]).collect())
    }
}

/// An order in which tokens are written one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the left.
    Left,
    /// From the right.
    Right,
    /// As drawn with a seed.
    Random {
        /// The seed.
        seed: u64,
    },
}

/// PyTorch's generator on the CPU: LLaDA's evaluation code masks the same tokens with the same seed.
struct TorchGenerator(MersenneTwister);

impl TorchGenerator {
    fn new(seed: u64) -> Self {
        Self(MersenneTwister::new(seed as u32))
    }

    /// A number below `bound`, as `torch.randint` draws it.
    fn below(&mut self, bound: usize) -> usize {
        self.0.bits() as usize % bound
    }

    /// A permutation, as `torch.randperm` draws it.
    fn permutation(&mut self, length: usize) -> Vec<usize> {
        let mut places: Vec<usize> = (0..length).collect();
        for i in 0..length.saturating_sub(1) {
            let other = i + self.below(length - i);
            places.swap(i, other);
        }
        places
    }

    /// The masked places of a group of samples of a text of `length` tokens, as LLaDA's evaluation draws them: their numbers are spread
    /// evenly over 1 to `length`, from a start that is drawn.
    fn masks(&mut self, group: usize, length: usize) -> Vec<Vec<usize>> {
        let start = (self.below(length) + 1) as f64;
        // torch.linspace, in 32 bits: from both ends.
        let end = (start + (group - 1) as f64 * (length as f64 / group as f64)) as f32;
        let start = start as f32;
        let step = if group > 1 { (end - start) / (group - 1) as f32 } else { 0.0 };
        let spread = |i: usize| match i < group / 2 || group == 1 {
            true => start + step * i as f32,
            false => end - step * (group - 1 - i) as f32,
        };
        let counts: Vec<usize> = (0..group).map(|i| (spread(i).round_ties_even() as usize - 1) % length + 1).collect();
        let mask = |count| {
            let drawn = self.permutation(length);
            (0..length).filter(|&place| drawn[place] < count).collect()
        };
        counts.into_iter().map(mask).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::Scripted;

    /// Masks of five tokens as bits, with seed 1234 and groups of 32.
    const FIVE: [u32; 64] = [
        8, 8, 2, 4, 10, 6, 6, 20, 6, 5, 19, 14, 7, 28, 26, 22, 15, 23, 30, 30, 30, 15, 30, 31, 31, 31, 31, 31, 31, 8,
        8, 16, 9, 17, 9, 9, 11, 22, 21, 7, 22, 26, 15, 15, 30, 29, 15, 27, 29, 31, 31, 31, 31, 31, 31, 8, 2, 1, 1, 4,
        1, 5, 20, 6,
    ];

    /// Masks as bits, drawn by LLaDA's evaluation code in PyTorch 2.15 after `torch.manual_seed`.
    #[test]
    fn masks_are_those_of_lladas_code() {
        for (seed, group, length, expected) in [
            (1234, 4, 7, &[127, 40, 52, 94, 111, 2, 35, 43][..]),
            (7, 3, 11, &[1283, 1913, 2047, 2046, 1540, 1319]),
            (0, 8, 1, &[1; 8]),
            (1234, 32, 5, &FIVE),
        ] {
            let mut torch = TorchGenerator::new(seed);
            let groups = expected.len() / group;
            let drawn = (0..groups).flat_map(|_| torch.masks(group, length));
            let bits = drawn.map(|places| places.iter().map(|place| 1u32 << place).sum::<u32>());
            assert_eq!(bits.collect::<Vec<_>>(), expected, "seed {seed}, {group} samples of {length} tokens");
        }
        assert_eq!(TorchGenerator::new(1234).permutation(9), [6, 4, 2, 8, 5, 1, 0, 3, 7]);
    }

    const MASK: Token = 0;

    /// Log-probabilities that depend on the whole canvas; the mask token has none.
    fn logits(tokens: &[Token], position: usize) -> Vec<f32> {
        let seen: usize = tokens.iter().enumerate().map(|(at, &token)| (at + 2) * (token as usize + 1)).sum();
        let logit = |token: usize| ((seen * 31 + position * 17 + token * 7) % 23) as f32 / 5.0;
        [f32::NEG_INFINITY].into_iter().chain((1..4).map(logit)).collect()
    }

    fn log_probability(tokens: &[Token], position: usize, token: Token) -> f64 {
        let logits = logits(tokens, position);
        let total: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
        f64::from(logits[token as usize]) - total.ln()
    }

    fn score(passage: &Passage, likelihood: Likelihood, batch: usize) -> Score {
        let mut model = Scripted::new(4, MASK, logits);
        let mut scoring = Scoring::new(vec![(passage.clone(), likelihood)], 0.0, &model.description().clone()).unwrap();
        scoring.finish(batch, usize::MAX, &mut model).unwrap().remove(0)
    }

    #[test]
    fn the_estimate_is_lladas_formula() {
        let passage = Passage { tokens: vec![3, 1, 2, 3, 3, 1, 2], prompt: 2 };
        for samples in [32, 64] {
            let sample = |bits: u32| {
                let masked: Vec<usize> = (0..5).filter(|place| bits >> place & 1 == 1).map(|place| 2 + place).collect();
                let mut canvas = passage.tokens.clone();
                masked.iter().for_each(|&position| canvas[position] = MASK);
                let found = masked.iter().map(|&position| log_probability(&canvas, position, passage.tokens[position]));
                found.sum::<f64>() * 5.0 / masked.len() as f64
            };
            let exact = FIVE[..samples].iter().map(|&bits| sample(bits)).sum::<f64>() / samples as f64;
            let found = score(&passage, Likelihood::MonteCarlo { samples, seed: 1234 }, 8);
            assert!((found.loglikelihood - exact).abs() < 1e-5, "{} is not {exact}", found.loglikelihood);
            assert!(found.forwards < samples && found.tokens == 5 && found.standard_error.unwrap() > 0.0);
            assert_eq!(found, score(&passage, Likelihood::MonteCarlo { samples, seed: 1234 }, 1));
        }
    }

    #[test]
    fn along_an_order_the_probabilities_of_all_texts_add_up_to_one() {
        let texts = (0..27u32).map(|number| vec![2, 1 + number % 3, 1 + number / 3 % 3, 1 + number / 9]);
        let passages: Vec<Passage> = texts.map(|tokens| Passage { tokens, prompt: 1 }).collect();
        for order in [Direction::Left, Direction::Right, Direction::Random { seed: 5 }] {
            let total: f64 = passages
                .iter()
                .map(|passage| score(passage, Likelihood::one_by_one(order, passage), 2).loglikelihood.exp())
                .sum();
            assert!((total - 1.0).abs() < 1e-6, "{total}");
        }
        let together = Likelihood::Along(vec![vec![3, 1], vec![2]]);
        let found = score(&passages[5], together, 2);
        let places: Vec<Vec<usize>> =
            found.steps.iter().map(|step| step.iter().map(|(position, _)| *position).collect()).collect();
        assert_eq!((places, found.forwards), (vec![vec![1, 3], vec![2]], 2));
    }

    #[test]
    fn what_cannot_be_scored_is_refused() {
        let model = Scripted::new(4, MASK, logits).description().clone();
        let refused = |tokens: &[Token], prompt, likelihood: Likelihood| {
            let passage = Passage { tokens: tokens.to_vec(), prompt };
            Scoring::new(vec![(passage, likelihood)], 0.0, &model).unwrap_err().to_string()
        };
        let estimate = |samples| Likelihood::MonteCarlo { samples, seed: 0 };
        assert!(refused(&[1, 2], 2, estimate(8)).contains("empty"));
        assert!(refused(&[1, 9], 1, estimate(8)).contains('9'));
        assert!(refused(&[1, MASK], 1, estimate(8)).contains("mask token"));
        assert!(refused(&[1, 2], 1, estimate(0)).contains("multiple of 32"));
        assert!(refused(&[1, 2], 1, estimate(33)).contains("multiple of 32"));
        assert!(refused(&[1, 2], 1, Likelihood::Along(vec![vec![0]])).contains("position 0"));
        assert!(refused(&[1, 2], 1, Likelihood::Along(vec![vec![7]])).contains("position 7"));
        assert!(refused(&[1, 2, 3], 1, Likelihood::Along(vec![vec![1], vec![1]])).contains("twice"));
    }
}
