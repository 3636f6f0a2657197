//! One canvas on its way from masks to text.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::step::{Beliefs, Scene, Scope};
use crate::{
    AttentionSource, Block, Canvas, Compute, Delta, Description, Error, Observation, Predictor, RankByAttention,
    ReadPlan, Result, Row, Sampling, Strategy, Target, Token, Trace, View,
};

/// What a run can be told beside its strategy.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How tokens are chosen. The mask token is suppressed in any case.
    pub sampling: Sampling,
    /// Tokens that end the text. When one of them is decided and so is everything before it, the run stops: what is still
    /// masked behind it could not change the text. Empty: never.
    pub stop: Vec<Token>,
    /// Classifier-free guidance: 0 is none. It costs a second forward for each step, of the canvas without its prompt.
    pub guidance: f32,
    /// What is kept from one forward pass of a block for its others.
    pub cache: Cache,
    /// Attention that decoding does not need but somebody wants to look at ([`Run::seen`]).
    pub watch: Vec<AttentionSource>,
    /// Where random draws start from.
    pub seed: u64,
}

/// Which keys and values the steps of a block take from its first one instead of computing them again (Fast-dLLM). That is
/// faster and not exact: what is taken knows nothing of the tokens decided since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    /// None: every step computes everything.
    #[default]
    None,
    /// Those of everything before the block.
    Prefix,
    /// Those of everything before and behind the block.
    Dual,
}

/// A canvas, the strategy that decodes it, and everything that has happened so far.
///
/// A run is stepped from outside, alone ([`Run::step`]) or together with others ([`step`]).
#[derive(Debug)]
pub struct Run {
    id: u64,
    strategy: Strategy,
    scene: Scene,
    blocks: Vec<Range<usize>>,
    attention: Vec<AttentionSource>,
    trace: Trace,
    forwards: usize,
    rows_read: usize,
    finished: bool,
    unguided: Vec<Token>,
    shadows: Vec<usize>,
}

static NEXT_RUN: AtomicU64 = AtomicU64::new(0);

impl Run {
    /// A run that decodes `blocks` of the canvas, one after the other; [`split`] makes them. Everything that `model` cannot
    /// do for this strategy is refused here.
    pub fn new(
        canvas: Canvas,
        blocks: Vec<Range<usize>>,
        strategy: Strategy,
        mut options: Options,
        model: &Description,
    ) -> Result<Self> {
        check(&canvas, &strategy, &options, model)?;
        options.sampling.suppressed.push(canvas.mask());
        let blocks: Vec<_> = blocks.into_iter().filter(|range| range.clone().any(|p| canvas.is_gap(p))).collect();
        let covered = blocks.last().map_or(0, |range| range.end);
        assert!(covered >= canvas.span().end, "the blocks reach the last gap");
        let mut run = Self {
            id: NEXT_RUN.fetch_add(1, Ordering::Relaxed),
            attention: [strategy.order.attention(), &options.watch].concat(),
            trace: Trace { start: canvas.clone(), deltas: Vec::new() },
            scene: Scene {
                block: Block { index: 0, range: blocks[0].clone(), step: 0 },
                compares: strategy.pace.compares(),
                canvas,
                options,
                seen: Observation::default(),
                number: 0,
                computed: Vec::new(),
                shifted: model.shifted,
            },
            strategy,
            blocks,
            forwards: 0,
            rows_read: 0,
            finished: false,
            unguided: Vec::new(),
            shadows: Vec::new(),
        };
        run.enter(0)?;
        Ok(run)
    }

    /// The canvas as it stands.
    pub fn canvas(&self) -> &Canvas {
        &self.scene.canvas
    }

    /// What has happened so far.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// What the last forward pass showed: the attention that the order needs, then what is watched beside it.
    pub fn seen(&self) -> &Observation {
        &self.scene.seen
    }

    /// How many forward passes of the model it has taken (NFE).
    pub fn forwards(&self) -> usize {
        self.forwards
    }

    /// How many rows of the model's output were read.
    pub fn rows_read(&self) -> usize {
        self.rows_read
    }

    /// Whether there is nothing left to do.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Takes one step alone and returns what it changed.
    pub fn step(&mut self, predictor: &mut dyn Predictor) -> Result<&Delta> {
        step(&mut [&mut *self], predictor)?;
        Ok(self.trace.deltas.last().expect("a step was taken"))
    }

    /// Gives the run up before it is finished: what the model remembers of it is dropped.
    pub fn abandon(self, predictor: &mut dyn Predictor) {
        predictor.forget(self.id);
    }

    /// Begins the block with this index.
    fn enter(&mut self, index: usize) -> Result<()> {
        self.scene.block = Block { index, range: self.blocks[index].clone(), step: 0 };
        self.strategy
            .pace
            .enter(self.scene.canvas.masked_before(self.scene.block.range.end).count(), self.blocks.len())?;
        if let Some(revision) = &mut self.strategy.revision {
            revision.enter();
            if revision.shadows() {
                self.shadows =
                    self.scene.block.range.clone().filter(|&position| self.scene.canvas.is_gap(position)).collect();
            }
        }
        Ok(())
    }

    /// Makes the canvas without its prompt, if there is guidance.
    fn hide_prompt(&mut self) {
        self.scene.computed = match self.scene.scope() {
            Scope::Only { start, end } => (start..end).collect(),
            _ => Vec::new(),
        };
        if self.scene.width() > 1 {
            self.unguided = self.scene.canvas.without_prompt();
        }
    }

    /// The canvases to show the model: this one, and with guidance the same without its prompt.
    fn views<'a>(&'a self, plan: ReadPlan<'a>) -> impl Iterator<Item = View<'a>> {
        let (run, shadows) = (self.id, self.shadows.as_slice());
        let attention = self.attention.as_slice();
        let compute = match self.scene.scope() {
            Scope::All => Compute::All,
            Scope::Keep => Compute::AllAndCache,
            Scope::Only { .. } => Compute::Only(&self.scene.computed),
        };
        let guided = View { run, tokens: self.scene.canvas.tokens(), attention, shadows, compute, plan };
        let unguided = View { tokens: &self.unguided, attention: &[], plan: ReadPlan::default(), ..guided };
        [guided, unguided].into_iter().take(self.scene.width())
    }

    /// The positions that the coming step may read, those in front first: so many of them in any case, and no more than so many.
    /// Before the forward pass, what an order that goes by attention puts first is not known yet.
    fn foresee(&self, view: usize, observed: bool, predictor: &mut dyn Predictor) -> Result<Foreseen> {
        let Strategy { order, pace, revision, order_temperature, .. } = &self.strategy;
        let candidates = self.scene.candidates();
        let count = candidates.len();
        let all = order.reads()
            || !self.scene.options.sampling.deferred.is_empty()
            || revision.as_ref().is_some_and(|revision| revision.reads_masked());
        let depth = if all { count..=count } else { pace.reads(&self.scene.block, count) };
        let (least, most) = (count.min(*depth.start()), count.min(*depth.end()));
        if least == count || !(observed || order.attention().is_empty()) {
            return Ok((candidates, least, most));
        }
        let mut step = self.scene.look(view, Beliefs::default(), predictor);
        Ok((step.rank(order.as_ref(), *order_temperature, candidates)?.positions().to_vec(), least, most))
    }

    /// What the coming step reads, in which this run is view number `view`.
    fn outlook(&self, view: usize, predictor: &mut dyn Predictor) -> Result<Outlook<'_>> {
        let Strategy { order, pace, revision, order_temperature, .. } = &self.strategy;
        let (mut ranked, least, most) = self.foresee(view, false, predictor)?;
        let by_attention = least < ranked.len() && !order.attention().is_empty();
        let known = if least < ranked.len() { 0 } else { least };
        let mut sure: Vec<Target> = ranked.drain(..known).map(Target::Position).collect();
        sure.extend(revision.iter().flat_map(|revision| revision.reads(&self.scene.canvas, &self.scene.block)));
        sure.extend(self.scene.compared_next(&self.blocks).into_iter().map(Target::Position));
        let row = |place| self.scene.row(view, place);
        Ok(Outlook {
            sure: sure.into_iter().map(row).collect(),
            ranked: ranked.into_iter().map(Target::Position).map(row).collect(),
            rest: ReadPlan {
                expected: least - known,
                most: most - known,
                stop: pace.stop(),
                rank: by_attention
                    .then(|| RankByAttention { sources: order.attention().len(), temperature: *order_temperature }),
                ..ReadPlan::default()
            },
        })
    }

    /// One step; `read` is what was foreseen.
    fn advance(&mut self, view: usize, read: Beliefs, predictor: &mut dyn Predictor) -> Result<()> {
        let Self { strategy: Strategy { order, pace, revision, order_temperature, .. }, scene, blocks, .. } = self;
        let mut step = scene.look(view, read, &mut *predictor);

        let ranking = step.rank(order.as_ref(), *order_temperature, scene.candidates())?;
        let chosen = if scene.opens_alone() { ranking.first(1) } else { pace.choose(&ranking, &mut step)? };
        let committed = step.commit(&chosen, &ranking)?;
        let filled = chosen.len() == scene.canvas.masked_before(scene.block.range.end).count();
        let reopened = match revision {
            Some(revision) => revision.reopen(&chosen, filled, &mut step)?,
            None => Vec::new(),
        };
        // As in Fast-dLLM's code, what was kept is used at least once.
        let lingers = scene.scope() == Scope::Keep;
        let done = filled && reopened.is_empty() && !lingers;
        if done {
            step.beliefs(&scene.compared_next(blocks))?;
        }

        self.rows_read += step.read.len() * scene.width();
        self.forwards += scene.width();
        let delta = Delta { block: scene.block.index, committed, reopened };
        delta.apply(&mut scene.canvas);
        scene.number += 1;
        scene.block.step += 1;
        self.trace.deltas.push(delta);
        if done && self.scene.block.index + 1 < self.blocks.len() {
            self.enter(self.scene.block.index + 1)?;
        }
        self.finished = (self.is_complete() && !lingers) || self.text_is_decided();
        if self.finished {
            predictor.forget(self.id);
        }
        Ok(())
    }

    /// How many positions from the start are decided for good: none of them is masked or might be reopened.
    pub fn settled(&self) -> usize {
        let safe = match &self.strategy.revision {
            Some(revision) if !self.is_complete() => revision.settled(&self.scene.block),
            _ => self.scene.canvas.len(),
        };
        self.scene.canvas.masked().next().map_or(safe, |masked| masked.min(safe))
    }

    fn is_complete(&self) -> bool {
        self.scene.canvas.masked().next().is_none()
    }

    /// Whether a stop token stands in a gap and everything before it is decided for good.
    fn text_is_decided(&self) -> bool {
        let settled = 0..self.settled();
        let written = settled.filter(|&position| self.scene.canvas.is_gap(position));
        written
            .map(|position| self.scene.canvas.tokens()[position])
            .any(|token| self.scene.options.stop.contains(&token))
    }
}

/// Splits positions into blocks of `length`, the last one shorter if they do not divide.
pub fn split(positions: Range<usize>, length: usize) -> Vec<Range<usize>> {
    let end = positions.end;
    positions.step_by(length.max(1)).map(|start| start..start.saturating_add(length).min(end)).collect()
}

/// Takes one step with each of `runs`, which share a single forward pass, and one vocabulary projection for all that they are
/// sure to read.
pub fn step(runs: &mut [&mut Run], predictor: &mut dyn Predictor) -> Result<()> {
    let mut first_views = Vec::with_capacity(runs.len());
    let mut count = 0;
    for run in runs.iter_mut() {
        run.hide_prompt();
        first_views.push(count);
        count += run.scene.width();
    }

    let mut seen = observe(runs, &first_views, predictor)?;
    for (run, &view) in runs.iter_mut().zip(&first_views) {
        run.scene.seen = std::mem::take(&mut seen[view]);
    }

    let mut rows = Vec::new();
    for (run, &view) in runs.iter().zip(&first_views) {
        let (positions, least, _) = run.foresee(view, true, predictor)?;
        rows.extend(positions[..least].iter().map(|&position| run.scene.row(view, Target::Position(position))));
    }
    let beliefs = if rows.is_empty() { Vec::new() } else { predictor.read(&rows)? };
    let mut read = vec![Beliefs::default(); count];
    for (row, belief) in rows.iter().zip(beliefs) {
        read[row.view].insert(row.target, belief);
    }

    for (run, &view) in runs.iter_mut().zip(&first_views) {
        run.advance(view, std::mem::take(&mut read[view]), predictor)?;
    }
    Ok(())
}

/// One forward pass over the canvases of all `runs`, whose first views have these numbers.
fn observe(runs: &[&mut Run], first_views: &[usize], predictor: &mut dyn Predictor) -> Result<Vec<Observation>> {
    let mut outlooks = Vec::with_capacity(runs.len());
    for (run, &view) in runs.iter().zip(first_views) {
        outlooks.push(run.outlook(view, predictor)?);
    }
    let views: Vec<View<'_>> =
        runs.iter().zip(&outlooks).flat_map(|(run, outlook)| run.views(outlook.plan())).collect();
    predictor.observe(&views)
}

/// Positions, how many of them are read in any case, and how many at most.
type Foreseen = (Vec<usize>, usize, usize);

/// A [`ReadPlan`] that owns its rows.
#[derive(Default)]
struct Outlook<'a> {
    sure: Vec<Row<'a>>,
    ranked: Vec<Row<'a>>,
    /// All but the rows.
    rest: ReadPlan<'static>,
}

impl Outlook<'_> {
    fn plan(&self) -> ReadPlan<'_> {
        ReadPlan { certain: &self.sure, ranked: &self.ranked, ..self.rest }
    }
}

/// Steps all `runs` together until each is finished.
pub fn decode(runs: &mut [Run], predictor: &mut dyn Predictor) -> Result<()> {
    loop {
        let mut active: Vec<&mut Run> = runs.iter_mut().filter(|run| !run.is_finished()).collect();
        if active.is_empty() {
            return Ok(());
        }
        step(&mut active, predictor)?;
    }
}

/// Refuses what the model cannot do.
fn check(canvas: &Canvas, strategy: &Strategy, options: &Options, model: &Description) -> Result<()> {
    if canvas.len() > model.context {
        return Err(Error::TooLong { length: canvas.len(), context: model.context });
    }
    for (position, &token) in canvas.tokens().iter().enumerate() {
        if token as usize >= model.vocabulary {
            return Err(Error::TokenOutOfRange { token, position, vocabulary: model.vocabulary });
        }
    }
    let mut named = options.sampling.suppressed.iter().chain(&options.sampling.deferred).chain(&options.stop);
    if let Some(token) = named.find(|token| **token as usize >= model.vocabulary) {
        return Err(Error::Incompatible(format!(
            "token {token} is to be treated specially, but the model does not know it"
        )));
    }
    for AttentionSource { layer, heads } in strategy.order.attention().iter().chain(&options.watch) {
        if *layer >= model.layers {
            return Err(Error::NoSuchLayer { layer: *layer, layers: model.layers });
        }
        if let Some(&head) = heads.iter().find(|head| **head >= model.heads) {
            return Err(Error::NoSuchHead { head, heads: model.heads });
        }
    }
    if strategy.revision.as_ref().is_some_and(|revision| revision.shadows()) && !model.shadows {
        let cannot = match model.shifted {
            true => "predicts a position from the one before it (as Dream does)",
            false => "cannot do that",
        };
        return Err(Error::Incompatible(format!(
            "WINO verifies a token by predicting it again at its own position, but this model {cannot}: use a strategy \
             without 'verify'"
        )));
    }
    if options.cache != Cache::None {
        let why = if !model.caches {
            "this model keeps no keys and values here: decode without a cache"
        } else if strategy.revision.is_some() {
            "a cache takes what was decided for granted, but this strategy reopens tokens: decode without a cache"
        } else if options.guidance > 0.0 {
            "guidance and a cache do not go together: decode without one of them"
        } else {
            ""
        };
        if !why.is_empty() {
            return Err(Error::Incompatible(why.into()));
        }
    }
    for (name, value) in
        [("guidance", f64::from(options.guidance)), ("temperature", options.sampling.rule.temperature())]
    {
        if !(value >= 0.0 && value.is_finite()) {
            return Err(Error::Parameter { name, value: value.to_string(), expected: "it must be 0 or more".into() });
        }
    }
    Ok(())
}
