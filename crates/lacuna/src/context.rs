//! A step as orders, paces and revisions see it, its ranking and its beliefs; and the mutable state of a run.

use std::collections::BTreeMap;

use crate::allowed::Allowed;
use crate::{
    Belief, Block, Canvas, Credit, CreditRule, Draw, Guide, Observation, Options, Row, StopRule, Target, Token,
};

/// Mutable state of a run.
#[derive(Debug)]
pub(crate) struct RunState {
    pub(crate) canvas: Canvas,
    pub(crate) block: Block,
    pub(crate) options: Options,
    /// Tokens that may stand at each position.
    pub(crate) allowed: Allowed,
    /// Observation of the last forward pass.
    pub(crate) seen: Observation,
    /// Dependency scores of the first forward pass.
    pub(crate) first_dependency: Vec<Vec<f32>>,
    /// Steps taken.
    pub(crate) number: usize,
    /// True if beliefs are compared with those of the step before.
    pub(crate) compares: bool,
    /// Credit that tokens gather, if the pace gives any.
    pub(crate) credits: Option<Credits>,
}

/// Credit that tokens have gathered in a block, by position.
#[derive(Debug)]
pub(crate) struct Credits {
    rule: CreditRule,
    gathered: BTreeMap<usize, Vec<(Token, f64)>>,
}

impl Credits {
    pub(crate) fn new(rule: CreditRule) -> Self {
        Self { rule, gathered: BTreeMap::new() }
    }

    /// A block begins.
    pub(crate) fn clear(&mut self) {
        self.gathered.clear();
    }

    fn at(&self, position: usize) -> Credit<'_> {
        let gathered = self.gathered.get(&position).map_or(&[][..], Vec::as_slice);
        Credit { gathered, weight: self.rule.weight, power: self.rule.power }
    }

    /// Adds what the tokens of a step have gathered, and lets all credit fade.
    pub(crate) fn gather(&mut self, votes: impl Iterator<Item = (usize, (Token, f64))>) {
        for (position, (token, probability)) in votes {
            let credits = self.gathered.entry(position).or_default();
            let gained = probability.powf(self.rule.power);
            match credits.iter_mut().find(|(other, _)| *other == token) {
                Some((_, credit)) => *credit += gained,
                None => credits.push((token, gained)),
            }
        }
        let credits = self.gathered.values_mut().flatten();
        credits.for_each(|(_, credit)| *credit *= self.rule.decay);
    }
}

impl RunState {
    /// Canvases per forward pass: with guidance also the one without its prompt.
    pub(crate) fn width(&self) -> usize {
        if self.options.guidance > 0.0 { 2 } else { 1 }
    }

    /// The row that predicts `target`, if the run is view number `view`.
    pub(crate) fn row(&self, view: usize, target: Target) -> Row<'_> {
        let shadow = matches!(target, Target::Shadow(_));
        let token = self.canvas.tokens()[target.position()];
        Row {
            view,
            target,
            sampling: &self.options.sampling,
            allowed: self.allowed.at(target.position()),
            draw: self.draw(target.position()),
            scored_token: (token != self.canvas.mask()).then_some(token),
            guide: (self.width() > 1).then_some(Guide { view: view + 1, scale: self.options.guidance }),
            credit: self
                .credits
                .as_ref()
                .filter(|_| token == self.canvas.mask() && !shadow)
                .map(|c| c.at(target.position())),
            remember: self.compares && !shadow,
            alternatives: 0,
        }
    }

    fn draw(&self, position: usize) -> Draw {
        Draw::new(self.options.seed, self.number, position)
    }
}

/// Beliefs that were read in a step, by target.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beliefs {
    list: Vec<Belief>,
    /// For each position the index of its own belief and of its shadow's; beyond the list if it was not read.
    slots: Vec<[usize; 2]>,
}

impl Beliefs {
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn insert(&mut self, target: Target, belief: Belief) {
        let position = target.position();
        if self.slots.len() <= position {
            self.slots.resize(position + 1, [usize::MAX; 2]);
        }
        self.slots[position][is_shadow(target)] = self.list.len();
        self.list.push(belief);
    }

    pub(crate) fn get(&self, target: Target) -> Option<&Belief> {
        self.list.get(self.slots.get(target.position())?[is_shadow(target)])
    }
}

fn is_shadow(target: Target) -> usize {
    usize::from(matches!(target, Target::Shadow(_)))
}

/// One step of one run, as orders and revisions see it: the canvas before the step, the candidates, the dependency scores and
/// the beliefs that the part has declared.
#[derive(Clone, Copy)]
pub struct StepContext<'a> {
    pub(crate) state: &'a RunState,
    pub(crate) candidates: &'a [usize],
    pub(crate) beliefs: &'a Beliefs,
    pub(crate) probed: &'a Beliefs,
}

impl<'a> StepContext<'a> {
    /// The canvas before the step.
    pub fn canvas(&self) -> &'a Canvas {
        &self.state.canvas
    }

    /// The block being decoded.
    pub fn block(&self) -> &'a Block {
        &self.state.block
    }

    /// Number of steps taken before this one.
    pub fn step(&self) -> usize {
        self.state.number
    }

    /// The masked positions that may be filled, ascending.
    pub fn candidates(&self) -> &'a [usize] {
        self.candidates
    }

    /// Dependency scores of each attention source, by position; first those of the order, then those that are watched.
    pub fn dependency(&self) -> &'a [Vec<f32>] {
        &self.state.seen.dependency
    }

    /// Mean dependency score of a position over the first `sources` sources.
    pub fn mean_dependency(&self, sources: usize, position: usize) -> f64 {
        mean(&self.dependency()[..sources], position)
    }

    /// Mean dependency score of a position in the first step of the run; 0 if the canvas did not reach that far then.
    pub fn first_dependency(&self, sources: usize, position: usize) -> f64 {
        mean(&self.state.first_dependency[..sources], position)
    }

    /// The attention that one position pays to another, averaged over the layers that the pace asked for
    /// ([`Pace::matrix`](crate::Pace::matrix)).
    ///
    /// # Panics
    /// If it asked for none.
    pub fn attention(&self, from: usize, to: usize) -> f32 {
        self.state.seen.matrix[from * self.state.canvas.len() + to]
    }

    /// The attention that flows to each position, if the cache asked for it ([`Cache::rollout`](crate::Cache::rollout)).
    pub fn rollout(&self) -> &'a [f32] {
        &self.state.seen.rollout
    }

    /// The belief at a position.
    ///
    /// # Panics
    /// If the part did not declare that it uses this belief.
    pub fn belief(&self, position: usize) -> &'a Belief {
        self.try_belief(position).expect("the part declares the beliefs that it uses")
    }

    /// The belief at a position, if it was read.
    pub fn try_belief(&self, position: usize) -> Option<&'a Belief> {
        self.beliefs.get(Target::Position(position))
    }

    /// The beliefs at all candidates.
    ///
    /// # Panics
    /// If the order did not declare that it uses them.
    pub fn beliefs(&self) -> impl Iterator<Item = &'a Belief> {
        let context = *self;
        self.candidates.iter().map(move |&position| context.belief(position))
    }

    /// Probability of a decided position's own token.
    ///
    /// # Panics
    /// If the part did not declare that row, or the position is masked.
    pub fn own_probability(&self, position: usize) -> f64 {
        self.belief(position).scored.expect("the position is decided")
    }

    /// The belief at a position in the second pass that the revision asked for ([`Revision::probe`]), if it was probed.
    ///
    /// [`Revision::probe`]: crate::Revision::probe
    pub fn probed(&self, position: usize) -> Option<&'a Belief> {
        self.probed.get(Target::Position(position))
    }

    /// The gaps of the block, ascending.
    pub fn block_gaps(&self) -> impl Iterator<Item = usize> + 'a {
        self.state.canvas.gaps_in(self.state.block.range.clone())
    }

    /// Probability of a decided position's token to a model that sees everything but that token.
    ///
    /// # Panics
    /// If the revision did not declare that shadow row.
    pub fn support(&self, position: usize) -> f64 {
        let belief = self.beliefs.get(Target::Shadow(position)).expect("the revision declares its shadow rows");
        belief.scored.expect("a shadow row has a scored token")
    }

    /// The random draws of a position in this step.
    pub fn draw(&self, position: usize) -> Draw {
        self.state.draw(position)
    }

    /// Ranks the candidates by scores.
    ///
    /// A temperature draws the ranking instead: the first k positions are k draws without replacement from the softmax of the
    /// scores (Dream's `alg_temp`). Positions that would commit a deferred token come last.
    pub(crate) fn rank(&self, mut scores: Vec<f64>, temperature: f64) -> Ranking {
        if temperature > 0.0 {
            for (score, &position) in scores.iter_mut().zip(self.candidates) {
                *score = *score / temperature + self.draw(position).order_noise();
            }
        }
        let deferred = &self.state.options.sampling.deferred;
        if !deferred.is_empty() {
            for (score, belief) in scores.iter_mut().zip(self.beliefs()) {
                if deferred.contains(&belief.token) {
                    *score = f64::NEG_INFINITY;
                }
            }
        }
        Ranking::new(self.candidates, &scores)
    }
}

fn mean(sources: &[Vec<f32>], position: usize) -> f64 {
    let scores = sources.iter().map(|scores| scores.get(position).copied().map_or(0.0, f64::from));
    scores.sum::<f64>() / sources.len() as f64
}

/// Masked positions with their scores, the best first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranking {
    positions: Vec<usize>,
    scores: Vec<f64>,
}

impl Ranking {
    /// Ranks positions by score; of equals the lower position comes first.
    pub fn new(positions: &[usize], scores: &[f64]) -> Self {
        let mut pairs: Vec<_> = positions.iter().copied().zip(scores.iter().copied()).collect();
        pairs.sort_by(|(p, a), (q, b)| b.total_cmp(a).then(p.cmp(q)));
        let (positions, scores) = pairs.into_iter().unzip();
        Self { positions, scores }
    }

    /// The positions, best first.
    pub fn positions(&self) -> &[usize] {
        &self.positions
    }

    /// Their scores, highest first.
    pub fn scores(&self) -> &[f64] {
        &self.scores
    }
}

/// A ranking with the beliefs that the pace has declared, as the pace sees it.
pub struct Ranked<'a> {
    pub(crate) context: StepContext<'a>,
    pub(crate) ranking: &'a Ranking,
    /// Beliefs of the first positions of the ranking.
    pub(crate) beliefs: Vec<Belief>,
}

impl<'a> Ranked<'a> {
    /// The canvas, block and step.
    pub fn context(&self) -> &StepContext<'a> {
        &self.context
    }

    /// The block being decoded.
    pub fn block(&self) -> &'a Block {
        self.context.block()
    }

    /// The positions, best first.
    pub fn positions(&self) -> &'a [usize] {
        &self.ranking.positions
    }

    /// Their scores, highest first.
    pub fn scores(&self) -> &'a [f64] {
        &self.ranking.scores
    }

    /// The beliefs of the first positions, as many as the pace reads.
    pub fn beliefs(&self) -> &[Belief] {
        &self.beliefs
    }

    /// The first `count` positions, or all if there are fewer.
    pub fn first(&self, count: usize) -> Vec<usize> {
        self.positions()[..count.min(self.positions().len())].to_vec()
    }

    /// The positions whose rank passes.
    pub fn filter(&self, passes: impl Fn(usize) -> bool) -> Vec<usize> {
        let ranks = (0..self.positions().len()).filter(|&rank| passes(rank));
        ranks.map(|rank| self.positions()[rank]).collect()
    }
}

impl StopRule {
    /// Rows that are read before the rule is checked for the first time.
    pub(crate) fn at_first(&self) -> usize {
        match self {
            Self::Sum { .. } => 4,
            Self::Score(_) => 1,
        }
    }

    /// Length of the longest prefix of a ranking for which the rule holds, at least 1, as far as beliefs are known.
    pub fn prefix(&self, scores: &[f64], beliefs: &[Belief]) -> usize {
        match *self {
            Self::Score(least) => scores.iter().take_while(|score| **score >= least).count().max(1),
            Self::Sum { measure, spare_largest, bound } => {
                let (mut sum, mut largest) = (0.0, 0.0f64);
                let breaks = |belief: &Belief| {
                    let term = measure.of(belief);
                    sum += term;
                    largest = largest.max(term);
                    sum - if spare_largest { largest } else { 0.0 } > bound
                };
                let broken = beliefs.iter().map(breaks).enumerate().skip(1).find(|(_, broken)| *broken);
                broken.map_or(beliefs.len(), |(count, _)| count)
            }
        }
    }
}
