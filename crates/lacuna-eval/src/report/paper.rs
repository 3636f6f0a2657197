//! The paper's own numbers, to stand beside ours.

use std::sync::OnceLock;

use serde::Deserialize;

use crate::run::Trial;

/// A number of the paper.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Number {
    /// The table.
    pub table: String,
    /// The model.
    pub model: String,
    /// The task.
    pub task: String,
    /// The strategy.
    pub strategy: String,
    /// `"one"` or the length of a block.
    pub block: serde_json::Value,
    /// In percent.
    pub accuracy: f64,
    /// Forward passes.
    pub nfe: Option<f64>,
    /// On one NVIDIA L40.
    pub tokens_per_second: Option<f64>,
    /// On one NVIDIA L40.
    pub seconds_per_sample: Option<f64>,
}

#[derive(Deserialize)]
struct File {
    numbers: Vec<Number>,
}

fn numbers() -> &'static [Number] {
    static NUMBERS: OnceLock<Vec<Number>> = OnceLock::new();
    NUMBERS.get_or_init(|| {
        let file: File =
            serde_json::from_str(include_str!("../../data/paper.json")).expect("the file is part of the crate");
        file.numbers
    })
}

/// The paper's task that one of ours stands for.
pub(super) fn counterpart(task: &str) -> &str {
    match task {
        "words" => "gsm8k",
        "code" => "humaneval",
        other => other,
    }
}

/// The paper's number for this trial in this table; the paper has no rules for ends of text.
pub(super) fn find(label: &str, family: &str, trial: &Trial) -> Option<&'static Number> {
    let model = if family.eq_ignore_ascii_case("dream") { "Dream-v0-Instruct-7B" } else { "LLaDA-Instruct-8B" };
    let task = counterpart(&trial.task);
    let block = match trial.block_length {
        length if length == trial.gen_length => serde_json::Value::from("one"),
        length => serde_json::Value::from(length),
    };
    let table = label.split(':').next().unwrap_or(label).trim();
    numbers().iter().find(|number| {
        number.table == table
            && number.model == model
            && number.task == task
            && number.strategy == trial.method()
            && number.block == block
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_every_table() {
        let count = |table: &str| numbers().iter().filter(|number| number.table == table).count();
        let tables = ["Table 1", "Table 2", "Table 3", "Table 5", "Table 6", "Table 8"];
        assert_eq!(tables.map(count), [32, 48, 28, 56, 48, 32]);
    }

    #[test]
    fn numbers_are_found_for_the_model_and_its_counterparts() {
        let trial = |task: &str, strategy: &str, block_length: usize| Trial {
            task: task.into(),
            protocol: "klass".into(),
            strategy: strategy.into(),
            settings: lacuna::catalogue::Params::new(),
            gen_length: 512,
            block_length,
            early_stop: false,
            labels: Vec::new(),
        };
        assert_eq!(find("Table 1", "LLaDA", &trial("gsm8k", "dos", 512)).map(|n| n.accuracy), Some(84.31));
        assert_eq!(find("Table 1: one block", "Dream", &trial("gsm8k", "dos", 512)).map(|n| n.accuracy), Some(80.21));
        assert_eq!(find("Table 5", "LLaDA", &trial("words", "wino", 32)).and_then(|n| n.nfe), Some(312.18));
        assert_eq!(find("Table 5", "LLaDA", &trial("words", "wino", 64)), None);
        assert_eq!(find("Table 1", "LLaDA", &trial("gsm8k", "random", 512)), None);
    }
}
