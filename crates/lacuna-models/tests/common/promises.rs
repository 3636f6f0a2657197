//! The promises that every predictor makes: what a row says depends on nothing but its view.

use lacuna::{AttentionSource, Belief, Compute, Guide, Row, Sampling, Target, Token, TokenRule, View};
use lacuna_models::{Model, Precision};

use super::naive::{Naive, probabilities};
use super::{Load, MASK, all_layers, read, row, tiny, view};

pub(crate) const MODELS: [&str; 2] = ["llada-tiny", "dream-tiny"];

/// A canvas that is long enough for several tiles and several runs of keys, with every third position masked.
pub(crate) fn long(length: usize) -> Vec<Token> {
    (0..length).map(|i| if i % 3 == 1 { MASK } else { (i * 37 % 509) as Token }).collect()
}

pub(crate) fn places(length: usize) -> Vec<Target> {
    (0..length).map(Target::Position).collect()
}

pub(crate) fn reading_in_pieces_is_reading_at_once(load: Load, precisions: &[Precision]) {
    for (name, precision) in pairs(precisions) {
        let mut model = load(&tiny(name), precision);
        let tokens = long(150);
        model.observe(&[view(&tokens)]).unwrap();
        let whole = read(model.as_mut(), 0, &places(150));
        let pieces: Vec<Belief> = places(150).chunks(7).flat_map(|piece| read(model.as_mut(), 0, piece)).collect();
        assert_eq!(whole, pieces);
        let backwards: Vec<Target> = places(150).into_iter().rev().collect();
        assert!(read(model.as_mut(), 0, &backwards).iter().rev().eq(&whole));
        let again = read(model.as_mut(), 0, &[Target::Position(3), Target::Position(3)]);
        assert_eq!([&again[0], &again[1]], [&whole[3]; 2]);
    }
}

pub(crate) fn a_batch_is_each_view_alone(load: Load, precisions: &[Precision]) {
    for (name, precision) in pairs(precisions) {
        let mut model = load(&tiny(name), precision);
        let canvases = [long(5), long(300), long(1), long(61)];
        let attention = all_layers();
        let views: Vec<View<'_>> =
            canvases.iter().map(|tokens| View { tokens, attention: &attention, ..View::default() }).collect();
        let together = model.observe(&views).unwrap();
        let beliefs: Vec<Vec<Belief>> =
            (0..4).map(|view| read(model.as_mut(), view, &places(canvases[view].len()))).collect();
        for index in 0..4 {
            assert_eq!(model.observe(&views[index..=index]).unwrap()[0], together[index]);
            assert_eq!(read(model.as_mut(), 0, &places(canvases[index].len())), beliefs[index]);
        }
    }
}

pub(crate) fn scores_of_chosen_heads_average_to_those_of_all(load: Load) {
    for name in MODELS {
        let mut model = load(&tiny(name), Precision::F32);
        let tokens = long(40);
        for layer in 0..4 {
            let source = |heads: &[usize]| AttentionSource { layer, heads: heads.to_vec() };
            let attention = [source(&[]), source(&[0]), source(&[1]), source(&[2]), source(&[3]), source(&[1, 3])];
            let view = View { tokens: &tokens, attention: &attention, ..View::default() };
            let scores = model.observe(&[view]).unwrap().remove(0).dependency;
            for (position, score) in scores[0].iter().enumerate() {
                let mean = |heads: &[usize]| {
                    heads.iter().map(|&head| scores[head + 1][position]).sum::<f32>() / heads.len() as f32
                };
                assert!((score - mean(&[0, 1, 2, 3])).abs() < 1e-6);
                assert!((scores[5][position] - mean(&[1, 3])).abs() < 1e-6);
            }
        }
    }
}

pub(crate) fn shadows_see_everything_but_what_they_shadow_and_nobody_sees_them(load: Load) {
    let naive = Naive::load();
    let mut model = load(&tiny("llada-tiny"), Precision::F32);
    let tokens = long(30);
    let shadows: Vec<usize> = (8..20).collect();
    let attention = all_layers();
    let plain = View { tokens: &tokens, attention: &attention, ..View::default() };
    let unshadowed = model.observe(&[plain]).unwrap();
    let beliefs = read(model.as_mut(), 0, &places(30));

    let shadowed = View { shadows: &shadows, ..plain };
    assert_eq!(model.observe(&[shadowed, plain]).unwrap(), [&unshadowed[..], &unshadowed[..]].concat());
    assert_eq!(read(model.as_mut(), 0, &places(30)), beliefs);
    assert_eq!(read(model.as_mut(), 1, &places(30)), beliefs);

    let all: Vec<Token> = tokens.iter().copied().chain(shadows.iter().map(|_| MASK)).collect();
    let positions: Vec<usize> = (0..30).chain(shadows.iter().copied()).collect();
    let visible = |q: usize, k: usize| if q < 30 { k < 30 } else { k != positions[q] };
    let logits = naive.logits(&all, &positions, visible);
    let sampling = Sampling::default();
    for (index, &position) in shadows.iter().enumerate() {
        let exact = probabilities(&logits[30 + index]);
        let witness = tokens[position] % 511;
        let request = Row { scored_token: Some(witness), ..row(0, Target::Shadow(position), &sampling) };
        let belief = model.read(&[request]).unwrap().remove(0);
        let largest = exact.iter().copied().fold(0.0, f64::max);
        assert!((belief.first - largest).abs() < 1e-4, "shadow of {position}");
        assert!((belief.scored.unwrap() - exact[witness as usize]).abs() < 1e-4, "shadow of {position}");
    }
}

pub(crate) fn guidance_mixes_the_logits_of_two_views(load: Load) {
    for name in MODELS {
        let mut model = load(&tiny(name), Precision::F32);
        let (tokens, bare) = (long(20), [vec![MASK; 8], long(20)[8..].to_vec()].concat());
        model.observe(&[view(&tokens), view(&bare)]).unwrap();
        let (guided, unguided) = (model.logits(0).unwrap(), model.logits(1).unwrap());
        let sampling = Sampling::default();
        let guide = Some(Guide { view: 1, scale: 1.5 });
        let request = |position| Row { guide, ..row(0, Target::Position(position), &sampling) };
        let plain = |position| row(0, Target::Position(position), &sampling);
        let rows: Vec<Row<'_>> = (0..20).flat_map(|position| [request(position), plain(position)]).collect();
        let beliefs = model.read(&rows).unwrap();
        assert_eq!(model.read(&[plain(9)]).unwrap()[0], beliefs[19]);
        for position in 0..20 {
            let source = if name == "dream-tiny" { usize::max(position, 1) - 1 } else { position };
            let mix = |(with, without): (&f32, &f32)| without + 2.5 * (with - without);
            let mut mixed: Vec<f32> = guided[source].iter().zip(&unguided[source]).map(mix).collect();
            let expected = plain(position).belief(&mut mixed, &mut None).unwrap();
            let found = &beliefs[2 * position];
            assert_eq!(found.token, expected.token);
            assert!((found.first - expected.first).abs() < 1e-6 && (found.entropy - expected.entropy).abs() < 1e-5);
        }
    }
}

pub(crate) fn what_is_remembered_is_compared_with_until_forgotten(load: Load) {
    let mut model = load(&tiny("llada-tiny"), Precision::F32);
    let sampling = Sampling::default();
    let ask = |model: &mut dyn Model, run: u64, tokens: &[Token]| {
        model.observe(&[View { run, ..view(tokens) }]).unwrap();
        model.read(&[Row { remember: true, ..row(0, Target::Position(4), &sampling) }]).unwrap()[0].divergence
    };
    let (one, other) = (long(12), [long(6), vec![MASK; 6]].concat());
    assert_eq!(ask(model.as_mut(), 7, &one), None);
    assert!(ask(model.as_mut(), 7, &one).unwrap().abs() < 1e-9);
    assert!(ask(model.as_mut(), 7, &other).unwrap() > 1e-6);
    assert_eq!(ask(model.as_mut(), 8, &one), None);
    model.forget(7);
    assert_eq!(ask(model.as_mut(), 7, &one), None);
    assert!(ask(model.as_mut(), 8, &one).is_some());
}

pub(crate) fn draws_do_not_depend_on_company(load: Load) {
    let mut model = load(&tiny("llada-tiny"), Precision::F32);
    let tokens = long(30);
    model.observe(&[view(&tokens)]).unwrap();
    let sampling = Sampling { rule: TokenRule::Gumbel { temperature: 1.0 }, ..Sampling::default() };
    let rows: Vec<Row<'_>> = (0..30).map(|position| row(0, Target::Position(position), &sampling)).collect();
    let together = model.read(&rows).unwrap();
    let alone: Vec<Belief> = rows.iter().map(|&row| model.read(&[row]).unwrap().remove(0)).collect();
    assert_eq!(together, alone);
}

fn pairs(precisions: &[Precision]) -> impl Iterator<Item = (&'static str, Precision)> {
    MODELS.into_iter().flat_map(|name| precisions.iter().map(move |&precision| (name, precision)))
}

pub(crate) fn where_nothing_has_changed_a_cache_changes_no_bit(load: Load, precisions: &[Precision]) {
    for (name, precision) in pairs(precisions) {
        let mut model = load(&tiny(name), precision);
        let model = model.as_mut();
        let (tokens, other, attention) = (long(70), long(33), all_layers());
        let all = View { run: 3, tokens: &tokens, attention: &attention, ..View::default() };
        let plain = model.observe(&[all]).unwrap().remove(0);
        let beliefs = read(model, 0, &places(70));
        model
            .observe(&[
                View { run: 5, compute: Compute::AllAndCache, ..view(&other) },
                View { compute: Compute::AllAndCache, ..all },
            ])
            .unwrap();
        // What was observed can be read, whatever becomes of other runs.
        model.forget(5);
        assert_eq!(read(model, 1, &places(70)), beliefs);
        for (start, end) in [(0, 70), (20, 70), (20, 41), (69, 70)] {
            let computed: Vec<usize> = (start..end).collect();
            let some = View { compute: Compute::Only(&computed), ..all };
            let seen = model.observe(&[view(&other), some]).unwrap().remove(1);
            for (some, all) in seen.dependency.iter().zip(&plain.dependency) {
                assert_eq!(some[start..end], all[start..end], "{name}");
            }
            // The row before the first predicts it, where predictions are shifted.
            let first = start + usize::from(start > 0 && model.description().shifted);
            let places: Vec<Target> = (first..end).map(Target::Position).collect();
            assert_eq!(read(model, 1, &places), beliefs[first..end], "{name}");
        }
        // Positions apart from each other, which shifted models predict from others.
        let apart = [0, 3, 4, 40, 41, 42, 69];
        let some = View { compute: Compute::Only(&apart), ..all };
        let seen = model.observe(&[some, view(&other)]).unwrap().remove(0);
        for (some, all) in seen.dependency.iter().zip(&plain.dependency) {
            let expected: Vec<f32> = (0..70).map(|at| if apart.contains(&at) { all[at] } else { 0.0 }).collect();
            assert_eq!(*some, expected, "{name}");
        }
        let shift = usize::from(model.description().shifted);
        let read_at: Vec<usize> = apart.iter().map(|at| at + shift).filter(|&at| at < 70).collect();
        let targets: Vec<Target> = read_at.iter().copied().map(Target::Position).collect();
        let expected: Vec<Belief> = read_at.iter().map(|&at| beliefs[at].clone()).collect();
        assert_eq!(read(model, 0, &targets), expected, "{name}");
        model.forget(3);
        let refused = model.observe(&[View { compute: Compute::Only(&[0, 1, 8]), ..all }]).unwrap_err();
        assert_eq!(refused.to_string(), "run 3 has no complete KV cache: compute all of its positions first");
        let stored = View { compute: Compute::AllAndCache, ..all };
        let refused = model.observe(&[stored, stored]).unwrap_err();
        let expected = "two views of run 3 would store over each other; give each a run of its own";
        assert_eq!(refused.to_string(), expected);
    }
}
