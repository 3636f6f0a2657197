//! Runs that are changed by hand between two steps.

use lacuna::catalogue::Params;
use lacuna::scripted::Scripted;
use lacuna::{Canvas, Options, Predictor, Run, Strategy, Token};

const MASK: Token = 0;

/// Every position wants the token before it, plus one.
fn model() -> Scripted {
    Scripted::new(30, MASK, |tokens: &[Token], position| {
        let known = (0..position).rev().find(|&at| tokens[at] != MASK).unwrap();
        let wanted = (tokens[known] as usize + position - known) % 29 + 1;
        (0..30).map(|token| if token == wanted { 9.0 - (position - known) as f32 } else { 0.0 }).collect()
    })
}

fn run(strategy: &str, params: &Params, model: &dyn Predictor) -> Run {
    let canvas = Canvas::with_tail(&[1, 2], 8, MASK).unwrap();
    Run::new(canvas, Strategy::parse(strategy, params).unwrap(), Options::default(), model.description()).unwrap()
}

#[test]
fn the_next_step_sees_what_was_written_and_the_trace_replays() {
    let mut model = model();
    let mut run = run("confidence", &Params::new(), &model);
    let changed = run.change(&[(5, 20), (3, 11)], &[]).unwrap().clone();
    assert_eq!(
        changed.committed.iter().map(|commit| (commit.position, commit.token)).collect::<Vec<_>>(),
        [(3, 11), (5, 20)]
    );
    assert_eq!(run.forwards(), 0);
    run.step(&mut model).unwrap();
    let replaced = run.change(&[(3, 25)], &[5]).unwrap();
    assert_eq!((replaced.edited[0].token, &replaced.reopened[..]), (25, &[5][..]));
    while !run.is_finished() {
        run.step(&mut model).unwrap();
    }
    assert_eq!(run.canvas().tokens()[3], 25);
    assert_eq!(run.trace().replay().tokens(), run.canvas().tokens());
    // Position 5 was written, reopened and then decided by the model, from the 25 before it.
    assert_eq!(run.canvas().tokens()[4..6], [27, 29]);
}

#[test]
fn the_run_goes_on_in_the_first_block_with_masks_and_ends_when_nothing_is_left() {
    let mut model = model();
    let blocks = Params::new().with("block_length", 4_usize).unwrap();
    let mut run = run("left", &blocks, &model);
    run.change(&[(2, 7), (3, 7), (4, 7), (5, 7)], &[]).unwrap();
    assert_eq!(run.step(&mut model).unwrap().block, 1);
    run.change(&[], &[3]).unwrap();
    assert_eq!(run.step(&mut model).unwrap().block, 0);
    assert_eq!(run.step(&mut model).unwrap().block, 1);
    let open: Vec<(usize, Token)> = run.canvas().masked().map(|position| (position, 9)).collect();
    run.change(&open, &[]).unwrap();
    assert!(run.is_finished());
    assert!(run.change(&[(2, 3)], &[]).unwrap_err().to_string().starts_with("the run is finished"));
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let model = model();
    let mut run = run("confidence", &Params::new(), &model);
    for (written, reopened, expected) in [
        (vec![(1, 3)], vec![], "position 1 is not a gap of the canvas"),
        (vec![(99, 3)], vec![], "position 99 is not a gap of the canvas"),
        (vec![(4, MASK)], vec![], "token 0 may not stand at position 4"),
        (vec![(4, 30)], vec![], "token 30 may not stand at position 4"),
        (vec![(4, 3), (4, 5)], vec![], "position 4 is named twice"),
        (vec![], vec![4], "position 4 is not decided, so that it cannot be reopened"),
    ] {
        assert_eq!(run.change(&written, &reopened).unwrap_err().to_string(), expected);
    }
    assert!(run.trace().deltas.is_empty() && run.canvas().masked().count() == 8);
}
