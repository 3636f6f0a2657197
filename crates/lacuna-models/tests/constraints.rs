//! Decoding under constraints: allowed sets against brute force at every step, and random schemas on the embedded model.

#[path = "../../lacuna-constrain/tests/random/mod.rs"]
mod random;

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;

use lacuna::catalogue::Params;
use lacuna::scripted::Scripted;
use lacuna::{
    Canvas, Draw, Error, GapSearch, Options, Predictor, Recipe, Run, Sampling, Strategy, Token, TokenRule, decode,
};
use lacuna_constrain::{Constraint, Ending, Vocabulary};
use lacuna_models::{Checkpoint, CpuPredictor, EachGap, Request, Specials};
use random::{Random, schema};
use serde_json::json;

/// Strategies of every kind: each sort of order, of pace and of revision.
const STRATEGIES: [&str; 16] = [
    "dos+eb",
    "dos",
    "confidence",
    "confidence+top3",
    "entropy+cumulative",
    "margin+threshold",
    "left+factor",
    "random+top4",
    "random+schedule",
    "confidence+localleap",
    "confidence+hierarchy",
    "credit",
    "klass",
    "wino",
    "p2",
    "remdm",
];

/// The strategy of this name with a few steps, blocks and layers, as far as it uses them.
fn strategy(name: &str, random: &mut Random) -> Strategy {
    let mut params = Params::new().with("layer", 0usize).unwrap().with("gamma", 1.0).unwrap();
    if random.one_in(2) {
        params = params.with("block_length", 1 + random.below(5)).unwrap();
    }
    let recipe = Recipe::parse(name, &params).unwrap();
    Strategy::parse(name, &params.filter(|parameter| recipe.uses(parameter))).unwrap()
}

/// A model whose logits and attention are noise that depends on everything it sees.
fn noise(vocabulary: usize, mask: Token, seed: u64) -> Scripted {
    let digest = |tokens: &[Token]| tokens.iter().fold(7, |sum: u64, &token| sum.wrapping_mul(31) + u64::from(token));
    let number = move |key: u64, at: usize, to: usize| Draw::new(seed ^ key, at, to).uniform(0) as f32;
    let logits = move |tokens: &[Token], position: usize| {
        (0..vocabulary).map(|token| 6.0 * number(digest(tokens), position, token)).collect()
    };
    Scripted::new(vocabulary, mask, logits).with_attention(1, move |_, _, from, to| number(0, from, to))
}

/// The tokens that each position of a canvas can have, by writing out every text: it matches, and is followed by end tokens.
fn brute_force(
    tokens: &[&str],
    end: Token,
    matches: &dyn Fn(&str) -> bool,
    canvas: &[Token],
    mask: Token,
) -> Vec<Vec<bool>> {
    let mut found = vec![vec![false; tokens.len()]; canvas.len()];
    let choices = tokens.len() as u64;
    for mut number in 0..choices.pow(canvas.len() as u32) {
        let mut filled = Vec::new();
        for &token in canvas {
            let any = (number % choices) as Token;
            number /= choices;
            filled.push(if token == mask { any } else { token });
        }
        let length = filled.iter().position(|&token| token == end).unwrap_or(filled.len());
        let text: String = filled[..length].iter().map(|&token| tokens[token as usize]).collect();
        if filled[length..].iter().all(|&token| token == end) && matches(&text) {
            filled.iter().zip(&mut found).for_each(|(&token, found)| found[token as usize] = true);
        }
    }
    found
}

#[test]
fn allowed_sets_are_those_of_brute_force_at_every_step() {
    const PATTERNS: [&str; 10] = [
        "a+b",
        "(ab|b)*",
        "a{2,4}b?",
        "(a|bb)+a",
        "(ab){2}|b",
        "[ab]*aab",
        "b?(ab)*b?",
        "a*ba*",
        "(aa|ab|ba)*",
        "abab|a",
    ];
    const TOKENS: [&[&str]; 3] = [&["a", "b", "ab", ""], &["a", "bb", "ba", "b", ""], &["ab", "a", "b", "aab", ""]];
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let (pattern, tokens) = (PATTERNS[random.below(10)], TOKENS[random.below(3)]);
        let (end, mask) = (tokens.len() as Token - 1, tokens.len() as Token);
        let spelled = tokens.iter().map(|text| Some(text).filter(|text| !text.is_empty())).chain([None]);
        let vocabulary = Vocabulary::new(spelled, &[end]);
        let compiled = Constraint::Regex(pattern.into()).compile(&vocabulary, &Default::default()).unwrap();
        let whole = regex::Regex::new(&format!("^(?:{pattern})$")).unwrap();
        let mut model = noise(tokens.len() + 1, mask, seed);
        let name = STRATEGIES[random.below(STRATEGIES.len())];
        let rule = match random.below(3) {
            0 => TokenRule::Gumbel { temperature: 0.7 },
            1 => TokenRule::Nucleus { temperature: 0.5, top_p: 0.8, top_k: 0 },
            _ => TokenRule::Greedy,
        };
        let options = Options {
            constraint: Some(Arc::new(EachGap { compiled, ending: Ending::Padded })),
            sampling: Sampling { rule, deferred: if random.one_in(3) { vec![end] } else { Vec::new() } },
            ..Options::default()
        };
        let length = 1 + random.below(5);
        let start = Canvas::with_tail(&[0], length, mask).unwrap();
        let at = |canvas: &Canvas| brute_force(tokens, end, &|text| whole.is_match(text), &canvas.tokens()[1..], mask);
        let mut run = match Run::new(start.clone(), strategy(name, &mut random), options, model.description()) {
            Ok(run) => run,
            Err(Error::Unmeetable { shortest, .. }) => {
                assert!(!at(&start)[0].contains(&true) && shortest.is_some_and(|shortest| shortest > length));
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        loop {
            for (position, expected) in (1..).zip(at(run.canvas())) {
                let found: Vec<bool> = (0..=end).map(|token| run.allowed(position).contains(token)).collect();
                let masked = run.canvas().is_masked(position);
                assert!(found == expected || !masked, "{name}, seed {seed}: {:?}", run.canvas().tokens());
            }
            if run.is_finished() {
                break;
            }
            run.step(&mut model).unwrap();
        }
        assert_eq!(run.canvas().masked().count(), 0);
    }
}

#[test]
fn a_gap_is_filled_as_a_whole_and_every_gap_for_itself() {
    let vocabulary = Vocabulary::new([Some("a"), Some("b"), None, None], &[2]);
    let compiled = Constraint::Regex("a*b".into()).compile(&vocabulary, &Default::default()).unwrap();
    let mut model = noise(4, 3, 1);
    let constraint = Arc::new(EachGap { compiled, ending: Ending::Exact });
    let options = Options { constraint: Some(constraint), ..Options::default() };
    let canvas = Canvas::new(vec![1, 3, 3, 3, 0, 3, 1], 3).unwrap();
    let mut runs =
        [Run::new(canvas, strategy("random+top4", &mut Random::new(0)), options, model.description()).unwrap()];
    decode(&mut runs, &mut model).unwrap();
    assert_eq!(runs[0].canvas().tokens(), [1, 0, 0, 1, 0, 1, 1]);
}

#[test]
fn a_gap_of_unknown_length_gets_one_that_meets_the_constraint() {
    let vocabulary = Vocabulary::new([Some("a"), Some("b"), None, None], &[2]);
    let start = |pattern: &str, most: usize| {
        let compiled = Constraint::Regex(pattern.into()).compile(&vocabulary, &Default::default()).unwrap();
        let constraint = Arc::new(EachGap { compiled, ending: Ending::Exact });
        let find = Some(GapSearch::new(vec![1], most));
        let options = Options { constraint: Some(constraint), find, ..Options::default() };
        let canvas = Canvas::new(vec![1, 3, 1], 3).unwrap();
        Run::new(canvas, strategy("random+top4", &mut Random::new(0)), options, noise(4, 3, 1).description())
    };
    let mut runs = [start("a{3}(bb)?", 8).unwrap()];
    decode(&mut runs, &mut noise(4, 3, 1)).unwrap();
    let tried: Vec<usize> = runs[0].trace().deltas[0].tried.iter().map(|tried| tried.length).collect();
    assert_eq!(tried, [3, 5]);
    assert!([vec![1, 0, 0, 0, 1], vec![1, 0, 0, 0, 1, 1, 1]].contains(&runs[0].canvas().tokens().to_vec()));
    let refused = start("a{3}", 2).unwrap_err();
    assert!(refused.to_string().contains("must be at least 3"), "{refused}");
}

#[test]
fn a_draft_that_breaks_the_constraint_is_refused() {
    let vocabulary = Vocabulary::new([Some("a"), Some("b"), None, None], &[2]);
    let compiled = Constraint::Regex("a*b".into()).compile(&vocabulary, &Default::default()).unwrap();
    let start = |tokens: Vec<Token>| {
        let constraint = Arc::new(EachGap { compiled: compiled.clone(), ending: Ending::Exact });
        let options = Options { constraint: Some(constraint), ..Options::default() };
        let canvas = Canvas::with_drafts(tokens, 3, std::slice::from_ref(&(1..3))).unwrap();
        Run::new(canvas, strategy("confidence+top3+edit", &mut Random::new(0)), options, noise(4, 3, 1).description())
    };
    assert!(start(vec![1, 1, 0, 3, 1]).unwrap_err().to_string().contains("the draft does not meet the constraint"));
    let mut runs = [start(vec![1, 0, 0, 3, 1]).unwrap()];
    decode(&mut runs, &mut noise(4, 3, 1)).unwrap();
    assert_eq!(runs[0].canvas().tokens(), [1, 0, 0, 1, 1]);
}

/// Python with the `jsonschema` package.
fn python() -> Option<String> {
    let name = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
    let found = Command::new(&name).args(["-c", "import jsonschema"]).stderr(Stdio::null()).status();
    found.is_ok_and(|status| status.success()).then_some(name)
}

/// Random schemas, decoded by the embedded model and by noise with every kind of strategy. `SCHEMAS` says how many; each text is checked by
/// Python's jsonschema where that is installed, and by the automaton in any case.
#[test]
fn every_answer_under_a_random_schema_is_valid() {
    let count: u64 = std::env::var("SCHEMAS").ok().and_then(|count| count.parse().ok()).unwrap_or(24);
    let checkpoint = Checkpoint::embedded().unwrap();
    let mut model = CpuPredictor::load(&checkpoint, None).unwrap();
    let (text, ends) = (checkpoint.text().unwrap(), checkpoint.ends());
    let prompt = text.chat(&[("user", "Sara has 24 pens and gives 9 away. How many are left?")]).unwrap();
    let (mut runs, mut schemas) = (Vec::new(), Vec::new());
    for seed in 0..count {
        let mut random = Random::new(seed);
        let schema = schema(&mut random);
        let name = STRATEGIES[random.below(STRATEGIES.len())];
        let mut request = Request::default().with("strategy", name).unwrap();
        request = request.with("json_schema", &*schema.to_string()).unwrap();
        request = request.with("temperature", [0.0, 0.0, 1.0][random.below(3)]).unwrap();
        let start = |length: usize| {
            request.clone().with("gen_length", length)?.plan(&checkpoint)?.answer(&prompt, model.description())
        };
        let run = match start(24 + random.below(24)) {
            Err(Error::Parameter { name: "gen_length", expected, .. }) => {
                let shortest: usize = expected.split(&[' ', ','][..]).find_map(|word| word.parse().ok()).unwrap();
                if shortest > 120 { continue } else { start(shortest + random.below(20)) }
            }
            Err(Error::BadConstraint { why, .. }) if why.contains("too large") || why.contains("no text") => continue,
            run => run,
        };
        runs.push(run.unwrap());
        schemas.push(schema);
    }
    assert!(runs.len() as u64 > count * 3 / 4);
    // Every other batch has a model of noise, which follows no format by itself.
    let mut random = noise(model.description().vocabulary, model.description().mask, 1);
    for (batch, runs) in runs.chunks_mut(16).enumerate() {
        let model: &mut dyn Predictor = if batch % 2 == 0 { &mut model } else { &mut random };
        decode(runs, model).unwrap();
    }
    let mut lines = String::new();
    for (run, schema) in runs.iter().zip(&schemas) {
        let answer = &run.canvas().tokens()[prompt.len()..];
        let end = answer.iter().position(|token| ends.contains(token)).unwrap_or(answer.len());
        let written = text.decode(&answer[..end], Specials::Skip).unwrap();
        let value: serde_json::Value = serde_json::from_str(&written).unwrap_or_else(|why| panic!("{written}: {why}"));
        assert!(!value.is_null() || written == "null");
        lines += &format!("{}\n", json!({"schema": schema, "text": written}));
    }
    let Some(python) = python() else {
        assert!(std::env::var_os("NEED_JSONSCHEMA").is_none(), "python with the jsonschema package is needed");
        return;
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../lacuna-constrain/tests/validate.py");
    let mut child = Command::new(python).arg(script).stdin(Stdio::piped()).spawn().expect("python runs");
    child.stdin.take().expect("piped").write_all(lines.as_bytes()).expect("python reads");
    assert!(child.wait().expect("python ends").success(), "an answer does not meet its schema");
}
