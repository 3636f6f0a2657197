//! The step: observe, order, pace, commit, revise.

use std::collections::HashSet;
use std::mem::take;
use std::sync::Arc;

use crate::cache::Computed;
use crate::gap_search::find;
use crate::plan::Turn;
use crate::probe::probe;
use crate::{Commit, Compute, Error, Predictor, Ranking, Result, Run, Strategy, Target, View};

/// Takes one step with each of `runs`. They share a forward pass, and one vocabulary projection for the rows that are read in any
/// case. A run with a gap of unknown length finds the length in this step, in a pass of its own.
pub fn step(runs: &mut [&mut Run], predictor: &mut dyn Predictor) -> Result<()> {
    let (mut unmeasured, mut runs): (Vec<&mut Run>, Vec<&mut Run>) =
        runs.iter_mut().map(|run| &mut **run).partition(|run| run.has_unknown_gaps());
    if !unmeasured.is_empty() {
        find(&mut unmeasured, predictor)?;
    }
    if runs.is_empty() {
        return Ok(());
    }
    let runs = &mut runs[..];
    runs.iter_mut().for_each(|run| run.reuse_prefix(predictor));
    let mut turns = plan(runs)?;
    observe(runs, &turns, predictor)?;
    order(runs, &mut turns, predictor)?;
    for (run, turn) in runs.iter_mut().zip(&mut turns) {
        turn.chosen = run.pace(turn, predictor)?;
        turn.committed = run.commit(turn, predictor)?;
        run.revise(turn, predictor)?;
        run.read_alternatives(turn, predictor)?;
        run.learn(turn);
        run.measure(turn);
        run.read_ahead(turn, predictor)?;
    }
    probe(runs, &mut turns, predictor)?;
    for (run, turn) in runs.iter_mut().zip(&mut turns) {
        run.record(turn, predictor)?;
    }
    Ok(())
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

/// The plans of all runs' next steps.
fn plan(runs: &mut [&mut Run]) -> Result<Vec<Turn>> {
    let mut view = 0;
    let mut plan = |run: &mut &mut Run| {
        run.prepare();
        let turn = Turn::new(run, view)?;
        view += run.state.width();
        Ok(turn)
    };
    runs.iter_mut().map(&mut plan).collect()
}

/// One forward pass over the canvases of all runs. What is long before the rows that are read is computed first, in pieces.
fn observe(runs: &mut [&mut Run], turns: &[Turn], predictor: &mut dyn Predictor) -> Result<()> {
    let mut computed = Vec::with_capacity(runs.len());
    for (run, turn) in runs.iter().zip(turns) {
        computed.push(run.compute_ahead(turn, predictor)?);
    }
    let rows: Vec<_> = runs.iter().zip(turns).map(|(run, turn)| turn.rows(run)).collect();
    let views: Vec<View<'_>> = (runs.iter().zip(turns).zip(&rows).zip(computed))
        .flat_map(|(((run, turn), (certain, ranked)), compute)| {
            run.views(compute, View { plan: turn.plan(run, certain, ranked), ..View::default() })
        })
        .collect();
    let mut seen = predictor.observe(&views)?;
    drop(views);
    drop(rows);
    for (run, turn) in runs.iter_mut().zip(turns) {
        run.state.seen = std::mem::take(&mut seen[turn.view]);
        if run.state.first_dependency.is_empty() {
            run.state.first_dependency.clone_from(&run.state.seen.dependency);
        }
    }
    Ok(())
}

/// Ranks the candidates of all runs, and reads the rows that are read in any case: before the ranking, if it is made of beliefs.
fn order(runs: &[&mut Run], turns: &mut [Turn], predictor: &mut dyn Predictor) -> Result<()> {
    rank(runs, turns, false)?;
    let rows: Vec<_> = runs.iter().zip(&*turns).flat_map(|(run, turn)| turn.expected_rows(&run.state)).collect();
    let beliefs = if rows.is_empty() { Vec::new() } else { predictor.read(&rows)? };
    let read: Vec<_> = rows.iter().map(|row| (row.view, row.target)).zip(beliefs).collect();
    let mut read = read.into_iter().peekable();
    for turn in turns.iter_mut() {
        while let Some(((_, target), belief)) = read.next_if(|((view, _), _)| *view == turn.view) {
            turn.beliefs.insert(target, belief);
        }
    }
    rank(runs, turns, true)
}

/// Ranks what is not ranked yet, of those runs whose rankings are made of beliefs, or of the others. Runs that share an order are
/// scored in one call.
fn rank(runs: &[&mut Run], turns: &mut [Turn], by_beliefs: bool) -> Result<()> {
    for first in 0..runs.len() {
        let order = &runs[first].strategy.order;
        let open = |turn: &Turn| turn.ranking.is_none() && turn.ranks_by_beliefs == by_beliefs;
        let group: Vec<usize> = (first..runs.len())
            .filter(|&index| open(&turns[index]) && Arc::ptr_eq(&runs[index].strategy.order, order))
            .collect();
        if group.first() != Some(&first) {
            continue;
        }
        let contexts: Vec<_> = group.iter().map(|&index| turns[index].context(&runs[index].state)).collect();
        let scores = order.score_batch(&contexts)?;
        if scores.len() != group.len() {
            return Err(Error::BadScores { given: scores.len(), wanted: group.len() });
        }
        for (index, scores) in group.into_iter().zip(scores) {
            turns[index].ranking = Some(runs[index].rank(&turns[index], scores)?);
        }
    }
    Ok(())
}

impl Run {
    /// Computes the positions of a pass in pieces of whole blocks until few are left, or one that is read. Returns what is left. Blocks
    /// of block-causal attention see nothing behind them, so that this changes no bit.
    fn compute_ahead<'a>(&self, turn: &'a Turn, predictor: &mut dyn Predictor) -> Result<Compute<'a>> {
        let (Some(borders), Computed::Only(positions)) = (self.borders, &turn.computed) else {
            return Ok(turn.computed.as_compute());
        };
        let mut left = &positions[..];
        let end = left.last().map_or(0, |&last| borders.start(last.min(turn.first_row(self))));
        while left.len() > predictor.piece() && left[0] < end {
            let border = borders.start(left[predictor.piece()]).max(borders.end(left[0])).min(end);
            let (piece, others) = left.split_at(left.partition_point(|&position| position < border));
            let tokens = self.state.canvas.tokens();
            let compute = Compute::Only(piece);
            predictor.observe(&[View { run: self.id, tokens, blocks: self.borders, compute, ..View::default() }])?;
            left = others;
        }
        Ok(Compute::Only(left))
    }

    /// The ranking of a step's candidates by these scores.
    pub(crate) fn rank(&self, turn: &Turn, scores: Vec<f64>) -> Result<Ranking> {
        if scores.len() != turn.candidates.len() || scores.iter().any(|score| score.is_nan()) {
            let (given, wanted) = (scores.len(), turn.candidates.len());
            return Err(Error::BadScores { given, wanted });
        }
        Ok(turn.context(&self.state).rank(scores, self.strategy.order_temperature))
    }

    /// The positions that the pace chooses.
    fn pace(&mut self, turn: &mut Turn, predictor: &mut dyn Predictor) -> Result<Vec<usize>> {
        let Self { strategy, state, .. } = self;
        if turn.candidates.is_empty() {
            return Ok(Vec::new());
        }
        let alone = turn.alone;
        let ranked = turn.read_down(state, predictor)?;
        let chosen = if alone { ranked.first(1) } else { strategy.pace.choose(&ranked)? };
        if chosen.is_empty() && !strategy.pace.may_wait() {
            return Err(Error::NoProgress { step: state.number });
        }
        let exceeds_window = strategy.pace.exceeds_window();
        let open = |position: &usize| match exceeds_window {
            true => *position < state.canvas.len() && state.canvas.is_masked(*position),
            false => turn.candidates.binary_search(position).is_ok(),
        };
        let mut distinct = HashSet::new();
        let stray = |position: &&usize| !open(position) || !distinct.insert(**position);
        match chosen.iter().find(stray) {
            Some(&position) => Err(Error::NotACandidate { position, step: state.number }),
            None => Ok(chosen),
        }
    }

    /// The tokens of the chosen positions, ascending by position. They are written one after the other: a position whose token does
    /// not go with those before it waits for another step.
    fn commit(&mut self, turn: &mut Turn, predictor: &mut dyn Predictor) -> Result<Vec<Commit>> {
        let chosen = take(&mut turn.chosen);
        turn.read(&self.state, chosen.iter().map(|&position| Target::Position(position)), predictor)?;
        let ranking = turn.ranking.as_ref().expect("the candidates were ranked");
        let mut scores = vec![0.0; self.state.canvas.len()];
        ranking.positions().iter().zip(ranking.scores()).for_each(|(&position, &score)| scores[position] = score);
        let context = turn.context(&self.state);
        let commit =
            |&position: &usize| Commit { score: scores[position], ..Commit::of(position, context.belief(position)) };
        let mut committed: Vec<Commit> = chosen.iter().map(commit).collect();
        committed.retain(|commit| self.state.allowed.write(commit.position, commit.token));
        turn.chosen = committed.iter().map(|commit| commit.position).collect();
        committed.sort_by_key(|commit| commit.position);
        Ok(committed)
    }

    /// Changes of the revision, if it asks for no second pass.
    fn revise(&mut self, turn: &mut Turn, predictor: &mut dyn Predictor) -> Result<()> {
        let Self { strategy: Strategy { revision: Some(revision), .. }, state, .. } = self else { return Ok(()) };
        if !turn.pass.denoises() {
            return Ok(());
        }
        if revision.reads_after(&turn.chosen) {
            turn.read(state, revision.rows(&state.canvas, &state.block), predictor)?;
        }
        turn.probe = revision.probe(&turn.chosen, &turn.context(state))?;
        if let Some(&position) = turn.probe.iter().find(|&&position| !state.canvas.is_decided(position)) {
            return Err(Error::NotDecided { position, step: state.number });
        }
        if turn.probe.is_empty() { self.apply_revision(turn) } else { Ok(()) }
    }

    /// Changes of the revision.
    pub(crate) fn apply_revision(&mut self, turn: &mut Turn) -> Result<()> {
        let filled = self.fills(&turn.chosen);
        let Self { strategy: Strategy { revision: Some(revision), .. }, state, .. } = self else { return Ok(()) };
        let mut changes = revision.revise(&turn.chosen, filled, &turn.context(state))?;
        let decided = |position: usize| state.canvas.is_decided(position) || turn.chosen.contains(&position);
        let mut touched = changes.edited.iter().map(|edit| edit.position).chain(changes.reopened.iter().copied());
        if let Some(position) = touched.find(|&position| !decided(position)) {
            return Err(Error::NotDecided { position, step: state.number });
        }
        changes.edited.retain(|edit| state.allowed.write(edit.position, edit.token));
        changes.reopened.iter().for_each(|&position| state.allowed.reopen(position));
        turn.changes = changes;
        Ok(())
    }

    /// Reads the most probable tokens at the positions that were decided by beliefs of this forward pass, if they are asked for.
    fn read_alternatives(&self, turn: &mut Turn, predictor: &mut dyn Predictor) -> Result<()> {
        let Turn { view, committed, changes, .. } = turn;
        let decided = committed.iter_mut().chain(&mut changes.edited).collect();
        turn.told += self.state.read_alternatives(*view, decided, predictor)?;
        Ok(())
    }

    /// Shows the step to the cache.
    fn learn(&mut self, turn: &Turn) {
        self.strategy.cache.learn(&turn.chosen, &turn.context(&self.state));
    }

    /// Change of the canvas's length, if it is not fixed.
    fn measure(&mut self, turn: &mut Turn) {
        let Self { strategy, state, model, .. } = self;
        let most = state.options.grow.as_ref().map_or(model.context, |grow| grow.most);
        turn.resize = strategy.length.resize(&turn.chosen, most, &turn.context(state));
    }

    /// Reads the rows of the next block that its first step is compared with, if this step finishes the block.
    fn read_ahead(&self, turn: &mut Turn, predictor: &mut dyn Predictor) -> Result<()> {
        if !self.finishes_block(turn) {
            return Ok(());
        }
        let next = self.compared_next(&turn.computed).into_iter().map(Target::Position);
        turn.read(&self.state, next, predictor)
    }
}
