//! Cost of a decoding step under a schema of 20 fields, with a vocabulary of 126,464 tokens and 256 masks.

use std::sync::Arc;

use divan::{Bencher, black_box};
use lacuna_constrain::{Compiled, Constraint, Ending, Fit, Options, Vocabulary, token_bytes};
use serde_json::{Value, json};

const VOCABULARY: usize = 126_464;
const LENGTH: usize = 256;

fn main() {
    divan::main();
}

/// The embedded model's tokens and combinations of them, with spaces, capitals and quotes in front or behind.
fn vocabulary() -> Vocabulary {
    let text = include_str!("../../../models/mini/tokenizer.json");
    let tokenizer: Value = serde_json::from_str(text).expect("JSON");
    let mut tokens = token_bytes(&tokenizer, 2048).expect("byte-level");
    let base: Vec<Vec<u8>> = tokens.iter().flatten().cloned().collect();
    let marks =
        ["", " ", "\"", "\",", "\":", ", \"", "\n", "é", "中", ".", "(", "{\"", "}", "]", "\\n", "0", "\u{1f600}"];
    let mut seed = 1usize;
    let mut below = |bound: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % bound
    };
    while tokens.len() < VOCABULARY {
        let mut token = Vec::new();
        let plain = below(8) > 0;
        token.extend_from_slice(marks[if plain { below(2) } else { below(marks.len()) }].as_bytes());
        for _ in 0..1 + below(3) {
            token.extend_from_slice(&base[below(base.len())]);
        }
        token.extend_from_slice(marks[if plain { 0 } else { below(marks.len()) }].as_bytes());
        tokens.push(Some(token));
    }
    Vocabulary::new(tokens, &[1, 4])
}

/// 20 fields of all kinds.
fn schema() -> Value {
    let mut properties = serde_json::Map::new();
    let kinds = [
        json!({"type": "string"}),
        json!({"type": "integer", "minimum": 0, "maximum": 150}),
        json!({"type": "string", "enum": ["red", "green", "blue"]}),
        json!({"type": "array", "items": {"type": "string"}}),
        json!({"type": "number"}),
        json!({"type": "boolean"}),
        json!({"type": "string", "pattern": "^[a-z]+@[a-z]+$"}),
        json!({"type": ["string", "null"]}),
        json!({"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "number"}}, "required": ["x"]}),
        json!({"type": "string", "format": "date"}),
    ];
    for at in 0..20 {
        let name = ["name", "age", "colour", "tags", "price", "open", "mail", "note", "place", "born"][at % 10];
        properties.insert(format!("{name}{}", if at < 10 { "" } else { "_two" }), kinds[at % 10].clone());
    }
    let required: Vec<String> = properties.keys().step_by(2).cloned().collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn compiled(vocabulary: &Vocabulary) -> Arc<Compiled> {
    Constraint::JsonSchema(schema()).compile(vocabulary, &Options::default()).expect("compiles")
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn compile(bencher: Bencher<'_, '_>) {
    let vocabulary = vocabulary();
    bencher.bench(|| compiled(&vocabulary));
}

/// A token is committed, then all tokens at all masks are asked for.
#[divan::bench]
fn commit_and_ask_everywhere(bencher: Bencher<'_, '_>) {
    step(bencher, |fit| {
        for position in 0..LENGTH {
            black_box(fit.allowed(position));
        }
    });
}

/// A token is committed, then those at one mask are asked for.
#[divan::bench]
fn commit_and_ask_once(bencher: Bencher<'_, '_>) {
    step(bencher, |fit| {
        black_box(fit.allowed(LENGTH / 2));
    });
}

/// Walks through a whole decoding over and over: at each step one more position, from everywhere in the canvas, is decided.
fn step(bencher: Bencher<'_, '_>, ask: impl Fn(&mut Fit)) {
    let vocabulary = vocabulary();
    let compiled = compiled(&vocabulary);
    let empty = Fit::new(&compiled, &[None; LENGTH], Ending::Padded).expect("long enough");
    let mut fit = empty.clone();
    let mut decided = 0;
    bencher.bench_local(|| {
        if decided == LENGTH {
            (fit, decided) = (empty.clone(), 0);
        }
        let position = decided * 97 % LENGTH;
        let token = first(fit.allowed(position), decided * 31);
        fit.commit(position, token).expect("allowed");
        decided += 1;
        ask(&mut fit);
    });
}

/// Some allowed token: the first in the first word with any, from a place in the vocabulary on.
fn first(words: &[u32], from: usize) -> u32 {
    let at = (0..words.len()).map(|at| (at + from / 32) % words.len()).find(|&at| words[at] != 0).expect("never empty");
    at as u32 * 32 + words[at].trailing_zeros()
}
