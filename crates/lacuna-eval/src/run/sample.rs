//! The record of one sample, and the summary of many.

use serde::{Deserialize, Serialize};

use super::{Configuration, Trial};
use crate::statistics::{spearman, wilson};
use crate::task::Respect;

/// One answered problem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The problem.
    pub id: String,
    /// Its row in the data.
    pub row: usize,
    /// True if the answer is right.
    pub correct: bool,
    /// Reason in a few words.
    pub reason: String,
    /// The answer.
    pub answer: String,
    /// Forward passes of the model.
    pub nfe: usize,
    /// Rows of the model's output that were read.
    pub rows_read: usize,
    /// Tokens of the answer, not counting what comes behind its end.
    pub tokens: usize,
    /// Seconds of decoding; a batch's time is shared by those in it.
    pub seconds: f64,
    /// For each position the step at which it was decided, from 0; -1 if it never was.
    pub order: Vec<i32>,
    /// Dependencies that the order kept and broke, where they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub respect: Option<Respect>,
}

/// Number of first decisions of a sample that are searched for ends.
const FIRST: usize = 12;

impl Sample {
    /// The positions that were decided, the first first, with their steps.
    fn decided(&self) -> Vec<(i32, usize)> {
        let mut decided: Vec<(i32, usize)> =
            self.order.iter().enumerate().filter(|(_, step)| **step >= 0).map(|(at, step)| (*step, at)).collect();
        decided.sort_unstable();
        decided
    }

    /// Rank correlation of when the tokens of the answer were decided with where they stand: 1 is left to right.
    fn place_correlation(&self) -> Option<f64> {
        let steps: Vec<f64> = self.order.iter().take(self.tokens).map(|step| f64::from(*step)).collect();
        spearman(&steps)
    }

    /// Share of the first decisions that lie behind the end of the answer.
    fn early_ends(&self) -> Option<f64> {
        let decided = self.decided();
        let first = &decided[..decided.len().min(FIRST)];
        let behind = first.iter().filter(|(_, at)| *at >= self.tokens).count();
        (!first.is_empty()).then(|| behind as f64 / first.len() as f64)
    }
}

/// A line of `results.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The task.
    pub task: String,
    /// The model.
    pub model: String,
    /// The strategy.
    pub strategy: String,
    /// The attention layers: a number, a list, or null where none matters.
    pub layer: serde_json::Value,
    /// Tokens generated.
    pub gen_length: usize,
    /// Tokens in a block.
    pub block_length: usize,
    /// Samples.
    pub n: usize,
    /// Number of problems of the finished run over all shards, if recorded.
    pub problems: Option<usize>,
    /// Right answers.
    pub correct: usize,
    /// Their share.
    pub accuracy: f64,
    /// Forward passes for a sample, on average.
    pub nfe: f64,
    /// Answer tokens for a second of decoding.
    pub tokens_per_second: f64,
    /// Seconds of decoding for a sample.
    pub seconds_per_sample: f64,
    /// The 95% interval of the accuracy (Wilson).
    pub interval: [f64; 2],
    /// Output rows read for a sample, on average.
    pub rows_read: f64,
    /// Answer tokens of a sample, on average.
    pub tokens: f64,
    /// The protocol.
    pub protocol: String,
    /// The tables and figures it belongs to.
    pub labels: Vec<String>,
    /// Share of the values that were decided before, or together with, what they depend on, where that is known.
    #[serde(default)]
    pub early: Option<f64>,
    /// Agreement with an oracle's order (Kendall's tau over the pairs that it orders), where one is known.
    #[serde(default)]
    pub agreement: Option<f64>,
    /// Rank correlation of when tokens of the answer were decided with where they stand.
    #[serde(default)]
    pub place_correlation: Option<f64>,
    /// Share of the first twelve decisions that lie behind the end of the answer.
    #[serde(default)]
    pub early_ends: Option<f64>,
}

impl Entry {
    /// True if problems are still to be answered.
    pub fn unfinished(&self) -> bool {
        self.problems.is_some_and(|problems| self.n < problems)
    }
}

/// Summary of the samples of a trial.
pub fn summarize(configuration: &Configuration, trial: &Trial, samples: &[Sample]) -> Entry {
    let n = samples.len();
    let correct = samples.iter().filter(|sample| sample.correct).count();
    let mean = |value: fn(&Sample) -> f64| samples.iter().map(value).sum::<f64>() / n.max(1) as f64;
    let seconds = mean(|sample| sample.seconds);
    let tokens = mean(|sample| sample.tokens as f64);
    let layer = match &trial.layers()[..] {
        [] => serde_json::Value::Null,
        [layer] => (*layer).into(),
        layers => layers.to_vec().into(),
    };
    let known = |value: fn(&Sample) -> Option<f64>| {
        let values: Vec<f64> = samples.iter().filter_map(value).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let total = |value: fn(&Respect) -> f64| samples.iter().filter_map(|s| s.respect.as_ref()).map(value).sum::<f64>();
    let share = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
    Entry {
        task: trial.task.clone(),
        model: configuration.model.name.clone(),
        strategy: trial.strategy.clone(),
        layer,
        gen_length: trial.gen_length,
        block_length: trial.block_length,
        n,
        problems: configuration.problems_of(trial),
        correct,
        accuracy: correct as f64 / n.max(1) as f64,
        nfe: mean(|sample| sample.nfe as f64),
        tokens_per_second: if seconds > 0.0 { tokens / seconds } else { 0.0 },
        seconds_per_sample: seconds,
        interval: wilson(correct, n),
        rows_read: mean(|sample| sample.rows_read as f64),
        tokens,
        protocol: trial.protocol.clone(),
        labels: trial.labels.clone(),
        early: share(total(|respect| respect.early as f64), total(|respect| respect.dependent as f64)),
        agreement: share(total(|respect| respect.agreeing as f64), total(|respect| respect.pairs as f64)),
        place_correlation: known(Sample::place_correlation),
        early_ends: known(Sample::early_ends),
    }
}
