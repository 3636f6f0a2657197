//! Random schemas, filled in random orders with random tokens of a real vocabulary, checked by Python's `jsonschema`.

mod random;

use std::{
    io::Write as _,
    process::{Command, Stdio},
    sync::Arc,
};

use lacuna_constrain::{Compiled, Constraint, Ending, Fit, Options, Spacing, Vocabulary, token_bytes};
use random::{Random, schema};
use serde_json::{Value, json};

const SCHEMAS: usize = 1000;

/// The embedded model's tokens.
fn tokens() -> Vec<Option<Vec<u8>>> {
    let text = include_str!("../../../models/mini/tokenizer.json");
    token_bytes(&serde_json::from_str(text).expect("JSON"), 2048).expect("byte-level")
}

fn members(words: &[u32]) -> Vec<u32> {
    (0..words.len() as u32 * 32).filter(|token| words[*token as usize / 32] >> (token % 32) & 1 == 1).collect()
}

/// Fills a canvas in a random order. Tokens that cannot be the end are preferred often, so that texts become long.
fn fill(compiled: &Arc<Compiled>, length: usize, random: &mut Random) -> Vec<u32> {
    let mut fit = Fit::new(compiled, &vec![None; length], Ending::Padded).expect("long enough");
    let mut open: Vec<usize> = (0..length).collect();
    while !open.is_empty() {
        let position = open.swap_remove(random.below(open.len()));
        let allowed = members(fit.allowed(position));
        let token = allowed[random.below(allowed.len())];
        fit.commit(position, token).expect("allowed");
    }
    fit.canvas().iter().map(|token| token.expect("filled")).collect()
}

/// Python with the `jsonschema` package.
fn python() -> Option<String> {
    let name = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
    let found = Command::new(&name).args(["-c", "import jsonschema"]).stderr(Stdio::null()).status();
    found.is_ok_and(|status| status.success()).then_some(name)
}

#[test]
fn every_text_of_random_schemas_validates() {
    let tokens = tokens();
    let vocabulary = Vocabulary::new(tokens.clone(), &[1, 4]);
    let mut lines = String::new();
    let mut refused = 0;
    for seed in 0..SCHEMAS as u64 {
        let mut random = Random::new(seed);
        let schema = schema(&mut random);
        let spacing = if random.one_in(2) { Spacing::Compact } else { Spacing::Loose };
        let compiled = match Constraint::JsonSchema(schema.clone())
            .compile(&vocabulary, &Options { spacing, ..Options::default() })
        {
            Ok(compiled) => compiled,
            Err(refusal) => {
                let known = ["too large", "matches no text"].iter().any(|known| refusal.to_string().contains(known));
                assert!(known, "{refusal}: {schema}");
                refused += 1;
                continue;
            }
        };
        let shortest =
            Fit::new(&compiled, &[], Ending::Padded).map_or_else(|e| e.shortest.expect("some length"), |_| 0);
        for _ in 0..2 {
            let length = shortest + random.below(40);
            let filled = fill(&compiled, length, &mut random);
            let text: Vec<u8> = filled.iter().filter_map(|&token| tokens[token as usize].clone()).flatten().collect();
            assert!(compiled.matches(&text), "seed {seed}: {}", String::from_utf8_lossy(&text));
            let text = String::from_utf8(text).expect("UTF-8");
            serde_json::from_str::<Value>(&text).unwrap_or_else(|error| panic!("seed {seed}: {text}: {error}"));
            lines += &format!("{}\n", json!({"schema": schema, "text": text}));
        }
    }
    assert!(refused < SCHEMAS / 20, "{refused} schemas refused");
    let Some(python) = python() else {
        assert!(std::env::var_os("NEED_JSONSCHEMA").is_none(), "python with the jsonschema package is needed");
        #[expect(clippy::print_stderr)]
        {
            eprintln!("SKIPPED: the texts are not checked, for want of python3 with the jsonschema package");
        }
        return;
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/validate.py");
    let mut child = Command::new(python).arg(script).stdin(Stdio::piped()).spawn().expect("python runs");
    child.stdin.take().expect("piped").write_all(lines.as_bytes()).expect("python reads");
    assert!(child.wait().expect("python ends").success(), "a text does not meet its schema");
}
