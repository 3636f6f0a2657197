//! Drafts that revisions may reopen, and gaps whose lengths are found.

use std::slice::from_ref;

use lacuna::catalogue::{Params, Section, parts};
use lacuna::scripted::Scripted;
use lacuna::{Canvas, Draw, Error, GapSearch, Options, Predictor, Recipe, Run, Strategy, Token, decode};

const MASK: Token = 0;
const VOCABULARY: usize = 12;

/// The text that the model believes in.
const TRUTH: [Token; 8] = [5, 6, 7, 8, 9, 10, 11, 4];

/// A model that is sure of `TRUTH`, whatever it sees.
fn sure() -> Scripted {
    let logits = |_: &[Token], position: usize| {
        (0..VOCABULARY as Token).map(|token| if token == TRUTH[position] { 9.0 } else { 0.0 }).collect()
    };
    Scripted::new(VOCABULARY, MASK, logits).with_attention(1, |_, _, from, to| (from * 3 + to) as f32 * 0.01)
}

/// The strategy with those of some parameters that it uses.
fn strategy(name: &str, block_length: Option<usize>) -> Strategy {
    parse(name, block_length).unwrap()
}

fn parse(name: &str, block_length: Option<usize>) -> lacuna::Result<Strategy> {
    let mut params = Params::new().with("layer", 0usize).unwrap().with("remdm_loops", 8usize).unwrap();
    if let Some(length) = block_length {
        params = params.with("block_length", length).unwrap();
    }
    let recipe = Recipe::parse(name, &params)?;
    Strategy::parse(name, &params.filter(|parameter| recipe.uses(parameter)))
}

fn run(canvas: Canvas, strategy: Strategy, options: Options, model: &mut dyn Predictor) -> Run {
    let mut runs = [Run::new(canvas, strategy, options, model.description()).unwrap()];
    decode(&mut runs, model).unwrap();
    let [run] = runs;
    assert_eq!(run.trace().replay(), *run.canvas());
    run
}

#[test]
fn revisions_mend_a_draft_and_leave_the_rest_alone() {
    let mut wrong = TRUTH.to_vec();
    (wrong[1], wrong[3], wrong[6]) = (2, 2, 2);
    for revision in ["verify", "core", "edit", "remdm"] {
        for block_length in [None, Some(3)] {
            for draft in [0..8, 2..6] {
                let case = format!("{revision}, blocks {block_length:?}, draft {draft:?}");
                let canvas = Canvas::with_drafts(wrong.clone(), MASK, std::slice::from_ref(&draft)).unwrap();
                let strategy = strategy(&format!("dos+top3+{revision}"), block_length);
                let run = run(canvas, strategy, Options::default(), &mut sure());
                let expected = [(1, 2, 6), (3, 2, 8), (6, 2, 11)];
                let expected: Vec<_> = expected.into_iter().filter(|(at, _, _)| draft.contains(at)).collect();
                assert_eq!(run.trace().changed(), expected, "{case}");
                let untouched = (0..8).filter(|position| !draft.contains(position));
                assert!(untouched.into_iter().all(|at| run.canvas().tokens()[at] == wrong[at]), "{case}");
            }
        }
    }
}

#[test]
fn gaps_and_drafts_go_together() {
    let tokens = vec![5, 2, MASK, MASK, 9, 2, 11, MASK];
    for revision in ["verify", "core", "edit", "remdm", "backtrack"] {
        let canvas = Canvas::with_drafts(tokens.clone(), MASK, &[1..2, 4..6]).unwrap();
        let run = run(canvas, strategy(&format!("confidence+top2+{revision}"), None), Options::default(), &mut sure());
        assert_eq!(run.canvas().masked().count(), 0);
        if revision != "backtrack" {
            assert_eq!(run.canvas().tokens(), TRUTH, "{revision}");
            assert_eq!(run.trace().changed(), [(1, 2, 6), (5, 2, 10)]);
        }
    }
}

#[test]
fn what_cannot_look_at_a_draft_is_refused() {
    let canvas = Canvas::with_drafts(TRUTH.to_vec(), MASK, from_ref(&(0..8))).unwrap();
    let refused = |name: &str| {
        let run = Run::new(canvas.clone(), strategy(name, None), Options::default(), sure().description());
        run.unwrap_err().to_string()
    };
    assert!(refused("dos").contains("only a revision reopens a draft"));
    assert!(refused("confidence+top2+backtrack").contains("nothing of this text is masked"));
    let beyond = std::iter::once(3..9).collect::<Vec<_>>();
    assert!(matches!(Canvas::with_drafts(TRUTH.to_vec(), MASK, &beyond), Err(Error::Incompatible(_))));
}

/// Every revision, with orders and paces of several kinds, ends on drafts of random models and keeps what is given.
#[test]
fn every_revision_ends_on_random_drafts() {
    for seed in 0..120 {
        let number = |place: usize| (Draw::new(seed, 0, place).uniform(0) * 1000.0) as usize;
        let noise = move |tokens: &[Token], position: usize| {
            let seen = tokens.iter().fold(seed, |sum, &token| sum.wrapping_mul(31).wrapping_add(u64::from(token)));
            (0..VOCABULARY).map(|token| 4.0 * Draw::new(seen, position, token).uniform(0) as f32).collect()
        };
        let mut model = Scripted::new(VOCABULARY, MASK, noise).with_attention(1, |_, _, from, to| (from + to) as f32);
        let revisions = parts(Section::Revision);
        let revision = &revisions[number(0) % revisions.len()].name;
        let order = ["dos", "confidence", "random", "left"][number(1) % 4];
        let pace = ["top1", "top3", "eb", "threshold", "schedule", "cumulative"][number(2) % 6];
        let blocks = [None, Some(1 + number(5) % 5)][number(6) % 2];
        // What makes no sense is refused.
        let Ok(strategy) = parse(&format!("{order}+{pace}+{revision}"), blocks) else { continue };
        let length = 4 + number(3) % 12;
        let masked = |at: usize| number(100 + at).is_multiple_of(4);
        let mut tokens: Vec<Token> = (0..length).map(|at| 1 + (number(200 + at) % 11) as Token).collect();
        (0..length).filter(|&at| masked(at)).for_each(|at| tokens[at] = MASK);
        tokens[length - 1] = MASK;
        let draft = number(4) % (length - 1);
        let canvas = Canvas::with_drafts(tokens.clone(), MASK, from_ref(&(draft..length - 1))).unwrap();
        let run = run(canvas, strategy, Options::default(), &mut model);
        assert_eq!(run.canvas().masked().count(), 0);
        let given = (0..draft).filter(|&at| tokens[at] != MASK);
        assert!(given.into_iter().all(|at| run.canvas().tokens()[at] == tokens[at]));
    }
}

/// A model that is sure of a gap whose length is the token before it.
fn counting() -> Scripted {
    Scripted::new(VOCABULARY, MASK, |tokens: &[Token], position: usize| {
        let from = (0..position).rev().take_while(|&at| tokens[at] == MASK).last().unwrap_or(position);
        let length = (from..tokens.len()).take_while(|&at| tokens[at] == MASK).count();
        let wanted = from.checked_sub(1).map_or(0, |before| tokens[before] as usize);
        let sure = if length == wanted { 9.0 } else { 1.0 / (1.0 + length.abs_diff(wanted) as f32) };
        (0..VOCABULARY as Token).map(|token| if token == 1 { sure } else { 0.0 }).collect()
    })
    .with_attention(1, |_, _, _, _| 0.0)
}

#[test]
fn gaps_get_the_lengths_that_the_model_is_surest_of() {
    let canvas = || Canvas::new(vec![3, MASK, 9, 5, MASK, 9, MASK, 9], MASK).unwrap();
    let options = Options { find: Some(GapSearch::new(vec![1, 4], 7)), ..Options::default() };
    // Several runs share the passes, some of which have nothing to find.
    let mut model = counting();
    let start = |options: &Options| Run::new(canvas(), strategy("dos", None), options.clone(), model.description());
    let mut runs = [start(&options).unwrap(), start(&Options::default()).unwrap(), start(&options).unwrap()];
    decode(&mut runs, &mut model).unwrap();
    assert_eq!(runs[0].canvas(), runs[2].canvas());
    assert_eq!(runs[1].canvas().len(), 8);
    let trace = runs[0].trace();
    assert_eq!(trace.start, canvas());
    assert_eq!(trace.replay(), *runs[0].canvas());
    assert_eq!(runs[0].canvas().tokens(), [3, 1, 1, 1, 9, 5, 1, 1, 1, 1, 1, 9, 1, 9]);
    for (delta, found) in trace.deltas.iter().zip([3, 5]) {
        assert_eq!(delta.tried.iter().map(|tried| tried.length).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7]);
        let best = delta.tried.iter().max_by(|a, b| a.score.total_cmp(&b.score)).unwrap();
        assert_eq!(best.length, found);
        assert_eq!(delta.resized.as_ref().unwrap().tokens.len(), found - 1);
    }
    // 7 canvases for each gap, then a step for each of the 9 masks.
    assert_eq!(runs[0].forwards(), 7 + 7 + 9);
    let json = serde_json::to_string(trace).unwrap();
    assert_eq!(serde_json::from_str::<lacuna::Trace>(&json).unwrap().replay(), trace.replay());
}

#[test]
fn a_gap_that_may_become_longer_than_the_context_is_refused() {
    let options = Options { find: Some(GapSearch::new(vec![1], 7)), ..Options::default() };
    let mut description = counting().description().clone();
    description.context = 8;
    let canvas = Canvas::new(vec![3, MASK, 9], MASK).unwrap();
    let refused = Run::new(canvas, strategy("dos", None), options, &description).unwrap_err();
    assert!(matches!(refused, Error::TooLong { length: 9, context: 8 }));
}
