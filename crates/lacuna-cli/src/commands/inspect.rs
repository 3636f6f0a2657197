//! `lacuna inspect`: what a model is.

use anyhow::Result;
use clap::Args;
use lacuna_models::{Request, describe_gpu};
use serde::Serialize;

use super::print;
use crate::args::{Format, Model};
use crate::engine::Engine;

#[derive(Args)]
pub(crate) struct Inspect {
    #[command(flatten)]
    model: Model,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Serialize)]
struct Report {
    model: String,
    family: &'static str,
    parameters: usize,
    layers: usize,
    hidden: usize,
    heads: usize,
    key_value_heads: usize,
    mlp: usize,
    vocabulary: usize,
    context: usize,
    mask_token: u32,
    end_tokens: Vec<u32>,
    shifted: bool,
    stored_as: Vec<String>,
    stored_bytes: usize,
    precision: &'static str,
    device: String,
    /// The GPU, or why there is none that can be used.
    gpu: String,
    weight_bytes: usize,
    /// For a canvas of 512 positions.
    working_bytes: usize,
    threads: usize,
    tokenizer: String,
    chat_template: bool,
    strategy: String,
    layer: Vec<usize>,
}

const CANVAS: usize = 512;

pub(crate) fn inspect(args: &Inspect) -> Result<()> {
    let engine = Engine::open(&args.model)?;
    let (checkpoint, predictor) = (&engine.checkpoint, &engine.predictor);
    let shape = checkpoint.architecture();
    let plan = Request::default().plan(checkpoint)?;
    let memory = predictor.memory(CANVAS);
    let report = Report {
        model: checkpoint.name(),
        family: shape.family.name(),
        parameters: checkpoint.parameters(),
        layers: shape.layers,
        hidden: shape.hidden,
        heads: shape.heads,
        key_value_heads: shape.key_value_heads,
        mlp: shape.mlp,
        vocabulary: shape.vocabulary,
        context: shape.context,
        mask_token: shape.mask,
        end_tokens: engine.ends.clone(),
        shifted: shape.shifted,
        stored_as: checkpoint.dtypes(),
        stored_bytes: checkpoint.bytes(),
        precision: predictor.precision().name(),
        device: predictor.device(),
        gpu: describe_gpu().unwrap_or_else(|error| error.to_string()),
        weight_bytes: memory.weights,
        working_bytes: memory.buffers,
        threads: rayon::current_num_threads(),
        tokenizer: engine.text().map_or_else(|error| error.to_string(), |_| "yes".into()),
        chat_template: engine.text().is_ok_and(|text| text.can_chat()),
        strategy: plan.strategy,
        layer: plan.settings.layers,
    };
    match args.format {
        Format::Json => print(&serde_json::to_string(&report)?),
        Format::Text => show(&report),
    }
}

fn show(report: &Report) -> Result<()> {
    let line = |name: &str, value: String| print(&format!("{name:<14}{value}"));
    let list = |values: &[u32]| values.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    line("model", report.model.clone())?;
    line(
        "family",
        format!("{}{}", report.family, if report.shifted { ", predicts position i from i - 1" } else { "" }),
    )?;
    line("parameters", format!("{:.1} million", report.parameters as f64 / 1e6))?;
    let Report { layers, hidden, heads, key_value_heads, mlp, .. } = report;
    line(
        "shape",
        format!("{layers} layers of {hidden}, {heads} heads ({key_value_heads} for keys and values), MLP {mlp}"),
    )?;
    line(
        "vocabulary",
        format!("{} tokens, mask {}, end {}", report.vocabulary, report.mask_token, list(&report.end_tokens)),
    )?;
    line("context", format!("{} positions", report.context))?;
    line("stored as", format!("{}, {}", report.stored_as.join(" and "), bytes(report.stored_bytes)))?;
    line("computes in", format!("{} on {}", report.precision, report.device))?;
    line("GPU", report.gpu.clone())?;
    let buffers = bytes(report.working_bytes);
    line("memory", format!("{} of weights, {buffers} of buffers for {CANVAS} positions", bytes(report.weight_bytes)))?;
    line("tokenizer", report.tokenizer.clone())?;
    line("chat template", if report.chat_template { "yes" } else { "no: prompts are given as they are" }.into())?;
    line("strategy", format!("{} by default, layer {:?}", report.strategy, report.layer))
}

fn bytes(count: usize) -> String {
    match count as f64 {
        count if count >= 1e9 => format!("{:.1} GB", count / 1e9),
        count if count >= 1e6 => format!("{:.1} MB", count / 1e6),
        count => format!("{:.0} kB", count / 1e3),
    }
}
