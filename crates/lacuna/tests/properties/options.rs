//! Options of runs.

use lacuna::catalogue::{Params, Section, parts};
use lacuna::scripted::Scripted;
use lacuna::{Canvas, Grow, Options, Predictor, Run, Strategy, Token, decode};

use super::cases::*;

#[test]
fn watched_attention_is_shown_and_changes_nothing() {
    let watch = vec![lacuna::AttentionSource { layer: 2, heads: Vec::new() }];
    for strategy in ["confidence", "dos"] {
        let run = |watch| {
            let canvas = Canvas::with_tail(&[4, 5], 9, MASK).unwrap();
            let strategy = Strategy::parse(strategy, &Params::new()).unwrap();
            let options = Options { watch, ..Options::default() };
            let mut model = model(3);
            let mut run = Run::new(canvas, strategy, options, model.description()).unwrap();
            run.step(&mut model).unwrap();
            run
        };
        let (plain, watched) = (run(Vec::new()), run(watch.clone()));
        assert_eq!(plain.trace(), watched.trace());
        let (before, seen) = (&plain.seen().dependency, &watched.seen().dependency);
        assert_eq!(seen[..before.len()], before[..]);
        assert_eq!(seen.len(), before.len() + 1);
        assert!(seen.last().unwrap()[2..].iter().all(|score| *score > 0.0));
    }
}

#[test]
fn guidance_costs_a_second_forward_and_moves_the_logits() {
    let tokens = vec![4, 5, MASK, MASK, MASK, MASK];
    let run = |guidance| {
        let canvas = Canvas::new(tokens.clone(), MASK).unwrap();
        let strategy = Strategy::parse("confidence", &Params::new()).unwrap();
        let options = Options { guidance, ..Options::default() };
        let mut model = model(5);
        let mut runs = [Run::new(canvas, strategy, options, model.description()).unwrap()];
        decode(&mut runs, &mut model).unwrap();
        let [run] = runs;
        run
    };
    assert_eq!((run(0.0).forwards(), run(2.0).forwards()), (4, 8));
    assert_ne!(run(0.0).trace(), run(2.0).trace());
}

#[test]
fn deferred_tokens_are_committed_last_by_every_order() {
    for order in ["random", "confidence", "entropy", "margin", "dos"] {
        let logits = |_: &[Token], position: usize| {
            let mut logits = vec![0.0; VOCABULARY];
            logits[if position.is_multiple_of(2) { STOP as usize } else { 3 + position % 5 }] = 5.0 + position as f32;
            logits
        };
        let mut model = Scripted::new(VOCABULARY, MASK, logits).with_attention(1, |_, _, from, _| from as f32);
        let canvas = Canvas::with_tail(&[4], 8, MASK).unwrap();
        let mut options = Options::default();
        options.sampling.deferred = vec![STOP];
        let strategy = Strategy::parse(order, &Params::new()).unwrap();
        let mut runs = [Run::new(canvas, strategy, options, model.description()).unwrap()];
        decode(&mut runs, &mut model).unwrap();
        let deltas = &runs[0].trace().deltas;
        let stops: Vec<bool> = deltas.iter().map(|delta| delta.committed[0].token == STOP).collect();
        assert_eq!(stops, [false, false, false, false, true, true, true, true], "{order}");
    }
}

#[test]
fn a_canvas_grows_by_blocks_until_an_end_comes() {
    // The model ends the text at position 11, wherever the canvas ends.
    let logits = |_: &[Token], position: usize| {
        let mut logits = vec![0.0; VOCABULARY];
        logits[if position >= 11 { STOP as usize } else { 3 + position % 5 }] = 9.0;
        logits
    };
    for (strategy, block) in [("confidence", None), ("confidence+top3", Some(2)), ("llada", Some(4)), ("left+eb", None)]
    {
        for (most, length) in [(40, 14), (10, 10), (14, 14), (6, 6)] {
            let mut model = Scripted::new(VOCABULARY, MASK, logits);
            let canvas = Canvas::with_tail(&[4, 5], 4.min(most - 2), MASK).unwrap();
            let mut strategy = Strategy::parse(strategy, &Params::new()).unwrap();
            if let Some(block) = block {
                strategy = strategy.in_blocks(block);
            }
            let grow = Some(Grow { ends: vec![STOP], by: 4, most });
            let options = Options { stop: vec![STOP], grow, ..Options::default() };
            let mut runs = [Run::new(canvas, strategy, options, model.description()).unwrap()];
            decode(&mut runs, &mut model).unwrap();
            assert_eq!(runs[0].canvas().len(), length, "at most {most}");
            assert_eq!(&runs[0].trace().replay(), runs[0].canvas());
            let text: Vec<Token> = (2..length.min(11)).map(|position| 3 + (position % 5) as Token).collect();
            assert_eq!(runs[0].canvas().tokens()[2..length.min(11)], text);
        }
    }
}

#[test]
fn a_second_pass_is_a_step_of_its_own_and_guidance_doubles_it() {
    for guidance in [0.0, 1.5] {
        let canvas = Canvas::with_tail(&[4, 5], 40, MASK).unwrap();
        let given =
            params([("revise_every", 1usize.into()), ("revise_most", 4usize.into()), ("steps", 20usize.into())]);
        let strategy = Strategy::parse("core", &given).unwrap();
        let mut model = model(3);
        let options = Options { guidance, ..Options::default() };
        let mut runs = [Run::new(canvas, strategy, options, model.description()).unwrap()];
        decode(&mut runs, &mut model).unwrap();
        let deltas = &runs[0].trace().deltas;
        assert_eq!(deltas.len(), 30, "20 steps, and a second pass in each of the middle half");
        assert_eq!(runs[0].forwards(), 30 * if guidance > 0.0 { 2 } else { 1 });
        assert!(deltas.iter().any(|delta| !delta.edited.is_empty()));
        assert_eq!(deltas.iter().filter(|delta| delta.committed.is_empty()).count(), 10);
    }
}

#[test]
fn prophet_leaps_over_all_blocks_once_the_answer_is_sure() {
    let sharp = |tokens: &[Token], _: usize| {
        let decided = tokens.iter().filter(|&&token| token != MASK).count();
        let mut logits = vec![0.0; VOCABULARY];
        logits[3] = decided as f32;
        logits
    };
    let mut model = Scripted::new(VOCABULARY, MASK, sharp);
    let canvas = Canvas::with_tail(&[4, 5], 12, MASK).unwrap();
    let given = params([("block_length", 3usize.into()), ("gap_early", 4.5.into()), ("gap_mid", 4.5.into())]);
    let given = given.with("answer_offset", 7usize).unwrap();
    let strategy = Strategy::parse("prophet", &given).unwrap();
    let mut runs = [Run::new(canvas, strategy, Options::default(), model.description()).unwrap()];
    decode(&mut runs, &mut model).unwrap();
    let counts: Vec<usize> = runs[0].trace().deltas.iter().map(|delta| delta.committed.len()).collect();
    assert_eq!(counts, [1, 1, 1, 9], "a gap of 5 with five decided");
}

#[test]
fn records_tell_what_parts_need() {
    use lacuna::catalogue::Need;
    for part in parts(Section::Order) {
        let strategy = parse(&part.name, &values(0.5, 0.5, 0, &[0])).unwrap();
        let by = strategy.order.ranks_by();
        assert_eq!(part.needs.contains(&Need::Attention), !by.attention().is_empty(), "{}", part.name);
        assert_eq!(part.needs.contains(&Need::Beliefs), by.beliefs(), "{}", part.name);
    }
    for part in parts(Section::Pace) {
        let strategy = parse(&format!("confidence+{}", part.name), &values(0.5, 0.5, 0, &[0])).unwrap();
        assert_eq!(part.needs.contains(&Need::PreviousBeliefs), strategy.pace.compares(), "{}", part.name);
    }
    for part in parts(Section::Cache) {
        let strategy = Strategy::parse("dos", &Params::new().with("cache", &*part.name).unwrap()).unwrap();
        let cache = strategy.cache;
        assert_eq!(part.needs.contains(&Need::KvCache), !cache.is_exact() || cache.is_causal(), "{}", part.name);
        assert_eq!(part.needs.contains(&Need::Rollout), cache.rollout(), "{}", part.name);
    }
}
