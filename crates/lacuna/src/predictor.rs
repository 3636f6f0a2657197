//! The model, as decoding sees it.

use crate::{Belief, Draw, Result, Sampling, Token, TokenSet};

/// A model that can be asked in two phases: what does it make of these canvases, and what does it believe at these
/// positions?
///
/// [`observe`](Predictor::observe) is the forward pass. It returns only dependency scores; the hidden states stay inside.
/// [`read`](Predictor::read) then computes beliefs for the rows asked for and no others, so that a strategy that can choose
/// its positions before it knows any distribution, such as DOS, pays for the vocabulary projection of those it commits alone.
pub trait Predictor {
    /// Description of the model.
    fn description(&self) -> &Description;

    /// One forward pass over all `views`, which may differ in length. Returns one observation for each.
    fn observe(&mut self, views: &[View<'_>]) -> Result<Vec<Observation>>;

    /// The beliefs at `rows` of the views observed last, in the order of `rows`.
    ///
    /// A belief does not depend on what else is read or observed with it, bit for bit.
    fn read(&mut self, rows: &[Row<'_>]) -> Result<Vec<Belief>>;

    /// Drops what is remembered for a run ([`Row::remember`], [`Compute::AllAndCache`]).
    fn forget(&mut self, run: u64);

    /// Most positions of a canvas that one call of [`observe`](Self::observe) computes, as far as attention is block-causal and
    /// they are not read: a longer prompt is computed in pieces. Memory is bounded by it; it changes no result.
    fn piece(&self) -> usize {
        2048
    }

    /// Stores the keys and values of a run's leading `tokens`, whole blocks that will not change, for reuse by later runs.
    fn store_prefix(&mut self, _run: u64, _tokens: &[Token], _blocks: Borders) {}

    /// Gives a new run, which begins with `tokens`, stored keys and values. Returns the number of leading positions that have them.
    fn reuse_prefix(&mut self, _run: u64, _tokens: &[Token], _blocks: Borders) -> usize {
        0
    }
}

/// A predictor around another one. What it does not define is left to the inner one.
pub trait Wrapper {
    /// The inner predictor.
    fn inner(&self) -> &dyn Predictor;

    /// The inner predictor, to be used.
    fn inner_mut(&mut self) -> &mut dyn Predictor;

    /// As [`Predictor::observe`].
    fn observe(&mut self, views: &[View<'_>]) -> Result<Vec<Observation>> {
        self.inner_mut().observe(views)
    }

    /// As [`Predictor::read`].
    fn read(&mut self, rows: &[Row<'_>]) -> Result<Vec<Belief>> {
        self.inner_mut().read(rows)
    }
}

impl<W: Wrapper> Predictor for W {
    fn description(&self) -> &Description {
        self.inner().description()
    }

    fn observe(&mut self, views: &[View<'_>]) -> Result<Vec<Observation>> {
        Wrapper::observe(self, views)
    }

    fn read(&mut self, rows: &[Row<'_>]) -> Result<Vec<Belief>> {
        Wrapper::read(self, rows)
    }

    fn forget(&mut self, run: u64) {
        self.inner_mut().forget(run);
    }

    fn piece(&self) -> usize {
        self.inner().piece()
    }

    fn store_prefix(&mut self, run: u64, tokens: &[Token], blocks: Borders) {
        self.inner_mut().store_prefix(run, tokens, blocks);
    }

    fn reuse_prefix(&mut self, run: u64, tokens: &[Token], blocks: Borders) -> usize {
        self.inner_mut().reuse_prefix(run, tokens, blocks)
    }
}

/// Properties of a model that decoding depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Vocabulary size.
    pub vocabulary: usize,
    /// Id of the mask token.
    pub mask: Token,
    /// Number of layers whose attention can be observed; 0 if the model exposes none.
    pub layers: usize,
    /// Attention heads per layer.
    pub heads: usize,
    /// Context length: the most positions a canvas may have.
    pub context: usize,
    /// True if [`View::shadows`] are supported.
    pub shadows: bool,
    /// True if position i is predicted from output row i − 1, as in Dream.
    pub shifted: bool,
    /// True if keys and values can be cached across forward passes ([`View::compute`]).
    pub caches: bool,
    /// True if [`Row::credit`] is supported.
    pub credits: bool,
    /// True if whole attention matrices can be observed ([`View::matrix`]).
    pub matrices: bool,
    /// True if attention can be followed through all layers ([`View::rollout`]).
    pub rollouts: bool,
    /// True if [`Compute::Refresh`] is supported.
    pub refreshes: bool,
    /// True if [`Row::alternatives`] are supported.
    pub alternatives: bool,
    /// Attention mask kind.
    pub visibility: Visibility,
}

/// Attention mask kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// To all.
    Full,
    /// Block-causal: to those of the own block and of earlier ones. Blocks usually have this length, counted from position 0.
    Blocks(usize),
    /// To all, or block-causal where a view has blocks.
    Either,
}

impl Visibility {
    /// The blocks of a view that names none.
    pub fn default_blocks(self) -> Option<Borders> {
        match self {
            Self::Blocks(length) => Some(Borders::from_zero(length)),
            Self::Full | Self::Either => None,
        }
    }
}

/// The borders of the blocks of block-causal attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Borders {
    /// Length of the first block.
    first: usize,
    /// Length of the others.
    length: usize,
}

impl Borders {
    /// Blocks of `length`, 1 or more, from position 0 on.
    pub fn from_zero(length: usize) -> Self {
        Self { first: length, length }
    }

    /// Blocks of `length`, 1 or more, with a border at `position`; the first is shorter if they do not divide.
    pub fn at(position: usize, length: usize) -> Self {
        let first = position % length;
        Self { first: if first == 0 { length } else { first }, length }
    }

    /// Length of all blocks but perhaps the first.
    pub fn length(self) -> usize {
        self.length
    }

    /// The first position of the block that `position` is in.
    pub fn start(self, position: usize) -> usize {
        match position.checked_sub(self.first) {
            None => 0,
            Some(behind) => self.first + behind / self.length * self.length,
        }
    }

    /// The position behind the block that `position` is in.
    pub fn end(self, position: usize) -> usize {
        match self.start(position) {
            0 => self.first,
            start => start + self.length,
        }
    }
}

impl Description {
    /// Output row that predicts a position.
    pub fn row_of(&self, position: usize) -> usize {
        if self.shifted { position.saturating_sub(1) } else { position }
    }
}

/// One canvas in one forward pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct View<'a> {
    /// Id of the run. State that outlives the pass (cached keys and values, previous logits) is stored under it. No two views that
    /// cache have the same.
    pub run: u64,
    /// Token ids, with the mask token at undecided positions.
    pub tokens: &'a [Token],
    /// Attention whose dependency scores are wanted.
    pub attention: &'a [AttentionSource],
    /// Layers whose whole attention matrix is wanted, averaged. Every position is computed then.
    pub matrix: &'a [usize],
    /// True if the attention rollout is wanted ([`Observation::rollout`]).
    pub rollout: bool,
    /// Positions that get a shadow: an extra mask token with the same position id. A shadow attends to every token except
    /// the one it shadows, and to the other shadows; no token attends to a shadow, so the other rows are unchanged (WINO).
    pub shadows: &'a [usize],
    /// Blocks of block-causal attention; none: as the model has it ([`Description::visibility`]).
    pub blocks: Option<Borders>,
    /// Positions that this pass computes.
    pub compute: Compute<'a>,
    /// Rows that will be read.
    pub plan: ReadPlan<'a>,
}

/// The positions that a forward pass computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compute<'a> {
    /// All positions; nothing is cached.
    #[default]
    All,
    /// All positions; their keys and values are cached for the run.
    AllAndCache,
    /// Only these positions, ascending. Their keys and values replace the cached ones; they attend to the cached keys and
    /// values of every other position that they see, however stale. Only computed rows can be read. If attention is block-causal,
    /// this is also how positions that were never computed are added to the cache.
    Only(&'a [usize]),
    /// All positions. Every layer but the first computes some of them; the others are given what attention and the feed-forward
    /// network gave them when they were last computed in that layer. All rows can be read.
    Refresh(Refresh),
}

/// The positions that the layers of a pass compute anew (dLLM-Cache). A run's first pass computes everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refresh {
    /// Length of the prompt.
    pub prompt: usize,
    /// True if the prompt is computed anew.
    pub anew: bool,
    /// Number of positions behind it that are computed anew, if any: those whose new value vectors are least like the old ones, by
    /// the cosine. All value vectors behind the prompt are replaced then.
    pub changed: Option<usize>,
}

/// The rows that a step will read of a view, as far as they are known before the forward pass.
///
/// A plan never changes a result. A predictor on another device uses it to compute and fetch these beliefs together with the
/// forward pass, so that the host synchronises once per step; a predictor on the CPU may ignore it.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadPlan<'a> {
    /// Rows that are read whatever the forward pass shows.
    pub certain: &'a [Row<'a>],
    /// Candidate rows. A prefix of their ranking is read.
    pub ranked: &'a [Row<'a>],
    /// Rows of the ranking that are read first.
    pub expected: usize,
    /// Upper bound on the rows of the ranking that are read.
    pub most: usize,
    /// Rule that ends reading down the ranking, checked after `expected` rows and at every doubling.
    pub stop: Option<StopRule>,
    /// Ranking of `ranked`; `None` if it is in ranking order already.
    pub rank: Option<RankByAttention>,
}

/// Ranks positions by the mean dependency score of the view's first attention sources, highest first, ties to the lower
/// position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankByAttention {
    /// Number of the view's sources that are averaged.
    pub sources: usize,
    /// If above 0, scores are divided by it and [`Draw::order_noise`] is added.
    pub temperature: f64,
}

/// Rule that ends reading down a ranking. The first position is always accepted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StopRule {
    /// Before the sum of a measure over the accepted positions exceeds `bound`.
    Sum {
        /// Summed quantity.
        measure: Measure,
        /// True if the largest term is left out of the sum.
        spare_largest: bool,
        /// The bound in nats.
        bound: f64,
    },
    /// Before the first position whose score in the order is below this.
    Score(f64),
}

/// A non-negative quantity of a belief, in nats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Entropy of the distribution.
    Entropy,
    /// −ln p of the token to commit.
    Surprisal,
}

impl Measure {
    /// Its value for a belief.
    pub fn of(self, belief: &Belief) -> f64 {
        match self {
            Self::Entropy => belief.entropy,
            Self::Surprisal => -belief.probability.ln(),
        }
    }
}

/// Attention heads of one layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttentionSource {
    /// The transformer block, from 0.
    pub layer: usize,
    /// The heads to average; all of them if empty.
    pub heads: Vec<usize>,
}

/// Result of a forward pass before any belief is read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// For each source of the view, the dependency score of each position: the attention that it pays to all unmasked
    /// positions, averaged over the source's heads (Algorithm 1 of the DOS paper). Zero where the position is not masked.
    pub dependency: Vec<Vec<f32>>,
    /// The attention that each position (row) pays to each position (column), row by row, averaged over all heads of the layers
    /// asked for ([`View::matrix`]); empty if there are none.
    pub matrix: Vec<f32>,
    /// The attention that flows to each position, if that was asked for ([`View::rollout`]): column sums of the product of all layers'
    /// attention, averaged over heads, mixed with the identity in equal parts. Positions that were not computed attend to themselves.
    pub rollout: Vec<f32>,
}

/// A row of the model's output that is to be read.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Index of the view, among those observed last.
    pub view: usize,
    /// Position in it.
    pub target: Target,
    /// Sampling rule that turns logits into a belief.
    pub sampling: &'a Sampling,
    /// Tokens that may be chosen; the others have no probability.
    pub allowed: &'a TokenSet,
    /// The random numbers for this row.
    pub draw: Draw,
    /// A token whose probability is wanted too.
    pub scored_token: Option<Token>,
    /// A second view to guide this one.
    pub guide: Option<Guide>,
    /// Credit that is added to the logits.
    pub credit: Option<Credit<'a>>,
    /// True if this distribution is stored under (run, position) and its divergence from the one stored before is reported.
    pub remember: bool,
    /// Number of most probable tokens that are wanted ([`Belief::alternatives`]).
    pub alternatives: usize,
}

impl<'a> Row<'a> {
    /// A plain row: no scored token, no guide, no credit, nothing remembered, no alternatives.
    pub fn new(view: usize, target: Target, sampling: &'a Sampling, allowed: &'a TokenSet, draw: Draw) -> Self {
        Self {
            view,
            target,
            sampling,
            allowed,
            draw,
            scored_token: None,
            guide: None,
            credit: None,
            remember: false,
            alternatives: 0,
        }
    }
}

/// Credit that tokens have gathered at a position. The row's most probable token gathers `p^power` more, and
/// `weight · ln(1 + credit)` is added to the logit of every token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Credit<'a> {
    /// Tokens with credit.
    pub gathered: &'a [(Token, f64)],
    /// Factor of its logarithm.
    pub weight: f64,
    /// Exponent of the probability that is gathered.
    pub power: f64,
}

/// A position that is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The position itself. A predictor whose model is shifted, such as Dream, finds the right row.
    Position(usize),
    /// The shadow of a position.
    Shadow(usize),
}

impl Target {
    /// The position, in both cases.
    pub fn position(self) -> usize {
        match self {
            Target::Position(position) | Target::Shadow(position) => position,
        }
    }
}

/// Classifier-free guidance: `logits = unguided + (scale + 1) · (logits − unguided)`, as in LLaDA.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guide {
    /// The view whose logits are pushed away from.
    pub view: usize,
    /// Guidance scale; 0 is none.
    pub scale: f32,
}

impl Guide {
    /// Mixes the logits of a row with those of the unguided view.
    pub fn mix(self, logits: &mut [f32], unguided: &[f32]) {
        for (logit, unguided) in logits.iter_mut().zip(unguided) {
            *logit = unguided + (self.scale + 1.0) * (*logit - unguided);
        }
    }
}
