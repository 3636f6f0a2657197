//! Gaps of unknown length.

use crate::allowed::Allowed;
use crate::context::RunState;
use crate::{
    Belief, Canvas, Delta, Draw, Error, Options, Predictor, ReadPlan, Resize, Result, Row, Run, Target, Tried, View,
};

/// Gaps whose lengths are found before anything is written. All lengths of a gap are tried in one forward pass, and the one whose
/// masks the model is surest of is kept: the mean of ln p of their most probable tokens is the highest, of equals the shortest.
/// Several gaps are found one after the other; those to come are as short as they can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GapSearch {
    /// The first mask of each gap, ascending.
    pub gaps: Vec<usize>,
    /// The longest length that is tried.
    pub most: usize,
    /// Masks of each gap on the canvas: the shortest length.
    least: usize,
}

impl GapSearch {
    /// Finds the lengths of the gaps whose only masks stand at these positions.
    pub fn new(gaps: Vec<usize>, most: usize) -> Self {
        Self { gaps, most, least: 1 }
    }

    /// The canvas whose first unknown gap has so many masks more.
    fn longer(&self, canvas: &Canvas, more: usize) -> (Canvas, Resize) {
        let tokens = vec![canvas.mask(); more];
        let resize = Resize { at: self.gaps[0] + 1, length: canvas.len() + more, tokens };
        let mut longer = canvas.clone();
        longer.resize(&resize);
        (longer, resize)
    }
}

/// The canvas with the shortest gap that the constraint allows.
pub(crate) fn shortest(canvas: Canvas, options: &mut Options, vocabulary: usize) -> Result<Canvas> {
    let Some(find) = options.find.clone().filter(|_| options.constraint.is_some()) else { return Ok(canvas) };
    if find.gaps.len() > 1 {
        let why = "a constraint goes with one gap of unknown length, but there are several: give the others a length";
        return Err(Error::Incompatible(why.into()));
    }
    let mut refused = None;
    for more in 0..find.most {
        let (longer, _) = find.longer(&canvas, more);
        match Allowed::new(&longer, options, vocabulary) {
            Ok(_) => {
                options.find = Some(GapSearch { least: 1 + more, ..find });
                return Ok(longer);
            }
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(match refused {
        Some(Error::Unmeetable { shortest: Some(shortest), .. }) if shortest > find.most => {
            let expected = format!("must be at least {shortest}, the shortest length that meets the constraint");
            Error::parameter("max_gap", find.most.to_string(), expected)
        }
        Some(error) => error,
        None => Error::NoGaps,
    })
}

/// One length on trial.
struct Trial {
    run: usize,
    /// The first mask of the gap.
    from: usize,
    canvas: Canvas,
    allowed: Allowed,
    resize: Resize,
    /// Masks of the gap.
    length: usize,
}

impl Trial {
    /// The rows of the gap's masks, if the trial is view number `view`.
    fn rows<'a>(&'a self, view: usize, state: &'a RunState) -> Vec<Row<'a>> {
        let row = |position| {
            let draw = Draw::new(state.options.seed, state.number, position);
            Row::new(view, Target::Position(position), &state.options.sampling, self.allowed.at(position), draw)
        };
        (self.from..self.from + self.length).map(row).collect()
    }
}

/// Takes a step with runs that have gaps of unknown length: one forward pass finds the next of each.
pub(crate) fn find(runs: &mut [&mut Run], predictor: &mut dyn Predictor) -> Result<()> {
    let trials: Vec<Trial> = runs.iter().enumerate().flat_map(|(index, run)| run.trials(index)).collect();
    let rows: Vec<Vec<Row<'_>>> =
        trials.iter().enumerate().map(|(view, trial)| trial.rows(view, &runs[trial.run].state)).collect();
    let views: Vec<View<'_>> = (trials.iter().zip(&rows))
        .map(|(trial, rows)| View {
            run: runs[trial.run].id,
            tokens: trial.canvas.tokens(),
            blocks: runs[trial.run].borders,
            plan: ReadPlan { certain: rows, ..ReadPlan::default() },
            ..View::default()
        })
        .collect();
    predictor.observe(&views)?;
    drop(views);
    let mut beliefs = predictor.read(&rows.concat())?.into_iter();
    let score = |trial: &Trial| {
        let sure = |belief: Belief| belief.first.max(f64::MIN_POSITIVE).ln();
        beliefs.by_ref().take(trial.length).map(sure).sum::<f64>() / trial.length as f64
    };
    let scores: Vec<f64> = trials.iter().map(score).collect();
    drop(rows);
    let mut scored: Vec<(Trial, f64)> = trials.into_iter().zip(scores).collect();
    for (index, run) in runs.iter_mut().enumerate() {
        let others = scored.split_off(scored.iter().take_while(|(trial, _)| trial.run == index).count());
        run.adopt_length(std::mem::replace(&mut scored, others), predictor)?;
    }
    Ok(())
}

impl Run {
    /// True if there are gaps whose lengths are to be found.
    pub(crate) fn has_unknown_gaps(&self) -> bool {
        self.state.options.find.is_some()
    }

    /// Positions of the canvases on which the next gap's lengths are tried.
    pub(crate) fn trial_positions(&self) -> usize {
        let most = self.state.options.find.as_ref().map_or(0, |find| find.most);
        most * (self.state.canvas.len() + most / 2)
    }

    /// The lengths of the next gap that can be tried.
    fn trials(&self, run: usize) -> Vec<Trial> {
        let find = self.state.options.find.as_ref().expect("a length is to be found");
        let canvas = &self.state.canvas;
        let trial = |more: usize| {
            let (canvas, resize) = find.longer(canvas, more);
            let allowed = Allowed::new(&canvas, &self.state.options, self.model.vocabulary).ok()?;
            Some(Trial { run, from: find.gaps[0], canvas, allowed, resize, length: find.least + more })
        };
        (0..=find.most - find.least).filter_map(trial).collect()
    }

    /// Takes over the length that the model is surest of.
    fn adopt_length(&mut self, trials: Vec<(Trial, f64)>, predictor: &mut dyn Predictor) -> Result<()> {
        let layers = self.model.layers.max(1);
        let tried = trials.iter().map(|(trial, score)| Tried { length: trial.length, score: *score }).collect();
        for (trial, _) in &trials {
            self.forwards += 1;
            self.rows_read += trial.length;
            self.computed += trial.canvas.len() * layers;
        }
        let best = trials.into_iter().reduce(|best, next| if next.1 > best.1 { next } else { best });
        let (Trial { resize, .. }, _) = best.expect("the canvas as it stands is one of the trials");
        let more = resize.tokens.len();
        let find = self.state.options.find.as_mut().expect("a length is to be found");
        find.gaps.remove(0);
        find.gaps.iter_mut().for_each(|gap| *gap += more);
        if find.gaps.is_empty() {
            self.state.options.find = None;
        }
        let resized = if more > 0 && self.resize(&resize, predictor)? { Some(resize) } else { None };
        self.state.number += 1;
        self.state.allowed.begin_step(self.state.canvas.len());
        self.trace.deltas.push(Delta { block: self.state.block.index, resized, tried, ..Delta::default() });
        Ok(())
    }
}
