//! The read plan: which rows a step reads, made once per step from what its order, pace and revision declare.
//!
//! Two executors follow the plan. The core reads these rows when they are needed, those of all runs in one batch where they are
//! certain. A predictor on another device gets the plan with the forward pass ([`View::plan`](crate::View::plan)), ranks and reads
//! down the ranking by itself, and hands out the beliefs without another synchronisation.

use crate::cache::Computed;
use crate::context::{Beliefs, RunState, StepContext};
use crate::{
    Belief, Changes, Commit, Pass, Predictor, RankBy, RankByAttention, Ranked, Ranking, ReadPlan, Reads, Resize,
    Result, Row, Run, StopRule, Target,
};

/// A step of one run on its way: its plan, and the ranking and beliefs as they become known.
pub(crate) struct Turn {
    /// Number of the run's view in the forward pass.
    pub(crate) view: usize,
    /// Masked positions that may be filled, ascending.
    pub(crate) candidates: Vec<usize>,
    /// Positions that the forward pass computes, and its purpose.
    pub(crate) computed: Computed,
    pub(crate) pass: Pass,
    /// The candidates, ranked, once their ranking is known.
    pub(crate) ranking: Option<Ranking>,
    pub(crate) beliefs: Beliefs,
    /// True if one position is decided by itself, whatever the pace.
    pub(crate) alone: bool,
    /// True if the ranking is made of beliefs.
    pub(crate) ranks_by_beliefs: bool,
    /// Rows of the ranking that are read in any case, and at most.
    expected: usize,
    most: usize,
    stop: Option<StopRule>,
    /// Rows beside the candidates that the order and the pace use.
    used_rows: Vec<Target>,
    /// Rows beside these that may be read.
    others: Vec<Target>,
    /// Positions that the pace has chosen, and their tokens.
    pub(crate) chosen: Vec<usize>,
    pub(crate) committed: Vec<Commit>,
    /// Positions that are masked in the second pass that the revision asks for, and its beliefs there.
    pub(crate) probe: Vec<usize>,
    pub(crate) probed: Beliefs,
    /// Rows that were read a second time, for the most probable tokens there.
    pub(crate) told: usize,
    /// Changes by the revision.
    pub(crate) changes: Changes,
    /// Change of the canvas's length.
    pub(crate) resize: Option<Resize>,
}

impl Turn {
    /// The plan of a run's next step.
    pub(crate) fn new(run: &Run, view: usize) -> Result<Self> {
        let (state, strategy) = (&run.state, &run.strategy);
        let (computed, pass) = run.next_pass();
        // The last row of a pass that stores predicts the position behind it.
        let behind = match &computed {
            Computed::Only(positions) if strategy.cache.opens() => positions.last().map(|last| last + 1),
            _ => None,
        };
        let first = state.block.range.start;
        let lone = match pass {
            Pass::Denoise => Some(first).filter(|_| strategy.cache.opens_alone(&state.block)),
            Pass::Prefill | Pass::Store => behind,
        };
        let lone = lone.filter(|_| run.model.shifted);
        let alone = lone.is_some() || !pass.denoises();
        let masked =
            state.canvas.masked_before(if pass.denoises() { state.block.range.end } else { state.canvas.len() });
        let held = strategy.length.only_measures()
            || strategy.revision.as_ref().is_some_and(|revision| revision.only_revises(&state.canvas, &state.block));
        let predicted = |position: usize| computed.contains(run.model.row_of(position));
        let open = |p: &usize| !held && predicted(*p) && (!alone || Some(*p) == lone);
        let candidates: Vec<usize> = masked.filter(open).collect();

        let by = strategy.order.ranks_by();
        let ranks_by_beliefs = by.beliefs() || !state.options.sampling.deferred.is_empty();
        let mut used_rows = if pass.denoises() { strategy.order.rows(&state.canvas, &state.block) } else { Vec::new() };
        let of_pace = strategy.pace.rows(&state.canvas, &state.block);
        used_rows.extend(of_pace.into_iter().filter(|_| !candidates.is_empty() && pass.denoises()));
        used_rows.extend(strategy.length.rows(&state.canvas));
        used_rows.extend(strategy.cache.rows(&state.canvas));
        used_rows.retain(|target| predicted(target.position()));
        let revision = strategy.revision.iter().filter(|_| pass.denoises());
        let mut others: Vec<Target> =
            revision.flat_map(|revision| revision.rows(&state.canvas, &state.block)).collect();
        let mut read_anyway = vec![false; state.canvas.len()];
        for target in &others {
            if let Target::Position(position) = target {
                read_anyway[*position] = true;
            }
        }
        let all = ranks_by_beliefs || candidates.iter().all(|&position| read_anyway[position]);
        let candidate = |target: &Target| matches!(target, Target::Position(p) if candidates.binary_search(p).is_ok());
        used_rows.sort_unstable_by_key(|target| (target.position(), matches!(target, Target::Shadow(_))));
        used_rows.dedup();
        others.retain(|target| !candidate(target) && !used_rows.contains(target));
        others.extend(run.compared_next(&computed).into_iter().map(Target::Position));

        let count = candidates.len();
        let (expected, most, stop) = match strategy.pace.reads(&state.block, count) {
            _ if all => (count, count, None),
            Reads::All => (count, count, None),
            Reads::First(first) => (first.min(count), first.min(count), None),
            Reads::While(rule) => (rule.at_first().min(count), count, Some(rule)),
        };
        used_rows.retain(|target| expected < count || !candidate(target));
        let mut turn = Self {
            view,
            candidates,
            computed,
            pass,
            ranking: None,
            beliefs: Beliefs::default(),
            alone,
            ranks_by_beliefs,
            expected,
            most,
            stop,
            used_rows,
            others,
            chosen: Vec::new(),
            committed: Vec::new(),
            probe: Vec::new(),
            probed: Beliefs::default(),
            told: 0,
            changes: Changes::default(),
            resize: None,
        };
        if by == RankBy::Known && !ranks_by_beliefs {
            turn.ranking = Some(run.rank(&turn, strategy.order.score(&turn.context(state))?)?);
        }
        Ok(turn)
    }

    /// The first output row that may be read, or that a mask stands in.
    pub(crate) fn first_row(&self, run: &Run) -> usize {
        let beside = self.used_rows.iter().chain(&self.others).map(|target| target.position());
        let first = beside.chain(run.state.canvas.masked().next()).min();
        first.map_or(usize::MAX, |position| run.model.row_of(position))
    }

    /// The step as orders and revisions see it.
    pub(crate) fn context<'a>(&'a self, state: &'a RunState) -> StepContext<'a> {
        StepContext { state, candidates: &self.candidates, beliefs: &self.beliefs, probed: &self.probed }
    }

    /// The rows of the plan as the predictor gets them: certain ones and ranked ones.
    pub(crate) fn rows<'a>(&self, run: &'a Run) -> (Vec<Row<'a>>, Vec<Row<'a>>) {
        let row = |&target: &Target| run.state.row(self.view, target);
        let at = |&position: &usize| run.state.row(self.view, Target::Position(position));
        let others = self.used_rows.iter().chain(&self.others).map(row);
        if self.expected == self.candidates.len() {
            return (self.candidates.iter().map(at).chain(others).collect(), Vec::new());
        }
        // A ranking by the order's own rule is not known before the pass.
        let ranked: Vec<Row<'a>> = match (&self.ranking, run.strategy.order.ranks_by()) {
            (Some(ranking), _) => ranking.positions().iter().map(at).collect(),
            (None, RankBy::MeanAttention(_)) => self.candidates.iter().map(at).collect(),
            (None, _) => Vec::new(),
        };
        // No row is planned twice.
        let beside =
            |row: &Row<'_>| ranked.is_empty() || self.candidates.binary_search(&row.target.position()).is_err();
        (others.filter(beside).collect(), ranked)
    }

    /// The plan with these rows.
    pub(crate) fn plan<'a>(&self, run: &Run, certain: &'a [Row<'a>], ranked: &'a [Row<'a>]) -> ReadPlan<'a> {
        if ranked.is_empty() {
            return ReadPlan { certain, ..ReadPlan::default() };
        }
        let rank = match run.strategy.order.ranks_by() {
            RankBy::MeanAttention(sources) => {
                Some(RankByAttention { sources: sources.len(), temperature: run.strategy.order_temperature })
            }
            _ => None,
        };
        ReadPlan { certain, ranked, expected: self.expected, most: self.most, stop: self.stop, rank }
    }

    /// The rows that are read in any case: all candidates, or the first of the ranking, and those that the order and the pace use.
    pub(crate) fn expected_rows<'a>(&'a self, state: &'a RunState) -> impl Iterator<Item = Row<'a>> {
        let positions = self.ranking.as_ref().map_or(&self.candidates[..], Ranking::positions);
        let mut targets: Vec<Target> = positions[..self.expected].iter().map(|&p| Target::Position(p)).collect();
        let beside = self.used_rows.iter().filter(|target| !targets.contains(target)).copied().collect::<Vec<_>>();
        targets.extend(beside);
        targets.into_iter().map(|target| state.row(self.view, target))
    }

    /// Reads targets that were not read yet, together.
    pub(crate) fn read(
        &mut self,
        state: &RunState,
        targets: impl IntoIterator<Item = Target>,
        predictor: &mut dyn Predictor,
    ) -> Result<()> {
        let unread = targets.into_iter().filter(|target| self.beliefs.get(*target).is_none());
        let rows: Vec<Row<'_>> = unread.map(|target| state.row(self.view, target)).collect();
        if !rows.is_empty() {
            let beliefs = predictor.read(&rows)?;
            rows.iter().zip(beliefs).for_each(|(row, belief)| self.beliefs.insert(row.target, belief));
        }
        Ok(())
    }

    /// Reads down the ranking as far as the pace does, and returns what the pace sees.
    pub(crate) fn read_down<'a>(
        &'a mut self,
        state: &'a RunState,
        predictor: &mut dyn Predictor,
    ) -> Result<Ranked<'a>> {
        let ranking = self.ranking.take().expect("the candidates were ranked");
        let mut end = self.expected;
        loop {
            self.read(state, ranking.positions()[..end].iter().map(|&position| Target::Position(position)), predictor)?;
            let next = match self.stop {
                Some(rule @ StopRule::Score(_)) => rule.prefix(ranking.scores(), &[]).min(self.most),
                Some(rule @ StopRule::Sum { .. }) => {
                    let known = self.known(&ranking, end);
                    if rule.prefix(ranking.scores(), &known) < end { end } else { (2 * end).min(self.most) }
                }
                None => end,
            };
            if next <= end {
                break;
            }
            end = next;
        }
        let beliefs = self.known(&ranking, end);
        let ranking = &*self.ranking.insert(ranking);
        let context = StepContext { state, candidates: &self.candidates, beliefs: &self.beliefs, probed: &self.probed };
        Ok(Ranked { context, ranking, beliefs })
    }

    /// The beliefs of the first positions of a ranking.
    fn known(&self, ranking: &Ranking, count: usize) -> Vec<Belief> {
        let belief = |&position: &usize| self.beliefs.get(Target::Position(position)).expect("it was read").clone();
        ranking.positions()[..count].iter().map(belief).collect()
    }
}
