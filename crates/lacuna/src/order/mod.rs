//! Orders: which masked position comes first.

mod given;
mod prior;
mod ready;

use std::fmt::Debug;
use std::sync::Arc;

pub use given::Given;
pub use prior::{Frequencies, PositionPrior};
pub use ready::{CertainDependency, DependencyGain};

use crate::catalogue::{Default, Kind, Need, Parameter, Part};
use crate::{AttentionSource, Block, Canvas, Result, StepContext, Target};

/// Scores masked positions; the highest is filled first, ties go to the lower position.
///
/// An order knows nothing of blocks, paces or batches.
pub trait Order: Debug + Send + Sync {
    /// Inputs of the scores.
    fn ranks_by(&self) -> RankBy<'_>;

    /// One score for each of the context's candidates.
    fn score(&self, context: &StepContext<'_>) -> Result<Vec<f64>>;

    /// The scores of several runs that share this order, for orders whose call is expensive.
    fn score_batch(&self, contexts: &[StepContext<'_>]) -> Result<Vec<Vec<f64>>> {
        contexts.iter().map(|context| self.score(context)).collect()
    }

    /// True if its scores depend on the seed.
    fn draws(&self) -> bool {
        false
    }

    /// Rows beside the candidates whose beliefs it uses.
    fn rows(&self, _canvas: &Canvas, _block: &Block) -> Vec<Target> {
        Vec::new()
    }
}

/// Inputs of an order's scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RankBy<'a> {
    /// The canvas, the step's number and random draws: known before the forward pass.
    Known,
    /// Exactly the mean dependency score of these sources ([`StepContext::mean_dependency`]). A predictor may rank by itself then.
    MeanAttention(&'a [AttentionSource]),
    /// A rule of its own.
    Rule {
        /// Attention whose dependency scores it uses.
        attention: &'a [AttentionSource],
        /// True if it uses the beliefs of all candidates.
        beliefs: bool,
    },
}

impl<'a> RankBy<'a> {
    /// The rule of orders that use beliefs alone.
    pub const BELIEFS: RankBy<'static> = RankBy::Rule { attention: &[], beliefs: true };

    /// Attention that is observed for it.
    pub fn attention(self) -> &'a [AttentionSource] {
        match self {
            Self::Known => &[],
            Self::MeanAttention(attention) | Self::Rule { attention, .. } => attention,
        }
    }

    /// True if the beliefs of all candidates are read for it.
    pub fn beliefs(self) -> bool {
        matches!(self, Self::Rule { beliefs: true, .. })
    }
}

/// Layers whose attention is averaged.
pub(crate) const LAYER: Parameter = Parameter::new(
    "layer",
    Kind::Layers,
    Default::Depends("the model's own, else a sixth of the way up"),
    "layers whose attention is used, from 0: 4, or 2,4, or 2-5, or all; several are averaged",
);
/// Heads that are averaged in each layer.
pub(crate) const HEADS: Parameter =
    Parameter::new("heads", Kind::Integers, Default::Depends("all"), "attention heads that are averaged, from 0");

pub(crate) fn parts() -> Vec<Part> {
    let mut parts = vec![
        Part::order("dos", "most attention paid to what is already unmasked", |given| {
            Ok(Arc::new(Dependency { sources: sources(given.integers("layer"), given.integers("heads")) }))
        })
        .needs(&[Need::Attention])
        .parameters(&[LAYER, HEADS]),
        Part::order("confidence", "highest probability of the best token", |_| Ok(Arc::new(Confidence)))
            .needs(&[Need::Beliefs]),
        Part::order("entropy", "lowest entropy", |_| Ok(Arc::new(Entropy))).needs(&[Need::Beliefs]),
        Part::order("margin", "largest distance between the best and the second token", |_| Ok(Arc::new(Margin)))
            .needs(&[Need::Beliefs]),
        prior::part(),
        Part::order("left", "from left to right", |_| Ok(Arc::new(LeftToRight))),
        Part::order("right", "from right to left", |_| Ok(Arc::new(RightToLeft))),
        given::part(),
        Part::order("random", "in random order", |_| Ok(Arc::new(Random))),
    ];
    parts.splice(1..1, ready::parts());
    parts
}

/// The sources of some layers, each with these heads; layer 0 and all heads if they are not given.
pub fn sources(layers: Option<Vec<usize>>, heads: Option<Vec<usize>>) -> Vec<AttentionSource> {
    let heads = heads.unwrap_or_default();
    let source = |layer| AttentionSource { layer, heads: heads.clone() };
    layers.unwrap_or_else(|| vec![0]).into_iter().map(source).collect()
}

/// By chance.
#[derive(Clone, Debug)]
pub struct Random;

impl Order for Random {
    fn ranks_by(&self) -> RankBy<'_> {
        RankBy::Known
    }

    fn draws(&self) -> bool {
        true
    }

    fn score(&self, context: &StepContext<'_>) -> Result<Vec<f64>> {
        Ok(context.candidates().iter().map(|&position| context.draw(position).uniform(u64::MAX)).collect())
    }
}

/// From left to right.
#[derive(Clone, Debug)]
pub struct LeftToRight;

impl Order for LeftToRight {
    fn ranks_by(&self) -> RankBy<'_> {
        RankBy::Known
    }

    fn score(&self, context: &StepContext<'_>) -> Result<Vec<f64>> {
        Ok(context.candidates().iter().map(|&position| -(position as f64)).collect())
    }
}

/// From right to left.
#[derive(Clone, Debug)]
pub struct RightToLeft;

impl Order for RightToLeft {
    fn ranks_by(&self) -> RankBy<'_> {
        RankBy::Known
    }

    fn score(&self, context: &StepContext<'_>) -> Result<Vec<f64>> {
        Ok(context.candidates().iter().map(|&position| position as f64).collect())
    }
}

/// By the probability of the token that would be committed.
#[derive(Clone, Debug)]
pub struct Confidence;

impl Order for Confidence {
    fn ranks_by(&self) -> RankBy<'_> {
        RankBy::BELIEFS
    }

    fn score(&self, context: &StepContext<'_>) -> Result<Vec<f64>> {
        Ok(context.beliefs().map(|belief| belief.probability).collect())
    }
}

/// By negative entropy: the most certain distribution first.
#[derive(Clone, Debug)]
pub struct Entropy;

impl Order for Entropy {
    fn ranks_by(&self) -> RankBy<'_> {
        RankBy::BELIEFS
    }

    fn score(&self, context: &StepContext<'_>) -> Result<Vec<f64>> {
        Ok(context.beliefs().map(|belief| -belief.entropy).collect())
    }
}

/// By the distance between the two largest probabilities.
#[derive(Clone, Debug)]
pub struct Margin;

impl Order for Margin {
    fn ranks_by(&self) -> RankBy<'_> {
        RankBy::BELIEFS
    }

    fn score(&self, context: &StepContext<'_>) -> Result<Vec<f64>> {
        Ok(context.beliefs().map(|belief| belief.first - belief.second).collect())
    }
}

/// DOS: by the attention that a position pays to what is already unmasked (Algorithm 1 of the paper).
///
/// It reads no belief. The scores of several sources are averaged, which the paper names as future work.
#[derive(Clone, Debug)]
pub struct Dependency {
    /// The heads and layers whose attention is used.
    pub sources: Vec<AttentionSource>,
}

impl Order for Dependency {
    fn ranks_by(&self) -> RankBy<'_> {
        RankBy::MeanAttention(&self.sources)
    }

    fn score(&self, context: &StepContext<'_>) -> Result<Vec<f64>> {
        let mean = |&position: &usize| context.mean_dependency(self.sources.len(), position);
        Ok(context.candidates().iter().map(mean).collect())
    }
}
