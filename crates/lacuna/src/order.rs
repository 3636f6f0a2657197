//! Orders: which masked position comes first.

use std::fmt::Debug;

use crate::{AttentionSource, Result, Step};

/// Scores masked positions; the highest is filled first.
///
/// An order knows nothing of blocks, paces or batches. To add one, write its `score` and name it in
/// [`Strategy::parse`](crate::Strategy::parse).
pub trait Order: Debug + Send + Sync {
    /// One score for each of `candidates`.
    fn score(&self, candidates: &[usize], step: &mut Step<'_>) -> Result<Vec<f64>>;

    /// The attention it needs to see.
    fn attention(&self) -> &[AttentionSource] {
        &[]
    }

    /// Whether it scores by beliefs: then it reads those of all candidates.
    fn reads(&self) -> bool {
        false
    }
}

/// By chance.
#[derive(Clone, Debug)]
pub struct Random;

impl Order for Random {
    fn score(&self, candidates: &[usize], step: &mut Step<'_>) -> Result<Vec<f64>> {
        Ok(candidates.iter().map(|&position| step.draw(position).uniform(u64::MAX)).collect())
    }
}

/// By the probability of the token that would be committed.
#[derive(Clone, Debug)]
pub struct Confidence;

impl Order for Confidence {
    fn score(&self, candidates: &[usize], step: &mut Step<'_>) -> Result<Vec<f64>> {
        Ok(step.beliefs(candidates)?.iter().map(|belief| belief.probability).collect())
    }

    fn reads(&self) -> bool {
        true
    }
}

/// By negative entropy: the most certain distribution first.
#[derive(Clone, Debug)]
pub struct Entropy;

impl Order for Entropy {
    fn score(&self, candidates: &[usize], step: &mut Step<'_>) -> Result<Vec<f64>> {
        Ok(step.beliefs(candidates)?.iter().map(|belief| -belief.entropy).collect())
    }

    fn reads(&self) -> bool {
        true
    }
}

/// By the distance between the two most probable tokens.
#[derive(Clone, Debug)]
pub struct Margin;

impl Order for Margin {
    fn score(&self, candidates: &[usize], step: &mut Step<'_>) -> Result<Vec<f64>> {
        Ok(step.beliefs(candidates)?.iter().map(|belief| belief.first - belief.second).collect())
    }

    fn reads(&self) -> bool {
        true
    }
}

/// DOS: by the attention that a position pays to what is already unmasked (Algorithm 1 of the paper).
///
/// It reads no belief at all. With several sources their scores are averaged, which the paper names as future work.
#[derive(Clone, Debug)]
pub struct Dependency {
    /// Where the attention is taken from.
    pub sources: Vec<AttentionSource>,
}

impl Order for Dependency {
    fn score(&self, candidates: &[usize], step: &mut Step<'_>) -> Result<Vec<f64>> {
        let layers = &step.seen.dependency[..self.sources.len()];
        let mean = |position: usize| {
            layers.iter().map(|scores| f64::from(scores[position])).sum::<f64>() / layers.len() as f64
        };
        Ok(candidates.iter().map(|&position| mean(position)).collect())
    }

    fn attention(&self) -> &[AttentionSource] {
        &self.sources
    }
}
