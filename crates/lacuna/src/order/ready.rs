//! Orders that put DOS's dependency scores to another use.

use super::{HEADS, LAYER, Order, RankBy, sources};
use crate::catalogue::{Need, Part};
use crate::{AttentionSource, Result, StepContext};
use std::sync::Arc;

/// By the probability of the best token times the dependency score: sure, and written about what is there.
#[derive(Clone, Debug)]
pub struct CertainDependency {
    /// The heads and layers whose attention is used.
    pub sources: Vec<AttentionSource>,
}

/// By how much the dependency score has grown since the first step of the run. What a position pays to the prompt because it
/// stands near it does not count.
#[derive(Clone, Debug)]
pub struct DependencyGain {
    /// The heads and layers whose attention is used.
    pub sources: Vec<AttentionSource>,
}

pub(super) fn parts() -> Vec<Part> {
    vec![
        Part::order(
            "certain-dos",
            "highest probability of the best token times attention paid to what is unmasked",
            |given| {
                Ok(Arc::new(CertainDependency { sources: sources(given.integers("layer"), given.integers("heads")) }))
            },
        )
        .needs(&[Need::Attention, Need::Beliefs])
        .parameters(&[LAYER, HEADS]),
        Part::order("dos-gain", "most attention gained, since the first step, by what is unmasked", |given| {
            Ok(Arc::new(DependencyGain { sources: sources(given.integers("layer"), given.integers("heads")) }))
        })
        .needs(&[Need::Attention])
        .parameters(&[LAYER, HEADS]),
    ]
}

impl Order for CertainDependency {
    fn ranks_by(&self) -> RankBy<'_> {
        RankBy::Rule { attention: &self.sources, beliefs: true }
    }

    fn score(&self, context: &StepContext<'_>) -> Result<Vec<f64>> {
        let score = |&position: &usize| {
            context.belief(position).probability * context.mean_dependency(self.sources.len(), position)
        };
        Ok(context.candidates().iter().map(score).collect())
    }
}

impl Order for DependencyGain {
    fn ranks_by(&self) -> RankBy<'_> {
        RankBy::Rule { attention: &self.sources, beliefs: false }
    }

    fn score(&self, context: &StepContext<'_>) -> Result<Vec<f64>> {
        let sources = self.sources.len();
        let score = |&position: &usize| {
            context.mean_dependency(sources, position) - context.first_dependency(sources, position)
        };
        Ok(context.candidates().iter().map(score).collect())
    }
}
