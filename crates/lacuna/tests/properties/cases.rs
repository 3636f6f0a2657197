//! Random models, canvases, blocks and strategies.

use lacuna::catalogue::{Params, Section, Value, parts};
use lacuna::scripted::Scripted;
use lacuna::{Canvas, Draw, Options, Predictor, Recipe, Result, Run, Sampling, Strategy, Token, TokenRule, decode};
use proptest::prelude::*;

pub(crate) const MASK: Token = 0;
pub(crate) const STOP: Token = 1;
pub(crate) const VOCABULARY: usize = 12;
pub(crate) const LAYERS: usize = 3;

/// Every order with every pace, some with a revision, as far as they go together.
pub(crate) fn strategies() -> Vec<String> {
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
pub(crate) fn values(gamma: f64, threshold: f64, first: usize, layers: &[usize]) -> Params {
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
pub(crate) fn parse(name: &str, params: &Params) -> Result<Strategy> {
    let recipe = Recipe::parse(name, params)?;
    Strategy::parse(name, &params.filter(|parameter| recipe.uses(parameter)))
}

pub(crate) fn params<const N: usize>(values: [(&str, Value); N]) -> Params {
    values.into_iter().try_fold(Params::new(), |params, (name, value)| params.with(name, value)).unwrap()
}

pub(crate) fn random(keys: &[u64]) -> f64 {
    let seed = keys.iter().fold(0u64, |seed, &key| (Draw::new(seed, 1, 2).uniform(key) * 1e15) as u64);
    Draw::new(seed, 0, 0).uniform(0)
}

/// A model whose logits and attention are hashes of everything it sees.
pub(crate) fn model(seed: u64) -> Scripted {
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
pub(crate) struct Case {
    pub seed: u64,
    pub tokens: Vec<Token>,
    pub strategy: String,
    pub params: Params,
    pub rule: TokenRule,
}

impl Case {
    pub(crate) fn options(&self) -> Options {
        let sampling = Sampling { rule: self.rule, ..Sampling::default() };
        Options { sampling, seed: self.seed, ..Options::default() }
    }

    pub(crate) fn start(&self, options: Options) -> Run {
        let canvas = Canvas::new(self.tokens.clone(), MASK).unwrap();
        let strategy = parse(&self.strategy, &self.params).unwrap();
        Run::new(canvas, strategy, options, model(0).description()).unwrap()
    }

    pub(crate) fn run(&self, options: Options) -> Run {
        let mut runs = [self.start(options)];
        decode(&mut runs, &mut model(self.seed)).unwrap();
        let [run] = runs;
        run
    }
}

prop_compose! {
    pub fn case()(
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
