//! Properties of every strategy if attention is block-causal: keys and values that are not computed again are never stale.

use std::collections::HashMap;

use lacuna::catalogue::{PRESETS, Params, Section, parts};
use lacuna::scripted::Scripted;
use lacuna::{
    Belief, Canvas, Compute, Description, Draw, Observation, Options, Pass, Predictor, Recipe, Result, Row, Run,
    Strategy, Token, View, Visibility, decode,
};
use proptest::prelude::*;

const MASK: Token = 0;
const VOCABULARY: usize = 12;

/// A block-causal model that refuses to attend to what has changed since it was computed, and to be read where it was not.
struct Strict {
    inner: Scripted,
    description: Description,
    /// For each position of a run that was computed, everything it saw then.
    kept: HashMap<(u64, usize), Vec<Token>>,
    /// The rows of each view.
    computed: Vec<Vec<usize>>,
    /// Most positions of a piece, and of a view so far.
    piece: usize,
    most: usize,
}

impl Strict {
    fn new(seed: u64, length: usize, shifted: bool) -> Self {
        let hash = move |keys: &[u64]| {
            let seed = keys.iter().fold(seed, |seed, &key| (Draw::new(seed, 1, 2).uniform(key) * 1e15) as u64);
            Draw::new(seed, 0, 0).uniform(0)
        };
        let digest = |tokens: &[Token]| tokens.iter().fold(7u64, |sum, &token| sum * 31 % 999_983 + u64::from(token));
        let logits = move |tokens: &[Token], position: usize| {
            let logit = |token: u64| (6.0 * hash(&[digest(tokens), position as u64, token])) as f32;
            (0..VOCABULARY as u64).map(logit).collect()
        };
        let attention = move |tokens: &[Token], _: &lacuna::AttentionSource, from: usize, to: usize| {
            (hash(&[from as u64, to as u64]) / tokens.len() as f64) as f32
        };
        let inner = Scripted::new(VOCABULARY, MASK, logits).with_attention(2, attention).in_blocks(length);
        let description = Description { shifted, shadows: !shifted, ..inner.description().clone() };
        Self { inner, description, kept: HashMap::new(), computed: Vec::new(), piece: usize::MAX, most: 0 }
    }
}

impl Predictor for Strict {
    fn description(&self) -> &Description {
        &self.description
    }

    fn observe(&mut self, views: &[View<'_>]) -> Result<Vec<Observation>> {
        self.computed.clear();
        for view in views {
            let blocks = view.blocks.expect("a run names its blocks");
            let end = |position| blocks.end(position).min(view.tokens.len());
            let Compute::Only(positions) = view.compute else {
                assert_eq!(view.compute, Compute::All);
                self.computed.push((0..view.tokens.len()).collect());
                continue;
            };
            for &position in positions {
                self.kept.insert((view.run, position), view.tokens[..end(position)].to_vec());
            }
            for position in 0..end(*positions.last().unwrap()) {
                assert_eq!(
                    self.kept[&(view.run, position)],
                    view.tokens[..end(position)],
                    "position {position} is stale"
                );
            }
            self.computed.push(positions.to_vec());
            self.most = self.most.max(positions.len());
        }
        self.inner.observe(views)
    }

    fn read(&mut self, rows: &[Row<'_>]) -> Result<Vec<Belief>> {
        for row in rows {
            let position = row.target.position();
            let position = if self.description.shifted { position.saturating_sub(1) } else { position };
            assert!(self.computed[row.view].contains(&position), "row {position} was not computed");
        }
        self.inner.read(rows)
    }

    fn piece(&self) -> usize {
        self.piece
    }

    fn forget(&mut self, run: u64) {
        self.kept.retain(|(owner, _), _| *owner != run);
        self.inner.forget(run);
    }
}

/// Every preset, and every pace and revision with some order.
fn strategies() -> Vec<String> {
    let names = |section| parts(section).into_iter().map(|part| part.name.to_string());
    let mut all: Vec<String> = PRESETS.iter().map(|preset| preset.name.to_string()).collect();
    for pace in names(Section::Pace).chain(["top2".to_string()]) {
        all.extend(["dos", "confidence"].map(|order| format!("{order}+{pace}")));
        all.extend(names(Section::Revision).map(|revision| format!("dos+{pace}+{revision}")));
    }
    all.retain(|name| parse(name, &values(0.5, 1)).is_ok());
    all
}

fn values(threshold: f64, length: usize) -> Params {
    let params = ["threshold", "low_threshold", "conf_threshold", "remdm_start", "edit_threshold", "tau_low"]
        .into_iter()
        .try_fold(Params::new(), |params, name| params.with(name, threshold));
    let counts = [("block_length", length), ("sub_block_length", 2), ("answer_offset", 1), ("remdm_loops", 2)];
    let params = counts.into_iter().try_fold(params.unwrap(), |params, (name, value)| params.with(name, value));
    params.unwrap().with("frequencies", r#"{"num_token": 9, "p_baseline_dict": {"3": 4}}"#).unwrap()
}

fn parse(name: &str, params: &Params) -> Result<Strategy> {
    let recipe = Recipe::parse(name, params)?;
    Strategy::parse(name, &params.filter(|parameter| recipe.uses(parameter)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn finished_blocks_are_computed_once_and_never_stale(
        seed in any::<u32>(),
        prompt in 1..30usize,
        piece in 1..20usize,
        length in 1..20usize,
        block in 1..7usize,
        strategy in prop::sample::select(strategies()),
        threshold in 0.05..1.0f64,
        shifted in any::<bool>(),
        guidance in prop::sample::select(vec![0.0, 0.0, 0.5]),
    ) {
        let mut model = Strict { piece, ..Strict::new(u64::from(seed), 3, shifted) };
        let strategy = parse(&strategy, &values(threshold, block)).unwrap();
        // A sliding window goes beyond the block, and so do paces that exceed the window.
        let (window, exceeds_window) = (strategy.window.clone(), strategy.pace.exceeds_window() || strategy.name == "dsb");
        let end = window.canvas_length(prompt, length, model.description());
        prop_assume!(end > prompt);
        let canvas = Canvas::with_tail(&vec![3; prompt], end - prompt, MASK).unwrap();
        let options = Options { guidance, ..Options::default() };
        let run = Run::new(canvas, strategy, options, model.description());
        // What does not go with a model is refused with a sentence.
        prop_assume!(run.is_ok());
        let mut runs = [run.unwrap()];
        let decoded = decode(&mut runs, &mut model);
        // A pace that may wait and a revision that reopens can go round in circles, which is reported.
        prop_assume!(!matches!(decoded, Err(lacuna::Error::NoProgress { .. })));
        decoded.unwrap();
        let run = &runs[0];
        prop_assert_eq!(run.canvas().masked().count(), 0);
        prop_assert_eq!(&run.trace().replay(), run.canvas());
        let borders = window.borders(prompt, model.description()).unwrap();
        let blocks = window.blocks(&run.trace().start, Some(borders)).unwrap();
        for delta in run.trace().deltas.iter().filter(|delta| delta.kind == Pass::Denoise) {
            let end = borders.end(blocks.get(delta.block).unwrap().start);
            prop_assert!(exceeds_window || delta.committed.iter().all(|commit| commit.position < end));
        }
        prop_assert!(model.kept.is_empty());
    }
}

#[test]
fn a_long_prompt_is_computed_in_pieces_which_changes_nothing() {
    const BLOCK: usize = 3;
    for (name, shifted) in [("dos+top2", false), ("sdar", false), ("fast-dllm-v2", true), ("confidence+top1", true)] {
        let decoded = |piece: usize| {
            let mut model = Strict { piece, ..Strict::new(5, BLOCK, shifted) };
            let strategy = parse(name, &values(0.5, BLOCK)).unwrap();
            let canvas = Canvas::with_tail(&[3; 40], 11, MASK).unwrap();
            let mut run = Run::new(canvas, strategy, Options::default(), model.description()).unwrap();
            while !run.is_finished() {
                run.step(&mut model).unwrap();
            }
            (model.most, (run.forwards(), run.rows_computed(), run.trace().clone()))
        };
        let ((most, in_pieces), (whole, at_once)) = (decoded(7), decoded(usize::MAX));
        assert!(most <= 7 && whole > 36, "{name}: {most} and {whole} positions in one pass");
        assert_eq!(in_pieces, at_once, "{name}");
    }
}

#[test]
fn blocks_are_counted_from_zero_or_from_a_border() {
    use lacuna::Borders;
    let ends = |borders: Borders| (0..9).map(|position| borders.end(position)).collect::<Vec<_>>();
    assert_eq!(ends(Borders::from_zero(4)), [4, 4, 4, 4, 8, 8, 8, 8, 12]);
    assert_eq!(ends(Borders::at(2, 4)), [2, 2, 6, 6, 6, 6, 10, 10, 10]);
    assert_eq!(ends(Borders::at(8, 4)), ends(Borders::from_zero(4)));
    let starts = |borders: Borders| (0..9).map(|position| borders.start(position)).collect::<Vec<_>>();
    assert_eq!(starts(Borders::at(2, 4)), [0, 0, 2, 2, 2, 2, 6, 6, 6]);
}

#[test]
fn sub_blocks_have_room_for_what_is_asked() {
    let model = Strict::new(0, 4, true);
    let window = parse("fast-dllm-v2", &Params::new()).unwrap().window;
    let length = |prompt: usize, length: usize| window.canvas_length(prompt, length, model.description());
    // Whole blocks, the first of which began with the prompt, and the first token of a further one.
    assert_eq!([(3, 8), (4, 8), (5, 8), (5, 11)].map(|(prompt, asked)| length(prompt, asked)), [9, 13, 13, 13]);
    // Less than a block.
    assert_eq!([(3, 1), (3, 2), (4, 3), (5, 3), (6, 3)].map(|(prompt, asked)| length(prompt, asked)), [5, 9, 9, 9, 13]);
}

#[test]
fn what_does_not_go_with_blocks_is_refused() {
    let model = Strict::new(0, 4, false);
    let full = Description { visibility: Visibility::Full, ..model.description().clone() };
    let refusal = |tokens: &[Token], name: &str, params: &Params, model: &Description| {
        let canvas = Canvas::new(tokens.to_vec(), MASK).unwrap();
        let strategy = Strategy::parse(name, params).unwrap();
        Run::new(canvas, strategy, Options::default(), model).err().map(|error| error.to_string())
    };
    let (none, dual) = (Params::new(), Params::new().with("cache", "dual").unwrap());
    let text = [3, 3, 0, 3, 3];
    assert!(
        refusal(&text, "dos", &none, model.description()).unwrap().starts_with("the gap at position 2 does not see")
    );
    assert_eq!(refusal(&text[..4], "dos", &none, model.description()), None);
    assert_eq!(refusal(&text, "dos", &none, &full), None);
    assert!(refusal(&[3, 0], "sdar", &none, &full).unwrap().contains("this model's attention is full"));
    assert!(refusal(&[3, 0], "bd3lm", &none, &full).unwrap().contains("attends to everything"));
    assert!(refusal(&[3, 0], "dos", &dual, model.description()).unwrap().contains("cached exactly without it"));
}
