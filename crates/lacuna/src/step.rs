//! What a strategy may look at while it decides one step.

use std::ops::Range;

use crate::{
    Belief, Block, Cache, Canvas, Commit, Draw, Guide, Observation, Options, Order, Predictor, Result, Row, Target,
};

/// One step of one run: the canvas before it, what the forward pass showed, and the beliefs, which are read when asked for.
pub struct Step<'a> {
    /// The canvas as the model saw it.
    pub canvas: &'a Canvas,
    /// The block being decoded.
    pub block: &'a Block,
    /// What the forward pass showed.
    pub seen: &'a Observation,
    scene: &'a Scene,
    predictor: &'a mut dyn Predictor,
    view: usize,
    pub(crate) read: Beliefs,
}

/// The beliefs that were read, by place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beliefs {
    list: Vec<Belief>,
    /// For each position, where in the list its own belief is, and where that of its shadow; else beyond its end.
    slots: Vec<[usize; 2]>,
}

impl Beliefs {
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn insert(&mut self, place: Target, belief: Belief) {
        let position = place.position();
        if self.slots.len() <= position {
            self.slots.resize(position + 1, [usize::MAX; 2]);
        }
        self.slots[position][usize::from(is_shadow(place))] = self.list.len();
        self.list.push(belief);
    }

    fn get(&self, place: Target) -> Option<&Belief> {
        let slots = self.slots.get(place.position())?;
        self.list.get(slots[usize::from(is_shadow(place))])
    }
}

fn is_shadow(place: Target) -> bool {
    matches!(place, Target::Shadow(_))
}

/// Positions that a pass computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    All,
    Keep,
    Only { start: usize, end: usize },
}

/// What a strategy looks at, of the run it decodes.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) canvas: Canvas,
    pub(crate) block: Block,
    pub(crate) options: Options,
    /// What the last forward pass showed.
    pub(crate) seen: Observation,
    /// Steps taken.
    pub(crate) number: usize,
    /// Positions that a partial pass computes.
    pub(crate) computed: Vec<usize>,
    /// Whether beliefs are compared with those of the step before.
    pub(crate) compares: bool,
    /// Whether the model predicts a position from the row before it.
    pub(crate) shifted: bool,
}

impl Scene {
    /// How many canvases it shows the model in a step: with guidance also one without its prompt.
    pub(crate) fn width(&self) -> usize {
        if self.options.guidance > 0.0 { 2 } else { 1 }
    }

    /// Masked positions up to the end of the block.
    pub(crate) fn candidates(&self) -> Vec<usize> {
        let masked = self.canvas.masked_before(self.block.range.end);
        masked.filter(|&position| !self.opens_alone() || position == self.block.range.start).collect()
    }

    /// Masked positions of the block that follows this one of `blocks`, if its first step is compared with this block's last.
    pub(crate) fn compared_next(&self, blocks: &[Range<usize>]) -> Vec<usize> {
        let seen = self.compares && self.options.cache != Cache::Dual;
        let next = blocks.get(self.block.index + 1).filter(|_| seen).cloned();
        next.into_iter().flatten().filter(|&position| self.canvas.is_masked(position)).collect()
    }

    /// Which positions the forward pass computes.
    pub(crate) fn scope(&self) -> Scope {
        let Range { start, end } = self.block.range;
        match self.options.cache {
            Cache::None => Scope::All,
            Cache::Prefix | Cache::Dual if self.block.step == 0 => Scope::Keep,
            Cache::Prefix => Scope::Only { start, end: self.canvas.len() },
            Cache::Dual => Scope::Only { start, end },
        }
    }

    /// Whether the first position of the block is decided by itself: the row that predicts it lies before the block, and is not
    /// computed again.
    pub(crate) fn opens_alone(&self) -> bool {
        self.shifted && self.scope() == Scope::Keep
    }

    /// A step in which this is view number `view`; `read` is known already.
    pub(crate) fn look<'a>(&'a self, view: usize, read: Beliefs, predictor: &'a mut dyn Predictor) -> Step<'a> {
        Step { canvas: &self.canvas, block: &self.block, seen: &self.seen, scene: self, predictor, view, read }
    }

    /// What the predictor is asked for a place, if this is view number `view`.
    pub(crate) fn row(&self, view: usize, place: Target) -> Row<'_> {
        Row {
            view,
            target: place,
            sampling: &self.options.sampling,
            draw: self.draw(place.position()),
            scored_token: is_shadow(place).then(|| self.canvas.tokens()[place.position()]),
            guide: (self.width() > 1).then_some(Guide { view: view + 1, scale: self.options.guidance }),
            remember: self.compares && !is_shadow(place),
        }
    }

    fn draw(&self, position: usize) -> Draw {
        Draw::new(self.options.seed, self.number, position)
    }
}

impl Step<'_> {
    /// The beliefs at `positions`. Rows that were not read in this step yet are read together, each once.
    pub fn beliefs(&mut self, positions: &[usize]) -> Result<Vec<Belief>> {
        self.look(positions.iter().map(|&position| Target::Position(position)).collect())
    }

    /// The belief at one position.
    pub fn belief(&mut self, position: usize) -> Result<Belief> {
        Ok(self.beliefs(&[position])?.remove(0))
    }

    /// How probable each of these decided positions' tokens is to a model that sees everything but that token.
    pub fn support(&mut self, positions: &[usize]) -> Result<Vec<f64>> {
        let beliefs = self.look(positions.iter().map(|&position| Target::Shadow(position)).collect())?;
        Ok(beliefs.into_iter().map(|belief| belief.scored.expect("a shadow row has a scored token")).collect())
    }

    /// The random numbers of `position` at this step.
    pub fn draw(&self, position: usize) -> Draw {
        self.scene.draw(position)
    }

    /// Ranks `candidates` by `order`.
    ///
    /// A temperature draws the ranking instead: k positions taken from its top are k draws without replacement from the
    /// softmax of the scores (Dream's `alg_temp`). Positions that would commit a deferred token come last.
    pub(crate) fn rank(&mut self, order: &dyn Order, temperature: f64, candidates: Vec<usize>) -> Result<Ranking> {
        let mut scores = order.score(&candidates, self)?;
        if temperature > 0.0 {
            for (score, &position) in scores.iter_mut().zip(&candidates) {
                *score = *score / temperature + self.draw(position).order_noise();
            }
        }
        let deferred = &self.scene.options.sampling.deferred;
        if !deferred.is_empty() {
            for (score, belief) in scores.iter_mut().zip(self.beliefs(&candidates)?) {
                if deferred.contains(&belief.token) {
                    *score = f64::NEG_INFINITY;
                }
            }
        }
        Ok(Ranking::new(candidates, scores))
    }

    /// What committing the `chosen` positions means, ascending by position.
    pub(crate) fn commit(&mut self, chosen: &[usize], ranking: &Ranking) -> Result<Vec<Commit>> {
        let mut scores = vec![0.0; self.canvas.len()];
        ranking.positions().iter().zip(ranking.scores()).for_each(|(&position, &score)| scores[position] = score);
        let commit = |(&position, belief): (&usize, Belief)| Commit {
            position,
            token: belief.token,
            probability: belief.probability,
            entropy: belief.entropy,
            score: scores[position],
        };
        let mut committed: Vec<Commit> = chosen.iter().zip(self.beliefs(chosen)?).map(commit).collect();
        committed.sort_by_key(|commit| commit.position);
        Ok(committed)
    }

    fn look(&mut self, places: Vec<Target>) -> Result<Vec<Belief>> {
        let unread = places.iter().filter(|place| self.read.get(**place).is_none());
        let rows: Vec<Row<'_>> = unread.map(|&place| self.scene.row(self.view, place)).collect();
        if !rows.is_empty() {
            let beliefs = self.predictor.read(&rows)?;
            rows.iter().zip(beliefs).for_each(|(row, belief)| self.read.insert(row.target, belief));
        }
        Ok(places.iter().map(|&place| self.read.get(place).expect("it was read").clone()).collect())
    }
}

/// Masked positions with their scores, the best first.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranking {
    positions: Vec<usize>,
    scores: Vec<f64>,
}

impl Ranking {
    /// Ranks positions by score; of equals the lower position comes first.
    pub fn new(positions: Vec<usize>, scores: Vec<f64>) -> Self {
        let mut pairs: Vec<_> = positions.into_iter().zip(scores).collect();
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

    /// The first `count` positions, or all if there are fewer.
    pub fn first(&self, count: usize) -> Vec<usize> {
        self.positions[..count.min(self.positions.len())].to_vec()
    }
}
