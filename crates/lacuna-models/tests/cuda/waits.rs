//! The number of times that a step waits for the GPU.

use super::*;

/// A step waits once for the GPU, whatever it reads, and gives what it gives without a plan.
pub(super) fn assert_one_wait(model: &mut CudaPredictor, prompt: usize, length: usize) {
    let nucleus = |top_p, top_k| TokenRule::Nucleus { temperature: 0.7, top_p, top_k };
    let drawn = |choice| Options { sampling: Sampling { rule: choice, ..Sampling::default() }, ..Options::default() };
    let guided = |choice| Options { guidance: 1.5, ..drawn(choice) };
    let options = [
        Options::default(),
        drawn(TokenRule::Gumbel { temperature: 0.7 }),
        guided(TokenRule::Greedy),
        guided(nucleus(1.0, 0)),
        guided(nucleus(0.9, 20)),
    ];
    let names = ["dos", "dos+top3", "dos+eb", "confidence", "random+eb"];
    let mut cases: Vec<(&str, &Options)> =
        names.iter().flat_map(|name| options.iter().map(|options| (*name, options))).collect();
    let others =
        ["random", "dos+threshold", "dos+klass", "dos+eb+backtrack", "margin+eb", "fast-dllm", "klass", "saber"];
    cases.extend(others.map(|name| (name, &options[0])));
    if model.description().shadows {
        cases.extend(["wino", "dos+eb+verify"].map(|name| (name, &options[0])));
    }
    let params = Params::new().with("layer", &[1, 3][..]).unwrap();
    for (strategy, options) in cases {
        assert_one_wait_for(model, (prompt, length, length), &[strategy], &params, options);
    }
    for strategy in names {
        for cache in ["prefix", "dual", "dkv"] {
            let params = params.clone().with("cache", cache).unwrap();
            assert_one_wait_for(model, (prompt, length, length / 3), &[strategy], &params, &options[0]);
        }
    }
    // From one block to the next.
    let pairs = [["klass", "dos+eb"], ["dos+klass", "saber"], ["wino", "dos+eb+verify"]];
    for strategies in pairs.iter().take(if model.description().shadows { 3 } else { 2 }) {
        assert_one_wait_for(model, (prompt, 12, 4), strategies, &params, &options[0]);
    }
    // Bounds between all and nothing, so that reads end in any of their rounds, and orders that are drawn.
    let entropy = (model.description().vocabulary as f64).ln();
    for (positions, order_temperature) in [(4.0, 0.0), (12.0, 0.2), (1e3, 0.2)] {
        let gamma = positions * entropy;
        let params = params.clone().with("gamma", gamma).unwrap().with("threshold", 0.1).unwrap();
        let params = params.with("order_temperature", order_temperature).unwrap();
        for strategies in [&["dos+eb"][..], &["dos+score-threshold"]] {
            assert_one_wait_for(model, (prompt, length, length), strategies, &params, &options[0]);
        }
        let together = ["dos+eb", "random+eb", "dos", "dos+eb"];
        assert_one_wait_for(model, (prompt, length, length), &together, &params, &options[4]);
    }
}

/// The same for canvases that are decoded together: a prompt of so many tokens, so many to decode, in blocks of so many.
fn assert_one_wait_for(
    model: &mut CudaPredictor,
    (prompt, length, block): (usize, usize, usize),
    strategies: &[&str],
    params: &Params,
    options: &Options,
) {
    let begin = |model: &dyn Predictor| -> Vec<Run> {
        let begin = |(strategy, seed): (&&str, u64)| {
            let tokens: Vec<Token> = (5..).take(prompt + seed as usize).collect();
            let canvas = Canvas::with_tail(&tokens, length, model.description().mask).unwrap();
            let can_be_drawn = !strategy.starts_with("random") && !strategy.ends_with("score-threshold");
            let recipe = Recipe::parse(strategy, params).unwrap();
            let used = params.filter(|name| recipe.uses(name) && (can_be_drawn || name != "order_temperature"));
            let strategy = Strategy::parse(strategy, &used).unwrap().in_blocks(block);
            let options = Options { seed, ..options.clone() };
            Run::new(canvas, strategy, options, model.description()).unwrap()
        };
        strategies.iter().zip(0..).map(begin).collect()
    };
    let step = |runs: &mut [Run], model: &mut dyn Predictor| {
        let mut runs: Vec<&mut Run> = runs.iter_mut().filter(|run| !run.is_finished()).collect();
        if !runs.is_empty() {
            lacuna::step(&mut runs, model).unwrap();
        }
    };
    let mut blind = begin(model);
    let steps = if length < 16 { length } else { 4 };
    (0..steps).for_each(|_| step(&mut blind, &mut Blind(model)));
    let mut waits = Vec::new();
    // Once for buffers to grow.
    for _ in 0..2 {
        let mut runs = begin(model);
        waits.clear();
        while waits.len() < steps && runs.iter().any(|run| !run.is_finished()) {
            let before = model.waits();
            step(&mut runs, model);
            waits.push(model.waits() - before);
        }
        for (run, blind) in runs.into_iter().zip(&blind) {
            assert_eq!(run.trace(), blind.trace(), "{strategies:?} with {params:?}, {options:?}");
            run.abandon(model);
        }
    }
    assert!(waits.iter().all(|waits| *waits == 1), "{waits:?}: {strategies:?} with {params:?}, {options:?}");
    blind.into_iter().for_each(|run| run.abandon(model));
}

/// A model that gets no plans.
struct Blind<'a>(&'a mut dyn Predictor);

impl Wrapper for Blind<'_> {
    fn inner(&self) -> &dyn Predictor {
        self.0
    }

    fn inner_mut(&mut self) -> &mut dyn Predictor {
        self.0
    }

    fn observe(&mut self, views: &[View<'_>]) -> lacuna::Result<Vec<Observation>> {
        let views: Vec<View<'_>> =
            views.iter().map(|view| View { plan: lacuna::ReadPlan::default(), ..*view }).collect();
        self.0.observe(&views)
    }
}
