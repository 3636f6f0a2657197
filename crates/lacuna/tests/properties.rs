//! Properties of every strategy, on random models, canvases and blocks.

use std::collections::HashSet;
use std::sync::Arc;

use lacuna::catalogue::{Params, Section, Value, parts};
use lacuna::scripted::Scripted;
use lacuna::{
    Belief, Canvas, Changes, Constraint, Delta, Description, Draw, Error, Fit, Grow, Observation, Options, Pace,
    Predictor, Ranked, ReadPlan, Reads, Recipe, Result, Revision, Row, Run, Sampling, StepContext, StopRule, Strategy,
    Target, Token, TokenRule, TokenSet, View, decode,
};
use proptest::prelude::*;

const MASK: Token = 0;
const STOP: Token = 1;
const VOCABULARY: usize = 12;
const LAYERS: usize = 3;

/// Every order with every pace, some with a revision, as far as they go together.
fn strategies() -> Vec<String> {
    let names = |section| parts(section).into_iter().map(|part| part.name.to_string());
    let mut all: Vec<String> = lacuna::catalogue::PRESETS.iter().map(|preset| preset.name.to_string()).collect();
    for order in names(Section::Order) {
        for pace in names(Section::Pace).chain(["top3".to_string()]) {
            let revised = names(Section::Revision).map(|revision| format!("{order}+{pace}+{revision}"));
            all.extend([format!("{order}+{pace}")].into_iter().chain(revised));
        }
    }
    // What is made for block-causal attention has tests of its own.
    all.retain(|name| parse(name, &values(0.5, 0.5, 0, &[0])).is_ok_and(|strategy| !strategy.cache.is_causal()));
    assert!(all.len() > 100, "{all:?}");
    all
}

/// A value for every parameter of a part.
fn values(gamma: f64, threshold: f64, first: usize, layers: &[usize]) -> Params {
    let numbers = [
        ("gamma", gamma),
        ("threshold", threshold),
        ("factor", 1.0 + gamma),
        ("conf_threshold", threshold),
        ("kl_threshold", 1.0),
        ("remask_threshold", threshold),
        ("low_threshold", threshold / 2.0),
        ("gap_late", gamma),
        ("remdm_start", threshold),
        ("credit_weight", gamma),
        ("tau_sink", 0.1),
        ("tau_edge", 0.06),
        ("tau_low", threshold),
        ("tau_induce", threshold),
        ("edit_threshold", threshold),
    ];
    let counts = [
        ("history", 1 + first % 3),
        ("saber_n", 1 + first % 4),
        ("block_length", 1 + first % 11),
        ("remdm_loops", first % 5),
        ("answer_offset", first),
        ("revise_every", 1 + first % 3),
        ("unroll", 1 + first % 2),
        ("block_steps", 1 + first % 5),
        ("max_edit_steps", first % 4),
    ];
    let params = numbers.into_iter().try_fold(Params::new(), |params, (name, value)| params.with(name, value)).unwrap();
    let params = counts.into_iter().try_fold(params, |params, (name, value)| params.with(name, value)).unwrap();
    let mut distinct = layers.to_vec();
    distinct.dedup();
    let frequencies = r#"{"num_token": 100, "p_baseline_dict": {"3": 40, "4": 2}}"#;
    let params = params.with("places", &[3usize, 0, 5][..]).unwrap();
    params.with("layer", &distinct[..]).unwrap().with("frequencies", frequencies).unwrap()
}

/// The strategy with those of the parameters that it uses.
fn parse(name: &str, params: &Params) -> Result<Strategy> {
    let recipe = Recipe::parse(name, params)?;
    Strategy::parse(name, &params.filter(|parameter| recipe.uses(parameter)))
}

fn params<const N: usize>(values: [(&str, Value); N]) -> Params {
    values.into_iter().try_fold(Params::new(), |params, (name, value)| params.with(name, value)).unwrap()
}

fn random(keys: &[u64]) -> f64 {
    let seed = keys.iter().fold(0u64, |seed, &key| (Draw::new(seed, 1, 2).uniform(key) * 1e15) as u64);
    Draw::new(seed, 0, 0).uniform(0)
}

/// A model whose logits and attention are hashes of everything it sees.
fn model(seed: u64) -> Scripted {
    let digest =
        |tokens: &[Token]| tokens.iter().fold(7u64, |sum, &token| sum.wrapping_mul(31).wrapping_add(u64::from(token)));
    let logits = move |tokens: &[Token], position: usize| {
        let logit = |token: u64| (6.0 * random(&[seed, digest(tokens), position as u64, token])) as f32;
        (0..VOCABULARY as u64).map(logit).collect()
    };
    let attention = move |tokens: &[Token], source: &lacuna::AttentionSource, from: usize, to: usize| {
        let heads = source.heads.iter().sum::<usize>() as u64;
        let raw = |to: usize| random(&[seed, source.layer as u64, heads, from as u64, to as u64]);
        (raw(to) / (0..tokens.len()).map(raw).sum::<f64>()) as f32
    };
    Scripted::new(VOCABULARY, MASK, logits).with_attention(LAYERS, attention)
}

#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    tokens: Vec<Token>,
    strategy: String,
    params: Params,
    rule: TokenRule,
}

impl Case {
    fn options(&self) -> Options {
        let sampling = Sampling { rule: self.rule, ..Sampling::default() };
        Options { sampling, seed: self.seed, ..Options::default() }
    }

    fn start(&self, options: Options) -> Run {
        let canvas = Canvas::new(self.tokens.clone(), MASK).unwrap();
        let strategy = parse(&self.strategy, &self.params).unwrap();
        Run::new(canvas, strategy, options, model(0).description()).unwrap()
    }

    fn run(&self, options: Options) -> Run {
        let mut runs = [self.start(options)];
        decode(&mut runs, &mut model(self.seed)).unwrap();
        let [run] = runs;
        run
    }
}

prop_compose! {
    fn case()(
        seed in any::<u32>(),
        mut tokens in prop::collection::vec(0..VOCABULARY as Token, 1..24),
        first in 0..24usize,
        strategy in prop::sample::select(strategies()),
        window in prop::sample::select(vec!["blocks", "sliding"]),
        gamma in 0.0..3.0f64,
        threshold in 0.01..1.0f64,
        layers in prop::collection::vec(0..LAYERS, 1..3),
        temperature in prop::option::of(0.1..2.0f64),
        nucleus in any::<bool>(),
    ) -> Case {
        let first = first % tokens.len();
        tokens[first] = MASK;
        let params = values(gamma, threshold, first, &layers).with("window", window).unwrap();
        let rule = match temperature {
            None => TokenRule::Greedy,
            Some(temperature) if nucleus => TokenRule::Nucleus { temperature, top_p: 0.3 + threshold, top_k: first },
            Some(temperature) => TokenRule::Gumbel { temperature },
        };
        Case { seed: u64::from(seed), tokens, strategy, params, rule }
    }
}

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

/// Counts what a predictor is asked.
struct Counting {
    model: Scripted,
    reads: usize,
    rows: usize,
}

impl Predictor for Counting {
    fn description(&self) -> &Description {
        self.model.description()
    }
    fn observe(&mut self, views: &[View<'_>]) -> Result<Vec<Observation>> {
        self.model.observe(views)
    }
    fn read(&mut self, rows: &[Row<'_>]) -> Result<Vec<Belief>> {
        self.reads += 1;
        self.rows += rows.len();
        self.model.read(rows)
    }
    fn forget(&mut self, run: u64) {
        self.model.forget(run);
    }
}

#[test]
fn dos_pays_for_no_row_that_it_does_not_commit() {
    for (strategy, rows) in
        [("dos", 20), ("dos+top3", 20), ("dos+schedule", 20), ("dos+score-threshold", 20), ("confidence", 210)]
    {
        let mut model = Counting { model: model(3), reads: 0, rows: 0 };
        let canvas = Canvas::with_tail(&[4, 5], 20, MASK).unwrap();
        let strategy = parse(strategy, &params([("threshold", 0.3.into())])).unwrap();
        let mut runs = [Run::new(canvas, strategy, Options::default(), model.description()).unwrap()];
        decode(&mut runs, &mut model).unwrap();
        assert_eq!((model.rows, runs[0].rows_read()), (rows, rows));
    }
}

#[test]
fn runs_read_together_what_they_can_foresee() {
    let mut model = Counting { model: model(3), reads: 0, rows: 0 };
    let start = |(length, strategy): (usize, &str)| {
        let canvas = Canvas::with_tail(&[4, 5], length, MASK).unwrap();
        let strategy = Strategy::parse(strategy, &Params::new()).unwrap();
        Run::new(canvas, strategy, Options::default(), model.description()).unwrap()
    };
    let mut runs = [(20, "dos"), (7, "confidence"), (20, "random+top2"), (12, "entropy+eb")].map(start);
    decode(&mut runs, &mut model).unwrap();
    assert_eq!(model.reads, 20, "one read for each shared step");
}

/// Checks what is read against what was foretold.
struct Foretold {
    model: Scripted,
    /// Of the last view: what is read whatever it shows; what is ranked, in order; how much of that.
    sure: Vec<Target>,
    ranked: Vec<Target>,
    expected: usize,
    most: usize,
    read: Vec<Target>,
}

impl Foretold {
    /// The step before was foretold rightly: all that was sure, but for what is verified only now and then, and of what is
    /// ranked those in front.
    fn check(&mut self) {
        let read: HashSet<Target> = self.read.drain(..).collect();
        let shadow = |place: &Target| matches!(place, Target::Shadow(_));
        assert!(self.sure.iter().all(|place| shadow(place) || read.contains(place)), "{:?} of {read:?}", self.sure);
        let depth = self.ranked.iter().take_while(|place| read.contains(place)).count();
        assert!((self.expected..=self.most).contains(&depth), "{depth} are not {}..={}", self.expected, self.most);
        let foretold: HashSet<Target> = self.sure.iter().chain(&self.ranked[..depth]).copied().collect();
        assert!(read.is_subset(&foretold), "{read:?} were read, {foretold:?} foretold");
    }
}

impl Predictor for Foretold {
    fn description(&self) -> &Description {
        self.model.description()
    }
    fn observe(&mut self, views: &[View<'_>]) -> Result<Vec<Observation>> {
        self.check();
        let seen = self.model.observe(views)?;
        let ReadPlan { certain, ranked, expected, most, stop, rank } = views[0].plan;
        let (sources, temperature) = rank.map_or((0, 0.0), |rank| (rank.sources, rank.temperature));
        let score = |row: &&Row<'_>| -> f64 {
            let scores = seen[0].dependency[..sources].iter().map(|scores| f64::from(scores[row.target.position()]));
            let mean = scores.sum::<f64>() / sources as f64;
            if temperature > 0.0 { mean / temperature + row.draw.order_noise() } else { mean }
        };
        let mut ranked: Vec<&Row<'_>> = ranked.iter().collect();
        if sources > 0 {
            ranked.sort_by(|a, b| score(b).total_cmp(&score(a)));
        }
        self.sure = certain.iter().map(|row| row.target).collect();
        self.ranked = ranked.iter().map(|row| row.target).collect();
        (self.expected, self.most) = (expected, most);
        match stop {
            None => {}
            Some(StopRule::Score(least)) => {
                self.most = ranked.iter().take_while(|row| score(row) >= least).count().max(1);
            }
            Some(StopRule::Sum { bound, .. }) => {
                let rows: Vec<Row<'_>> = ranked.iter().map(|row| **row).collect();
                let entropies: Vec<f64> = self.model.read(&rows)?.iter().map(|belief| belief.entropy).collect();
                let excess = |count: usize| {
                    entropies[..count].iter().sum::<f64>() - entropies[..count].iter().copied().fold(0.0, f64::max)
                };
                let doubled = std::iter::successors(Some(expected), |count| Some(2 * count));
                self.most =
                    doubled.take_while(|count| *count < most).find(|count| excess(*count) > bound).unwrap_or(most);
            }
        }
        Ok(seen)
    }
    fn read(&mut self, rows: &[Row<'_>]) -> Result<Vec<Belief>> {
        self.read.extend(rows.iter().map(|row| row.target));
        self.model.read(rows)
    }
    fn forget(&mut self, run: u64) {
        self.model.forget(run);
    }
}

#[test]
fn what_is_foretold_is_what_is_read() {
    for name in [
        "dos",
        "dos+top3",
        "dos+eb",
        "dos+threshold",
        "random",
        "random+eb",
        "confidence",
        "margin+eb",
        "entropy+schedule",
        "fast-dllm",
        "klass",
        "dos+klass",
        "saber",
        "wino",
        "dos+score-threshold",
        "dos+schedule",
        "dos+threshold+backtrack",
        "dos+eb+backtrack",
        "dos+top3+verify",
        "random+eb+verify",
        "p2",
        "hierarchy-remask",
        "dos+top3+regroup",
        "remdm",
        "dos+top2+remdm",
        "dos+credit",
        "dawn",
        "dos+dawn",
    ] {
        let can_be_drawn = !name.starts_with("random") && !name.ends_with("score-threshold");
        for order_temperature in [0.0, 0.3].into_iter().take(1 + usize::from(can_be_drawn)) {
            let (sure, ranked, read) = Default::default();
            let mut model = Foretold { model: model(3), sure, ranked, expected: 0, most: 0, read };
            let canvas = Canvas::with_tail(&[4, 5], 20, MASK).unwrap();
            let drawn = params([("threshold", 0.3.into()), ("order_temperature", order_temperature.into())]);
            let strategy = parse(name, &drawn).unwrap();
            let mut runs = [Run::new(canvas, strategy, Options::default(), model.description()).unwrap()];
            decode(&mut runs, &mut model).unwrap();
            assert!(!(model.sure.is_empty() && model.ranked.is_empty()), "{name}");
            model.check();
        }
    }
}

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
fn requests_that_cannot_work_are_refused_at_the_start() {
    let start = |strategy: &str, params: Params, length: usize, model: &Description| {
        let canvas = Canvas::with_tail(&[4], length, MASK)?;
        Run::new(canvas, Strategy::parse(strategy, &params)?, Options::default(), model)
    };
    let able = model(0).description().clone();
    let message = |strategy: &str, params: Params, length: usize, model: &Description| {
        start(strategy, params, length, model).expect_err("it is refused").to_string()
    };
    let none = Params::new;
    let of = |name: &'static str, value: Value| params([(name, value)]);
    let shifted = Description { shadows: false, ..able.clone() };
    let short = Description { context: 8, ..able.clone() };
    let plain = Description { credits: false, matrices: false, ..able.clone() };
    let cases = [
        (message("dos", of("layer", 3usize.into()), 4, &able), "layer 3 does not exist: the model has layers 0 to 2"),
        (message("dos", of("heads", 1usize.into()), 4, &able), "head 1 does not exist"),
        (message("dos", none(), 8, &short), "the canvas has 9 positions, but the model's context ends at 8"),
        (message("wino", none(), 4, &shifted), "WINO verifies a token"),
        (message("credit", none(), 4, &plain), "credit cannot be added to the logits of this model here"),
        (message("dos+dawn", none(), 4, &plain), "looks at whole attention matrices"),
        (message("dawn", of("cache", "dual".into()), 4, &able), "decode without a cache"),
        (message("dawn", of("graph_layers", 3usize.into()), 4, &able), "layer 3 does not exist"),
        (message("prior", none(), 4, &able), "'prior' needs frequencies"),
        (message("given", none(), 4, &able), "'given' needs places"),
        (message("prior", of("frequencies", "{}".into()), 4, &able), "must be JSON with num_token"),
        (message("core", of("cache", "dual".into()), 4, &able), "decode without a cache"),
        (message("dos+schedule+replan", none(), 4, &able), "a schedule promises to end"),
        (message("dos", none(), 0, &able), "no masked position"),
        (message("dso", none(), 4, &able), "did you mean 'dos'?"),
        (message("dos+ebb", none(), 4, &able), "did you mean 'eb'?"),
        (message("eb", none(), 4, &able), "write <order>+eb"),
        (message("random+score-threshold", of("threshold", 0.5.into()), 4, &able), "says nothing that a threshold"),
        (message("dos+score-threshold", none(), 4, &able), "'score-threshold' needs threshold"),
        (message("llada+verify", none(), 4, &able), "'llada' is a preset and stands alone"),
        (message("dos+schedule+verify", none(), 4, &able), "a schedule promises to end"),
        (message("dos+verify", none(), 4, &able), "top1 leaves it nothing to do"),
        (message("dos+top0", none(), 4, &able), "would never fill anything"),
        (message("random", of("order_temperature", 1.0.into()), 4, &able), "no scores that a temperature"),
        (message("dos", of("gamma", 0.1.into()), 4, &able), "gamma has no effect with 'dos': it belongs to eb"),
        (
            message("llada", of("eps", 0.1.into()), 4, &able),
            "eps has no effect with schedule llada; set schedule to dream",
        ),
        (
            message("fast-dllm", of("threshold", 7.0.into()), 4, &able),
            "threshold is 7, but it must be more than 0 and at most 1",
        ),
        (message("fast-dllm", of("threshold", 0.0.into()), 4, &able), "threshold is 0"),
    ];
    for (message, expected) in cases {
        assert!(message.contains(expected), "{message}");
    }
    let blank = Scripted::new(VOCABULARY, MASK, |_, _| Vec::new());
    assert!(matches!(start("dos", none(), 4, blank.description()), Err(Error::NoSuchLayer { layers: 0, .. })));
}

#[test]
fn logits_that_are_not_finite_are_reported_with_their_position() {
    for bad in [f32::NAN, f32::INFINITY] {
        let mut model = Scripted::new(VOCABULARY, MASK, move |_, position| {
            let mut logits = vec![0.0; VOCABULARY];
            logits[3] = if position == 2 { bad } else { 1.0 };
            logits
        });
        let canvas = Canvas::with_tail(&[4], 3, MASK).unwrap();
        let strategy = Strategy::parse("confidence", &Params::new()).unwrap();
        let mut runs = [Run::new(canvas, strategy, Options::default(), model.description()).unwrap()];
        let error = decode(&mut runs, &mut model).unwrap_err();
        assert!(matches!(error, Error::NotFinite { position: 2 }), "{error}");
    }
}

#[test]
fn values_outside_their_range_are_refused() {
    for (name, value, expected) in [
        ("gamma", Value::Number(-1.0), "gamma is -1, but it must be 0 or more and at most 1000000"),
        ("gamma", Value::Number(f64::INFINITY), "gamma is inf"),
        ("gamma", Value::Text("much".into()), "gamma is much"),
        ("temperature", Value::Number(1e308), "temperature is 1e308"),
        ("steps", Value::Integer(0), "steps is 0, but it must be a whole number from 1 to 65536"),
        ("steps", Value::Number(2.5), "steps is 2.5"),
        ("heads", Value::Integers(vec![0, 0]), "heads is 0,0, but it must be a list of distinct whole numbers"),
        ("layer", Value::Integers(vec![]), "layer is"),
        ("layer", Value::Text("4-2".into()), "layer is 4-2"),
        ("cache", Value::Text("most".into()), "cache is most, but it must be one of none, blocks, prefix, dual, dkv"),
        ("gamna", Value::Number(1.0), "there is no parameter 'gamna'"),
    ] {
        let message = Params::new().with(name, value).unwrap_err().to_string();
        assert!(message.starts_with(expected), "{message}");
    }
    assert_eq!(params([("layer", "2-4".into())]), params([("layer", Value::Integers(vec![2, 3, 4]))]));
    assert_eq!(params([("steps", 4.0.into())]), params([("steps", 4usize.into())]));
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

/// A pace that never chooses.
#[derive(Clone, Debug)]
struct Never;

impl Pace for Never {
    fn reads(&self, _block: &lacuna::Block, _candidates: usize) -> Reads {
        Reads::First(0)
    }

    fn choose(&mut self, _ranked: &Ranked<'_>) -> Result<Vec<usize>> {
        Ok(Vec::new())
    }
}

/// A pace that chooses a position that is not masked.
#[derive(Clone, Debug)]
struct Stray;

impl Pace for Stray {
    fn reads(&self, _block: &lacuna::Block, _candidates: usize) -> Reads {
        Reads::All
    }

    fn choose(&mut self, _ranked: &Ranked<'_>) -> Result<Vec<usize>> {
        Ok(vec![0])
    }
}

#[test]
fn a_pace_that_cannot_be_followed_ends_the_run_with_an_error() {
    let run = |strategy: Strategy| {
        let canvas = Canvas::with_tail(&[4], 3, MASK).unwrap();
        let mut runs = [Run::new(canvas, strategy, Options::default(), model(0).description()).unwrap()];
        decode(&mut runs, &mut model(0)).unwrap_err()
    };
    assert!(matches!(run(Strategy::new("never", lacuna::Confidence, Never)), Error::NoProgress { step: 0 }));
    assert!(matches!(run(Strategy::new("stray", lacuna::Random, Stray)), Error::NotACandidate { position: 0, .. }));
}

/// A revision that names a position of the prompt.
#[derive(Clone, Debug)]
struct Trespass(bool);

impl Revision for Trespass {
    fn rows(&self, _canvas: &Canvas, _block: &lacuna::Block) -> Vec<Target> {
        Vec::new()
    }

    fn probe(&self, _chosen: &[usize], _context: &StepContext<'_>) -> Result<Vec<usize>> {
        Ok(if self.0 { vec![0] } else { Vec::new() })
    }

    fn revise(&mut self, _chosen: &[usize], _filled: bool, _context: &StepContext<'_>) -> Result<Changes> {
        Ok(Changes::reopen(vec![0]))
    }

    fn settled(&self, _block: &lacuna::Block) -> usize {
        0
    }
}

#[test]
fn a_revision_touches_nothing_but_decided_gaps() {
    for probes in [false, true] {
        let canvas = Canvas::with_tail(&[4], 3, MASK).unwrap();
        let mut strategy = Strategy::new("trespass", lacuna::Confidence, lacuna::TopK(2));
        strategy.revision = Some(Box::new(Trespass(probes)));
        let mut runs = [Run::new(canvas, strategy, Options::default(), model(0).description()).unwrap()];
        let error = decode(&mut runs, &mut model(0)).unwrap_err();
        assert!(matches!(error, Error::NotDecided { position: 0, step: 0 }), "{error}");
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
