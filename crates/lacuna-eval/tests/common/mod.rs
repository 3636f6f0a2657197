//! A model that knows the answers: it writes each embedded word problem's solution, some of them with a wrong result.

use std::collections::HashMap;

use lacuna::scripted::Scripted;
use lacuna::{Options, Token};
use lacuna_eval::run::{Evaluation, Model, Part, Shard, TextCodec, Trial};
use lacuna_eval::task;

pub(crate) const MASK: Token = 0;
const END: Token = 1;
/// Token at which the answer begins.
const ANSWER: Token = 2;
const FIRST_BYTE: Token = 3;

pub(crate) struct Bytes;

impl TextCodec for Bytes {
    fn render(&self, turns: &[(&str, &str)]) -> lacuna_eval::Result<String> {
        Ok(turns.iter().map(|(_, content)| *content).collect::<String>() + "\u{2}")
    }

    fn encode(&self, text: &str) -> lacuna_eval::Result<Vec<Token>> {
        Ok(text.bytes().map(|byte| if byte == 2 { ANSWER } else { Token::from(byte) + FIRST_BYTE }).collect())
    }

    fn decode(&self, tokens: &[Token]) -> lacuna_eval::Result<String> {
        let bytes: Vec<u8> =
            tokens.iter().filter(|token| **token >= FIRST_BYTE).map(|token| (*token - FIRST_BYTE) as u8).collect();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn ends(&self) -> &[Token] {
        &[END]
    }
}

/// The folder of the tasks with known dependencies.
pub(crate) fn orders() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/orders")
}

pub(crate) fn model() -> Scripted {
    let mut answers: HashMap<Vec<Token>, Vec<u8>> = HashMap::new();
    for name in ["words", "code", "first", "backward", "sudoku"] {
        let (_, problems) = task::load_all(task::find(name).unwrap(), Some(&orders())).unwrap();
        for problem in problems {
            let wrong = name == "words" && problem.row % 5 == 2;
            let answer = if wrong { problem.solution.replace("#### ", "#### 1") } else { problem.solution };
            answers.insert(Bytes.encode(&(problem.request + "\u{2}")).unwrap(), answer.into_bytes());
        }
    }
    let logits = move |tokens: &[Token], position: usize| {
        let start = tokens.iter().position(|token| *token == ANSWER).unwrap() + 1;
        let answer = &answers[&tokens[..start]];
        let token = answer.get(position - start).map_or(END, |byte| Token::from(*byte) + FIRST_BYTE);
        let mut logits = vec![0.0; 260];
        // Some positions are surer than others.
        logits[token as usize] = 9.0 + (position * 7 % 11) as f32;
        logits
    };
    Scripted::new(260, MASK, logits)
        .with_attention(3, |_, source, from, to| 1.0 / (1.0 + (from as f32 - to as f32).abs() + source.layer as f32))
}

pub(crate) fn trial(task: &str, strategy: &str) -> Trial {
    Trial {
        task: task.into(),
        protocol: "mini".into(),
        strategy: strategy.into(),
        settings: lacuna::catalogue::Params::new(),
        gen_length: 256,
        block_length: 256,
        early_stop: true,
        labels: Vec::new(),
    }
}

pub(crate) fn evaluation(out: &std::path::Path, trials: Vec<Trial>) -> Evaluation {
    Evaluation {
        out: out.into(),
        data: None,
        model: Model { name: "scripted".into(), ..Model::default() },
        trials,
        limit: Some(6),
        part: Part::All,
        shard: Shard::default(),
        seed: 0,
        batch: 1,
        options: Options::default(),
        general: lacuna::catalogue::Params::new(),
        unconfined: false,
    }
}
