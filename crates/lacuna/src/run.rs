//! A run: one canvas on its way from masks to text.

use std::mem::take;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::allowed::Allowed;
use crate::cache::{CacheView, Computed};
use crate::context::{Credits, RunState};
use crate::plan::Turn;
use crate::{
    AttentionSource, Block, Blocks, Borders, Canvas, Changes, Commit, Compute, Delta, Description, Entry, Error,
    Observation, Options, Pass, Predictor, Ranking, Result, Strategy, Target, Token, TokenSet, Trace, View, compat,
    gap_search, step,
};

/// A canvas, the strategy that decodes it, and everything that has happened so far.
///
/// A run is stepped from outside, alone ([`Run::step`]) or together with others ([`step`]).
#[derive(Debug)]
pub struct Run {
    pub(crate) id: u64,
    pub(crate) model: Description,
    pub(crate) strategy: Strategy,
    pub(crate) state: RunState,
    pub(crate) trace: Trace,
    pub(crate) blocks: Blocks,
    /// Blocks of block-causal attention.
    pub(crate) borders: Option<Borders>,
    /// Leading positions whose keys and values are cached for good, and those that have any; for block-causal attention.
    pub(crate) stored: usize,
    pub(crate) reached: usize,
    /// Leading positions whose keys and values are those of another run.
    reused: usize,
    /// True if every pass computes the whole canvas.
    whole: bool,
    /// The ranking of the last step.
    ranking: Option<Ranking>,
    attention: Vec<AttentionSource>,
    matrix: Vec<usize>,
    pub(crate) forwards: usize,
    pub(crate) rows_read: usize,
    /// Positions computed so far in all layers together.
    pub(crate) computed: usize,
    finished: bool,
    unguided: Vec<Token>,
    shadows: Vec<usize>,
}

/// Steps after which a run that does not end is given up, if its canvas is not very long.
const MAX_STEPS: usize = 1 << 17;

static NEXT_RUN: AtomicU64 = AtomicU64::new(0);

impl Run {
    /// A run that decodes the canvas. Everything that `model` cannot do for this strategy is refused here.
    pub fn new(canvas: Canvas, strategy: Strategy, mut options: Options, model: &Description) -> Result<Self> {
        let canvas = gap_search::shortest(canvas, &mut options, model.vocabulary)?;
        let borders = strategy.window.borders(canvas.span().start, model);
        compat::check(&canvas, &strategy, &options, model, borders)?;
        let blocks = strategy.window.blocks(&canvas, borders)?;
        let shadows = strategy.revision.as_ref().is_some_and(|revision| revision.shadows());
        let matrix = strategy.pace.matrix(model);
        let mut run = Self {
            id: NEXT_RUN.fetch_add(1, Ordering::Relaxed),
            model: model.clone(),
            whole: options.guidance > 0.0 || shadows || !matrix.is_empty() || strategy.pace.exceeds_window(),
            matrix,
            ranking: None,
            borders,
            stored: 0,
            reached: 0,
            reused: 0,
            attention: [strategy.order.ranks_by().attention(), &options.watch].concat(),
            trace: Trace { start: canvas.clone(), deltas: Vec::new() },
            state: RunState {
                block: Block { index: 0, range: 0..0, step: 0 },
                compares: strategy.pace.compares(),
                credits: strategy.pace.credit().map(Credits::new),
                allowed: Allowed::new(&canvas, &options, model.vocabulary)?,
                canvas,
                options,
                seen: Observation::default(),
                first_dependency: Vec::new(),
                number: 0,
            },
            strategy,
            blocks,
            forwards: 0,
            rows_read: 0,
            computed: 0,
            finished: false,
            unguided: Vec::new(),
            shadows: Vec::new(),
        };
        run.enter(0)?;
        Ok(run)
    }

    /// The canvas as it stands.
    pub fn canvas(&self) -> &Canvas {
        &self.state.canvas
    }

    /// The position behind the text. The canvas may be longer ([`Options::length`]).
    pub fn text_end(&self) -> usize {
        self.state.options.length.unwrap_or(usize::MAX).min(self.state.canvas.len())
    }

    /// The strategy.
    pub fn strategy(&self) -> &Strategy {
        &self.strategy
    }

    /// All changes so far.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The tokens that may stand at a position.
    pub fn allowed(&self, position: usize) -> &TokenSet {
        self.state.allowed.at(position)
    }

    /// The observation of the last forward pass: the attention that the order needs, then what is watched beside it.
    pub fn seen(&self) -> &Observation {
        &self.state.seen
    }

    /// The candidates of the last step, as the order ranked them.
    pub fn ranking(&self) -> Option<&Ranking> {
        self.ranking.as_ref()
    }

    /// Forward passes taken so far (NFE).
    pub fn forwards(&self) -> usize {
        self.forwards
    }

    /// Rows of the model's output read so far.
    pub fn rows_read(&self) -> usize {
        self.rows_read
    }

    /// Leading positions that were not computed, because another run's text begins alike.
    pub fn reused(&self) -> usize {
        self.reused
    }

    /// Positions that the next pass computes, over all its canvases.
    pub fn next_positions(&self) -> usize {
        if self.has_unknown_gaps() {
            return self.trial_positions();
        }
        let layers = self.model.layers.max(1);
        self.next_pass().0.count(self.state.canvas.len(), layers).div_ceil(layers) * self.state.width()
    }

    /// Positions computed so far, over all forward passes; one that only some layers computed counts in part.
    pub fn rows_computed(&self) -> usize {
        self.computed.div_ceil(self.model.layers.max(1))
    }

    /// True if the predictor stores something for it from step to step: keys and values, or the last step's logits.
    pub fn keeps_state(&self) -> bool {
        !self.strategy.cache.is_exact() || self.strategy.pace.compares() || self.borders.is_some()
    }

    /// True if there is nothing left to do.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Takes one step alone and returns what it changed.
    pub fn step(&mut self, predictor: &mut dyn Predictor) -> Result<&Delta> {
        step(&mut [&mut *self], predictor)?;
        Ok(self.trace.deltas.last().expect("a step was taken"))
    }

    /// Writes tokens into gaps and reopens decided ones by hand, as a step without a forward pass; returns what it changed. The run goes
    /// on in the first block that has masks. Its tokens have no probability.
    pub fn change(&mut self, written: &[(usize, Token)], reopened: &[usize]) -> Result<&Delta> {
        let refuse = |why: String| Err(Error::Incompatible(why.into()));
        if self.finished {
            return refuse("the run is finished: there is nothing left to change".into());
        }
        if self.borders.is_some() || !self.strategy.cache.is_exact() {
            return refuse(
                "a run with a cache cannot be changed by hand: its keys and values are of the old tokens".into(),
            );
        }
        if self.state.options.constraint.is_some() {
            return refuse("a run under a constraint cannot be changed by hand".into());
        }
        let canvas = &self.state.canvas;
        let mut touched: Vec<usize> =
            written.iter().map(|(position, _)| *position).chain(reopened.iter().copied()).collect();
        if let Some(position) = touched.iter().find(|position| **position >= canvas.len() || !canvas.is_gap(**position))
        {
            return refuse(format!("position {position} is not a gap of the canvas"));
        }
        if let Some(position) = reopened.iter().find(|position| canvas.is_masked(**position)) {
            return refuse(format!("position {position} is not decided, so that it cannot be reopened"));
        }
        touched.sort_unstable();
        if let Some(pair) = touched.windows(2).find(|pair| pair[0] == pair[1]) {
            return refuse(format!("position {} is named twice", pair[0]));
        }
        let known = |token: Token| token != self.model.mask && (token as usize) < self.model.vocabulary;
        let fits =
            |&(position, token): &(usize, Token)| known(token) && self.state.allowed.at(position).contains(token);
        if let Some((position, token)) = written.iter().find(|one| !fits(one)) {
            return refuse(format!("token {token} may not stand at position {position}"));
        }
        let commit = |&(position, token): &(usize, Token)| Commit {
            position,
            token,
            probability: f64::NAN,
            entropy: f64::NAN,
            score: f64::NAN,
            alternatives: Vec::new(),
        };
        let (mut committed, mut edited): (Vec<Commit>, Vec<Commit>) =
            written.iter().map(commit).partition(|commit| canvas.is_masked(commit.position));
        committed.sort_by_key(|commit| commit.position);
        edited.sort_by_key(|commit| commit.position);
        let mut reopened = reopened.to_vec();
        reopened.sort_unstable();
        let mut delta = Delta { block: self.state.block.index, committed, edited, reopened, ..Delta::default() };
        delta.apply(&mut self.state.canvas);
        self.state.number += 1;
        delta.resized = if self.is_complete() { self.grow()? } else { None };
        self.trace.deltas.push(delta);
        self.finished = self.is_complete() || self.text_is_decided();
        let masked = |index: &usize| self.has_any(*index, |canvas, position| canvas.is_masked(position));
        if let Some(first) = (0..self.blocks.len()).find(masked).filter(|first| *first != self.state.block.index) {
            self.enter(first)?;
        }
        Ok(self.trace.deltas.last().expect("a step was recorded"))
    }

    /// Gives the run up before it is finished: the predictor drops its state.
    pub fn abandon(self, predictor: &mut dyn Predictor) {
        self.leave(predictor);
    }

    /// Leaves the predictor what other runs can use, and has it drop the rest.
    fn leave(&self, predictor: &mut dyn Predictor) {
        if let Some(borders) = self.borders {
            predictor.store_prefix(self.id, &self.state.canvas.tokens()[..self.stored], borders);
        }
        predictor.forget(self.id);
    }

    /// Takes over the keys and values of another run whose text begins alike, before the first pass.
    pub(crate) fn reuse_prefix(&mut self, predictor: &mut dyn Predictor) {
        let Some(borders) = self.borders.filter(|_| self.forwards == 0 && !self.whole) else { return };
        let canvas = &self.state.canvas;
        let end = borders.start(canvas.span().start);
        // Where the last row of the prompt decides a position, it is computed.
        let end = if self.strategy.cache.opens() { borders.start(end.saturating_sub(1)) } else { end };
        self.reused = predictor.reuse_prefix(self.id, &canvas.tokens()[..end], borders);
        (self.stored, self.reached) = (self.reused, self.reused);
    }

    /// Opens the window for the next step, and prepares what the forward pass shows of the canvas beside its tokens.
    pub(crate) fn prepare(&mut self) {
        let Self { state, strategy, blocks, .. } = self;
        let block = blocks.get(state.block.index).expect("the run is in one of its blocks");
        state.block.range = block.start..strategy.window.end(&state.canvas, block, state.block.range.end);
        if strategy.revision.as_ref().is_some_and(|revision| revision.shadows()) {
            self.shadows = state.block.range.clone().filter(|&position| state.canvas.is_gap(position)).collect();
        }
        if state.width() > 1 {
            self.unguided = state.canvas.without_prompt();
        }
    }

    /// Begins the block with this index.
    pub(crate) fn enter(&mut self, index: usize) -> Result<()> {
        let range = self.blocks.get(index).expect("there is such a block").clone();
        self.state.block = Block { index, range: range.start..range.start, step: 0 };
        let canvas = &self.state.canvas;
        let drafts = canvas.drafts_in(range.clone()).filter(|&position| !canvas.is_masked(position)).count();
        let masks = canvas.masked_before(range.end).count() + drafts;
        if let Some(credits) = &mut self.state.credits {
            credits.clear();
        }
        let entry = Entry { masks, drafts, length: range.len(), blocks: self.blocks.scheduled(), model: &self.model };
        self.strategy.pace.enter(&entry)?;
        match &mut self.strategy.revision {
            Some(revision) => revision.enter(&entry),
            None => Ok(()),
        }
    }

    /// The canvases of the next pass, made of `view`: this one, and with guidance the same without its prompt.
    pub(crate) fn views<'a>(&'a self, compute: Compute<'a>, view: View<'a>) -> impl Iterator<Item = View<'a>> {
        let (run, shadows, tokens) = (self.id, &self.shadows[..], self.state.canvas.tokens());
        let rollout = self.strategy.cache.rollout();
        let (attention, matrix, blocks) = (&self.attention[..], &self.matrix[..], self.borders);
        let guided = View { run, tokens, attention, matrix, rollout, shadows, blocks, compute, ..view };
        let unguided = View { run, tokens: &self.unguided, shadows, blocks, compute, ..View::default() };
        [guided, unguided].into_iter().take(self.state.width())
    }

    /// The positions that the next pass computes, and its purpose.
    pub(crate) fn next_pass(&self) -> (Computed, Pass) {
        let (view, cache) = (self.cache_view(), &self.strategy.cache);
        match self.whole {
            true if self.borders.is_some() => (Computed::All, Pass::Denoise),
            _ => (cache.compute(&view), cache.pass(&view)),
        }
    }

    fn cache_view(&self) -> CacheView<'_> {
        CacheView {
            canvas: &self.state.canvas,
            block: &self.state.block,
            last: self.trace.deltas.last(),
            shifted: self.model.shifted,
            borders: self.borders,
            stored: self.stored,
            reached: self.reached,
        }
    }

    /// Takes note of the keys and values that a pass has left in the cache; the canvas is as the pass saw it.
    fn store(&mut self, turn: &Turn) {
        let (Some(borders), Computed::Only(positions)) = (self.borders, &turn.computed) else { return };
        let end = positions.last().map_or(0, |last| last + 1);
        self.reached = self.reached.max(end);
        let Self { state: RunState { canvas, block, .. }, strategy, .. } = &*self;
        // The tokens that the pass saw may be changed by it from here on.
        let first = canvas.masked().next().unwrap_or(canvas.len());
        let safe = strategy.revision.as_ref().map_or(first, |revision| first.min(revision.settled(block)));
        self.stored = match turn.pass {
            Pass::Denoise => self.stored.max(borders.start(safe).min(end)),
            Pass::Prefill | Pass::Store => end,
        };
    }

    /// True if the cache or the revision wants another pass over the block.
    fn owes_pass(&self) -> bool {
        let revises = self.strategy.revision.as_ref().is_some_and(|revision| revision.needs_another_pass());
        revises || !self.next_pass().1.denoises()
    }

    /// Masked positions of the next block, if its first step is compared with the last step of this one.
    pub(crate) fn compared_next(&self, computed: &Computed) -> Vec<usize> {
        let next = self.blocks.get(self.state.block.index + 1).filter(|_| self.state.compares).cloned();
        let masked = next.into_iter().flatten().filter(|&position| self.state.canvas.is_masked(position));
        masked.filter(|&position| computed.contains(position)).collect()
    }

    /// True if committing these positions leaves no mask up to the block's end.
    pub(crate) fn fills(&self, chosen: &[usize]) -> bool {
        let end = self.blocks.get(self.state.block.index).map_or(0, |block| block.end);
        chosen.iter().filter(|position| **position < end).count() == self.state.canvas.masked_before(end).count()
    }

    /// True if the block takes another pass even if nothing is masked.
    fn needs_another_pass(&self) -> bool {
        let Self { strategy, state, .. } = self;
        strategy.cache.needs_another_pass(&state.block) || strategy.pace.needs_another_pass(&state.block)
    }

    /// True if this step leaves nothing to do in its block.
    pub(crate) fn finishes_block(&self, turn: &Turn) -> bool {
        self.fills(&turn.chosen) && turn.changes.reopened.is_empty() && !self.needs_another_pass()
    }

    /// Records what the step changed, and goes on to the next block, or to the end.
    pub(crate) fn record(&mut self, turn: &mut Turn, predictor: &mut dyn Predictor) -> Result<()> {
        let another_pass = self.needs_another_pass();
        let done = self.finishes_block(turn);
        let width = self.state.width();
        let block = self.state.block.index;
        self.rows_read += (turn.beliefs.len() + turn.probed.len() + turn.told) * width;
        let layers = self.model.layers.max(1);
        self.computed += width * (turn.computed.count(self.state.canvas.len(), layers) + self.shadows.len() * layers);
        self.forwards += width;
        self.store(turn);
        if !turn.probe.is_empty() {
            self.computed += width * self.state.canvas.len() * layers;
            self.forwards += width;
            self.trace.deltas.push(Delta { block, ..Delta::default() });
            self.state.number += 1;
        }
        if let Some(credits) = &mut self.state.credits {
            let vote = |&position: &usize| Some((position, turn.beliefs.get(Target::Position(position))?.vote?));
            credits.gather(turn.candidates.iter().filter_map(vote));
        }
        let (committed, Changes { edited, reopened }) = (take(&mut turn.committed), take(&mut turn.changes));
        let mut delta = Delta { block, kind: turn.pass, committed, edited, reopened, resized: None, tried: Vec::new() };
        delta.apply(&mut self.state.canvas);
        let another_pass = another_pass || self.owes_pass();
        self.state.number += 1;
        self.state.block.step += usize::from(turn.pass.denoises());
        delta.resized = match turn.resize.take() {
            Some(resize) => self.resize(&resize, predictor)?.then_some(resize),
            None if self.is_complete() && !another_pass && self.next_block().is_none() => self.grow()?,
            None => None,
        };
        self.state.allowed.begin_step(self.state.canvas.len());
        self.ranking = turn.ranking.take();
        self.trace.deltas.push(delta);
        let next = self.next_block();
        self.finished = (self.is_complete() && !another_pass && next.is_none()) || self.text_is_decided();
        if done
            && !another_pass
            && !self.finished
            && let Some(next) = next
        {
            self.enter(next)?;
        }
        if self.finished {
            self.leave(predictor);
        } else if self.state.number > MAX_STEPS.max(64 * self.state.canvas.len()) {
            return Err(Error::NoProgress { step: self.state.number });
        }
        Ok(())
    }

    /// The next block in which something is masked or drafted.
    pub(crate) fn next_block(&self) -> Option<usize> {
        let open = |canvas: &Canvas, position: usize| canvas.is_masked(position) || canvas.is_draft(position);
        (self.state.block.index + 1..self.blocks.len()).find(|index| self.has_any(*index, open))
    }

    /// True if a block has a position of this kind.
    fn has_any(&self, index: usize, kind: impl Fn(&Canvas, usize) -> bool) -> bool {
        let mut block = self.blocks.get(index).cloned().into_iter().flatten();
        block.any(|position| kind(&self.state.canvas, position))
    }
}
