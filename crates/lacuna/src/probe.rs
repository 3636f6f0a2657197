//! The second forward pass of a step, which some revisions ask for (CORE).

use crate::plan::Turn;
use crate::{Predictor, ReadPlan, Result, Row, Run, Target, View};

/// A second forward pass for the runs whose revision asks for one, in which the positions that it names are masked.
pub(crate) fn probe(runs: &mut [&mut Run], turns: &mut [Turn], predictor: &mut dyn Predictor) -> Result<()> {
    let mut view = 0;
    let mut masked = Vec::new();
    for (index, (run, turn)) in runs.iter().zip(&*turns).enumerate().filter(|(_, (_, turn))| !turn.probe.is_empty()) {
        let mut canvas = run.state.canvas.clone();
        turn.probe.iter().for_each(|&position| canvas.reopen(position));
        masked.push((index, view, [canvas.tokens().to_vec(), canvas.without_prompt()]));
        view += run.state.width();
    }
    if masked.is_empty() {
        return Ok(());
    }
    let row = |index: usize, view: usize, &position: &usize| Row {
        remember: false,
        ..runs[index].state.row(view, Target::Position(position))
    };
    let rows_of = |(index, view, _): &(usize, usize, _)| -> Vec<Row<'_>> {
        turns[*index].probe.iter().map(|position| row(*index, *view, position)).collect()
    };
    let rows: Vec<Vec<Row<'_>>> = masked.iter().map(rows_of).collect();
    let views: Vec<View<'_>> = (masked.iter().zip(&rows))
        .flat_map(|((index, _, canvases), rows)| {
            let run = &runs[*index];
            let plan = ReadPlan { certain: rows, ..ReadPlan::default() };
            let plans = [plan, ReadPlan::default()];
            let view = move |(tokens, plan)| View { run: run.id, tokens, plan, blocks: run.borders, ..View::default() };
            canvases.iter().map(Vec::as_slice).zip(plans).take(run.state.width()).map(view)
        })
        .collect();
    predictor.observe(&views)?;
    let mut beliefs = predictor.read(&rows.concat())?.into_iter();
    for (index, view, _) in masked {
        let (run, turn) = (&mut *runs[index], &mut turns[index]);
        for (&position, belief) in turn.probe.iter().zip(&mut beliefs) {
            turn.probed.insert(Target::Position(position), belief);
        }
        run.apply_revision(turn)?;
        turn.told += run.state.read_alternatives(view, turn.changes.edited.iter_mut().collect(), predictor)?;
    }
    Ok(())
}
