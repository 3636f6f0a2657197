//! Measures how often a gap of unknown length gets its length back: words are cut out of held-out answers of the embedded model's
//! tasks.
//!
//!     cargo run --release -p lacuna-models --example lengths -- models/mini/words.jsonl 256
#![allow(clippy::print_stdout)]

use lacuna::{Predictor as _, decode};
use lacuna_models::{Checkpoint, CpuPredictor, Request, Specials};
use serde_json::Value;

/// Words that are cut out of the answer of problem number `index`: where they begin and end. One to five of one line, with text on
/// both sides.
fn cut(answer: &str, index: usize) -> Option<(usize, usize)> {
    let bytes = answer.as_bytes();
    let border = |at: &usize| *at > 0 && bytes[*at].is_ascii_whitespace() && !bytes[at - 1].is_ascii_whitespace();
    let borders: Vec<usize> = (0..bytes.len()).filter(border).collect();
    let words = 1 + index % 5;
    let fits = |pair: &(usize, usize)| bytes[pair.0] == b' ' && !answer[pair.0..pair.1].contains('\n');
    let spans: Vec<(usize, usize)> =
        borders.iter().zip(borders.iter().skip(words)).map(|(&from, &to)| (from, to)).filter(fits).collect();
    spans.get((index * 7919) % spans.len().max(1)).copied()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(path), Some(count)) = (arguments.next(), arguments.next()) else {
        return Err("give a file of problems and how many of them to take".into());
    };
    let checkpoint = Checkpoint::embedded()?;
    let mut model = CpuPredictor::load(&checkpoint, None)?;
    let (text, plan) = (checkpoint.text()?, Request::default().plan(&checkpoint)?);
    let (mut tried, mut found, mut near, mut same) = (0, 0, 0, 0);
    for (index, line) in std::fs::read_to_string(path)?.lines().enumerate().take(count.parse()?) {
        let problem: Value = serde_json::from_str(line)?;
        let (Some(question), Some(answer)) = (problem["prompt"].as_str(), problem["answer"].as_str()) else {
            return Err("a problem has a prompt and an answer".into());
        };
        let Some((from, to)) = cut(answer, index) else { continue };
        let wanted = text.encode(&answer[from..to])?.len();
        if wanted > lacuna::DEFAULT_MAX_GAP {
            continue;
        }
        let prompt = text.chat(&[("user", question)])?;
        let template = checkpoint.encode_template(&format!("{}<gap>{}", &answer[..from], &answer[to..]))?;
        let short = template.tokens.len();
        let mut runs = [plan.fill(&template.after(&prompt), false, model.description())?];
        decode(&mut runs, &mut model)?;
        let tokens = &runs[0].canvas().tokens()[prompt.len()..];
        let length = tokens.len() - short + 1;
        tried += 1;
        found += usize::from(length == wanted);
        near += usize::from(length.abs_diff(wanted) <= 1);
        same += usize::from(text.decode(tokens, Specials::Skip)? == answer);
    }
    println!("{tried} gaps: {found} of the right length, {near} off by one at most, {same} with the very words");
    Ok(())
}
