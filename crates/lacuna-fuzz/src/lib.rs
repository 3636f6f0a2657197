//! Everything of lacuna that reads foreign input, as functions of bytes.
//!
//! A target takes any bytes and returns; a panic is a bug. `fuzz/` runs the targets under libFuzzer, the tests of this crate run them
//! on seeded mutations of valid inputs.

mod files;
mod mutate;
mod requests;

pub use mutate::Mutator;

use lacuna::catalogue::Params;
use lacuna::{MAX_STRATEGY_BYTES, Recipe};
use lacuna_constrain::{Constraint, Ending, Fit, Options, Vocabulary};
use lacuna_eval::grade::math;
use lacuna_eval::suite::Suite;

/// Something that reads foreign input.
pub struct Target {
    /// Its name, which is also that of its file in `fuzz/fuzz_targets`.
    pub name: &'static str,
    /// Valid inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Reads an input; true if it is valid.
    pub run: fn(&[u8]) -> bool,
}

/// All targets.
pub const TARGETS: [Target; 12] = [
    Target { name: "config", seeds: files::configs, run: files::config },
    Target { name: "safetensors", seeds: files::weights, run: files::safetensors },
    Target { name: "index", seeds: files::indices, run: files::index },
    Target { name: "gguf", seeds: files::ggufs, run: files::gguf },
    Target { name: "tokenizer", seeds: files::tokenizers, run: files::tokenizer },
    Target { name: "tokenizer_config", seeds: files::tokenizer_configs, run: files::tokenizer_config },
    Target { name: "chat_template", seeds: files::templates, run: files::chat_template },
    Target { name: "strategy", seeds: strategies, run: strategy },
    Target { name: "suite", seeds: suites, run: suite },
    Target { name: "math", seeds: answers, run: math },
    Target { name: "constraint", seeds: constraints, run: constraint },
    Target { name: "request", seeds: requests::bodies, run: requests::request },
];

/// Runs the target of this name.
pub fn run(name: &str, input: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target of this name");
    let _ = (target.run)(input);
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn strategies() -> Vec<Vec<u8>> {
    texts(&["dos+eb", "confidence+top4+verify", "margin+threshold+backtrack", "fast-dllm-v2", "entropy+schedule", "p2"])
}

/// The name of a strategy.
fn strategy(input: &[u8]) -> bool {
    let Ok(name) = std::str::from_utf8(input) else { return false };
    name.len() <= MAX_STRATEGY_BYTES && Recipe::parse(name, &Params::new()).is_ok_and(|recipe| recipe.build().is_ok())
}

fn suites() -> Vec<Vec<u8>> {
    texts(&[
        "about = \"few\"\nearly_stop = true\n[[group]]\nlabel = \"a\"\ntasks = [\"words\", \"code\"]\nstrategies = [\"dos+eb\"]\n\
         layers = [0, [1, 2]]\nblocks = [32, \"one\"]\ngen_lengths = [64]\n",
        "[settings]\ngamma = 0.01\n[family.LLaDA]\nwords = { conf_threshold = 0.6 }\n[protocol]\nwords = \"mini\"\n[[group]]\n\
         tasks = [\"words\"]\nstrategies = [\"*+threshold\", \"klass\"]\nlayers = \"all\"\nsettings = { defer_eos = true }\n",
    ])
}

/// A suite file.
fn suite(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    Suite::parse("suite", text).is_ok_and(|suite| suite.trials("LLaDA", 4, &[0]).is_ok())
}

fn answers() -> Vec<Vec<u8>> {
    texts(&[
        "\\frac{3}{4}\n0.75",
        "\\left[-1, \\frac{\\sqrt{51}}{2}\\right)\n[-1, \\frac{\\sqrt{51}}{2})",
        "\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}\n\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}",
        "1024\\text{ cm}\n2^{10}",
        "300000\n3e5",
        "x^2 + 2x + 1\n(x+1)^2",
        "120\n5! = 120",
        "50\\%\n50",
    ])
}

/// Two answers to a problem of MATH, on two lines.
fn math(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let (gold, answer) = text.split_once('\n').unwrap_or((text, text));
    let _ = math::extract(text);
    math::equivalent(gold, answer)
}

fn constraints() -> Vec<Vec<u8>> {
    texts(&[
        "r(?s).*#### -?[0-9]+",
        "r[a-z]{2,5}(x|yy)*",
        "groot ::= \"a\" [b-d]+ item?\nitem ::= \",\" root | \"\"",
        "s{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\", \"minimum\": 3}}, \"required\": [\"a\"]}",
        "s{\"anyOf\": [{\"type\": \"string\", \"pattern\": \"^a+$\"}, {\"enum\": [1, null]}]}",
    ])
}

/// A regular expression, a grammar or a schema: the first letter says which.
fn constraint(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let constraint = match text.split_at_checked(1) {
        Some(("r", pattern)) => Constraint::Regex(pattern.to_string()),
        Some(("g", grammar)) => Constraint::Grammar(grammar.to_string()),
        Some(("s", schema)) => match serde_json::from_str(schema) {
            Ok(schema) => Constraint::JsonSchema(schema),
            Err(_) => return false,
        },
        _ => return false,
    };
    let letters: Vec<Option<Vec<u8>>> = (0..=255u8).map(|byte| Some(vec![byte])).chain([None]).collect();
    let vocabulary = Vocabulary::new(letters, &[256]);
    let Ok(compiled) = constraint.compile(&vocabulary, &Options::default()) else { return false };
    let Ok(mut fit) = Fit::new(&compiled, &[None; 24], Ending::Padded) else { return false };
    (0..24).all(|position| {
        let allowed = fit.allowed(position);
        let first = (0..257).find(|token| allowed[token / 32] >> (token % 32) & 1 == 1);
        first.is_some_and(|token| fit.commit(position, token as u32).is_ok())
    })
}
