//! Properties of every strategy.

use std::sync::Arc;

use lacuna::catalogue::Value;
use lacuna::{
    Canvas, Constraint, Delta, Fit, Grow, Options, Predictor, Result, Run, Token, TokenRule, TokenSet, decode,
};
use proptest::prelude::*;

use super::cases::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_run_ends_with_every_gap_decided_and_its_trace_replays(case in case()) {
        let run = case.run(case.options());
        prop_assert_eq!(run.canvas().masked().count(), 0);
        prop_assert_eq!(&run.trace().replay(), run.canvas());
        let last = run.trace().canvases().last().unwrap();
        prop_assert_eq!(&last, run.canvas());
        for (position, &token) in case.tokens.iter().enumerate() {
            prop_assert!(token == MASK || run.canvas().tokens()[position] == token, "fixed text was written over");
        }
    }

    #[test]
    fn only_masked_positions_up_to_the_block_are_committed_and_only_decided_ones_reopened(case in case()) {
        let run = case.run(case.options());
        let window = run.strategy().window.clone();
        let blocks = window.blocks(&run.trace().start, None).unwrap();
        let exceeds_window = run.strategy().pace.exceeds_window();
        let mut end = 0;
        let mut canvas = run.trace().start.clone();
        for delta in &run.trace().deltas {
            end = window.end(&canvas, blocks.get(delta.block).unwrap(), end);
            for commit in &delta.committed {
                prop_assert!(canvas.is_masked(commit.position) && (exceeds_window || commit.position < end));
                prop_assert!(commit.token != MASK);
            }
            for edit in &delta.edited {
                prop_assert!(canvas.is_decided(edit.position) && canvas.tokens()[edit.position] != edit.token);
            }
            prop_assert!(delta.committed.is_sorted_by_key(|commit| commit.position));
            prop_assert!(delta.edited.is_sorted_by_key(|commit| commit.position));
            prop_assert!(delta.reopened.is_sorted());
            delta.apply(&mut canvas);
        }
    }

    #[test]
    fn a_pace_keeps_its_bound(case in case()) {
        let run = case.run(case.options());
        let window = run.strategy().window.clone();
        let blocks = window.blocks(&run.trace().start, None).unwrap();
        let mut end = 0;
        for (canvas, delta) in run.trace().canvases().zip(&run.trace().deltas) {
            end = window.end(&canvas, blocks.get(delta.block).unwrap(), end);
            let candidates = canvas.masked_before(end).count();
            check_bound(&case, delta, candidates)?;
        }
    }

    /// This model's keys and values are never stale, so a cache changes nothing but that each block takes two steps or more.
    #[test]
    fn a_cache_commits_the_same_and_is_used_in_every_block(
        case in case(),
        strategy in prop::sample::select(vec!["confidence", "entropy+top2", "dos", "dos+eb", "margin+threshold", "dos+schedule"]),
        cache in prop::sample::select(vec!["prefix", "dual", "dkv", "dllm"]),
    ) {
        let params = case.params.clone().with("window", "blocks").unwrap();
        let case = Case { strategy: strategy.into(), rule: TokenRule::Greedy, params, ..case };
        let other = Case { params: case.params.clone().with("cache", cache).unwrap(), ..case.clone() };
        let (plain, cached) = (case.run(case.options()), other.run(case.options()));
        let told = |run: &Run| -> Vec<Delta> {
            run.trace().deltas.iter().filter(|delta| !delta.committed.is_empty()).cloned().collect()
        };
        prop_assert_eq!(told(&plain), told(&cached));
        prop_assert!(cached.rows_computed() <= plain.rows_computed() + cached.canvas().len() * cached.trace().deltas.len());
        let blocks = cached.trace().deltas.last().unwrap().block;
        for block in (0..=blocks).filter(|_| ["prefix", "dual"].contains(&cache)) {
            prop_assert!(cached.trace().deltas.iter().filter(|delta| delta.block == block).count() >= 2);
        }
    }

    #[test]
    fn a_run_is_the_same_alone_and_in_any_company(case in case(), others in prop::collection::vec(case(), 1..4)) {
        let alone = case.run(case.options());
        let mut together: Vec<Run> = vec![case.start(case.options())];
        together.extend(others.iter().map(|other| other.start(other.options())));
        decode(&mut together, &mut model(case.seed)).unwrap();
        prop_assert_eq!(alone.trace(), together[0].trace());
        prop_assert_eq!(alone.rows_read(), together[0].rows_read());
        prop_assert_eq!(alone.forwards(), alone.trace().deltas.len());
    }

    #[test]
    fn a_canvas_grows_within_its_bound_with_any_order_pace_window_and_cache(
        case in case(),
        length in 1..12usize,
        most in 0..30usize,
        cache in prop::sample::select(vec!["none", "prefix", "dual", "dkv", "dllm", "d2"]),
        counts in prop::collection::vec(1..6usize, 2),
        confidences in prop::collection::vec(0.0..1.0f64, 3),
    ) {
        let mut given = case.params.clone();
        for (name, value) in [("length", Value::from("daedal")), ("cache", cache.into()), ("end_token", 1usize.into()),
            ("end_check", counts[0].into()), ("expand_by", (1 + counts[1]).into()), ("end_confidence", confidences[0].into()),
            ("expand_confidence", confidences[1].into()), ("expand_below", confidences[2].into())] {
            given.set(name, &value).unwrap();
        }
        let Ok(strategy) = parse(&case.strategy, &given) else { return Ok(()) };
        let grow = Some(Grow { ends: Vec::new(), by: 0, most: 2 + length + most });
        let canvas = Canvas::with_tail(&[4, 5], length, MASK).unwrap();
        let mut model = model(case.seed);
        let run = Run::new(canvas, strategy, Options { grow, ..case.options() }, model.description());
        let Ok(run) = run else { return Ok(()) };
        let mut runs = [run];
        decode(&mut runs, &mut model).unwrap();
        let (canvas, trace) = (runs[0].canvas(), runs[0].trace());
        prop_assert_eq!(canvas.masked().count(), 0);
        prop_assert!((2 + length..=2 + length + most).contains(&canvas.len()));
        prop_assert_eq!(&trace.replay(), canvas);
        let decided = trace.decided(trace.deltas.len());
        prop_assert!(decided.len() == canvas.len() && canvas.gaps().all(|position| decided[position].is_some()));
    }

    #[test]
    fn early_stop_does_not_change_the_visible_text(case in case()) {
        let visible = |run: &Run| -> Vec<Token> {
            let gap = |&position: &usize| run.canvas().is_gap(position);
            let text = (0..run.canvas().len()).filter(gap).map(|position| run.canvas().tokens()[position]);
            text.take_while(|&token| token != STOP).collect()
        };
        let whole = case.run(case.options());
        let short = case.run(Options { stop: vec![STOP], ..case.options() });
        prop_assert_eq!(visible(&whole), visible(&short));
        prop_assert!(short.forwards() <= whole.forwards());
    }

    #[test]
    fn suppressed_tokens_never_appear(case in case()) {
        let mut options = case.options();
        options.suppressed = vec![STOP, 5];
        let run = case.run(options);
        let written = run.trace().deltas.iter().flat_map(|delta| delta.committed.iter().chain(&delta.edited));
        prop_assert!(written.into_iter().all(|commit| ![MASK, STOP, 5].contains(&commit.token)));
    }

    #[test]
    fn a_text_under_a_constraint_fits_at_every_step(
        case in case(),
        seed in any::<u64>(),
        count in 1..6u64,
        guidance in prop::sample::select(vec![0.0, 1.5]),
        deferred in prop::sample::select(vec![vec![], vec![STOP], (1..VOCABULARY as Token).collect()]),
    ) {
        let length = case.tokens.len() as u64;
        let token = |text, position| 1 + (random(&[seed, text, position]) * (VOCABULARY - 1) as f64) as Token;
        let texts = OneOf((0..count).map(|text| (0..length).map(|position| token(text, position)).collect()).collect());
        let mut options = Options { constraint: Some(Arc::new(texts.clone())), guidance, ..case.options() };
        options.sampling.deferred = deferred;
        let run = case.run(options);
        prop_assert_eq!(run.canvas().masked().count(), 0);
        for canvas in run.trace().canvases() {
            prop_assert!(texts.0.iter().any(|text| fits(text, &canvas)));
        }
    }
}

/// Some texts, of which the gaps of a canvas must hold one.
#[derive(Clone, Debug)]
struct OneOf(Vec<Vec<Token>>);

#[derive(Debug)]
struct OneOfFit(OneOf, Canvas);

fn fits(text: &[Token], canvas: &Canvas) -> bool {
    canvas.gaps().all(|position| canvas.is_masked(position) || canvas.tokens()[position] == text[position])
}

impl Constraint for OneOf {
    fn begin(&self, canvas: &Canvas) -> Result<Box<dyn Fit>> {
        Ok(Box::new(OneOfFit(self.clone(), canvas.clone())))
    }
}

impl Fit for OneOfFit {
    fn allowed(&mut self, position: usize) -> Option<TokenSet> {
        let before = self.1.tokens()[position];
        let others = (0..VOCABULARY as Token).filter(|&token| token == MASK || !self.fits_with(position, token));
        let allowed = TokenSet::all_but(VOCABULARY, &others.collect::<Vec<_>>());
        assert!(before == MASK || allowed.contains(before));
        self.1.is_gap(position).then_some(allowed)
    }

    fn write(&mut self, position: usize, token: Token) -> bool {
        let fits = self.fits_with(position, token);
        if fits {
            self.1.commit(position, token);
        }
        fits
    }

    fn reopen(&mut self, position: usize) {
        self.1.reopen(position);
    }
}

impl OneOfFit {
    fn fits_with(&self, position: usize, token: Token) -> bool {
        let mut canvas = self.1.clone();
        if canvas.is_gap(position) {
            canvas.commit(position, token);
        }
        self.0.0.iter().any(|text| fits(text, &canvas))
    }
}

fn check_bound(case: &Case, delta: &Delta, candidates: usize) -> std::result::Result<(), TestCaseError> {
    let committed = &delta.committed;
    let preset = lacuna::catalogue::PRESETS.iter().find(|preset| preset.name == case.strategy);
    let name = preset.map_or(case.strategy.as_str(), |preset| preset.parts(&case.params));
    let pace = name.split('+').nth(1).unwrap_or("top1");
    let number = |name: &str| case.params.number(name).unwrap();
    let waits = ["schedule", "prophet", "plan"].contains(&pace);
    let pauses = ["remdm", "core", "edit"].iter().any(|revision| name.ends_with(revision));
    if pauses && committed.is_empty() {
        return Ok(());
    }
    if !waits {
        prop_assert!(!committed.is_empty(), "a step must make progress");
    }
    let entropies = || committed.iter().map(|commit| commit.entropy);
    match pace {
        "top1" => prop_assert_eq!(committed.len(), 1),
        "top3" => prop_assert_eq!(committed.len(), candidates.min(3)),
        "eb" => {
            let excess = entropies().sum::<f64>() - entropies().fold(0.0, f64::max);
            prop_assert!(committed.len() == 1 || excess <= number("gamma") + 1e-9);
        }
        "threshold" => {
            let below = committed.iter().filter(|commit| commit.probability < number("threshold"));
            prop_assert!(below.count() <= 1);
        }
        "factor" => {
            let mut ranked: Vec<_> = committed.iter().collect();
            ranked.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.position.cmp(&b.position)));
            let mut rest = ranked.iter().enumerate().skip(1);
            prop_assert!(rest.all(|(rank, commit)| (rank + 2) as f64 * (1.0 - commit.probability) <= number("factor")));
        }
        "score-threshold" => {
            let below = committed.iter().filter(|commit| commit.score < number("threshold"));
            prop_assert!(below.count() <= 1);
        }
        _ => {}
    }
    Ok(())
}
