//! `lacuna inspect`: what a model is.

use anyhow::Result;
use clap::Args;
use lacuna::catalogue::Value;
use lacuna_models::{CpuSpeed, ModelInfo, forward_bytes, forward_flops};
use serde::Serialize;

use super::{bytes, print};
use crate::args::{Format, Model};
use crate::engine::Engine;

#[derive(Args)]
pub(crate) struct Inspect {
    #[command(flatten)]
    model: Model,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// The printed fields.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    info: ModelInfo,
    #[serde(flatten)]
    cpu: Option<Cpu>,
}

/// The CPU, if the model computes on it.
#[derive(Serialize)]
struct Cpu {
    #[serde(flatten)]
    speed: CpuSpeed,
    /// Bound of a forward pass over [`ModelInfo::CANVAS`] positions.
    bound: &'static str,
}

pub(crate) fn inspect(args: &Inspect) -> Result<()> {
    let Engine { checkpoint, predictor, .. } = Engine::open(&args.model)?;
    let info = ModelInfo::of(&checkpoint, predictor.as_ref())?;
    let cpu = predictor.device().starts_with("cpu").then(|| {
        let (architecture, precision) = (checkpoint.architecture(), predictor.precision());
        let speed = CpuSpeed::measure(precision);
        let operations = forward_flops(architecture, ModelInfo::CANVAS, ModelInfo::CANVAS);
        Cpu { speed, bound: speed.bound(operations, forward_bytes(architecture, precision, ModelInfo::CANVAS)) }
    });
    let report = Report { info, cpu };
    match args.format {
        Format::Json => print(&serde_json::to_string(&report)?),
        Format::Text => show(&report),
    }
}

fn show(Report { info, cpu }: &Report) -> Result<()> {
    let line = |name: &str, value: String| print(&format!("{name:<14}{value}"));
    let list = |values: &[u32]| values.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    line("model", info.model.clone())?;
    line("family", format!("{}{}", info.family, if info.shifted { ", predicts position i from i - 1" } else { "" }))?;
    line("parameters", format!("{:.1} million", info.parameters as f64 / 1e6))?;
    let ModelInfo { layers, hidden, heads, key_value_heads, mlp, .. } = info;
    line(
        "shape",
        format!("{layers} layers of {hidden}, {heads} heads ({key_value_heads} for keys and values), MLP {mlp}"),
    )?;
    line(
        "vocabulary",
        format!("{} tokens, mask {}, end {}", info.vocabulary, info.mask_token, list(&info.end_tokens)),
    )?;
    line("context", format!("{} positions", info.context))?;
    line("stored as", format!("{}, {}", info.stored_as.join(" and "), bytes(info.stored_bytes)))?;
    line("computes in", format!("{} on {}", info.precision, info.device))?;
    if let Some(Cpu { speed, bound }) = cpu {
        let CpuSpeed { isa, ceiling_gflops, fastest_isa, fastest_ceiling_gflops, memory_gbps } = speed;
        let fastest = if isa == fastest_isa {
            "the fastest".to_string()
        } else {
            format!("{fastest_isa} does {fastest_ceiling_gflops:.0}")
        };
        line(
            "CPU",
            format!("{isa} does at most {ceiling_gflops:.0} GFLOP/s ({fastest}), memory {memory_gbps:.0} GB/s"),
        )?;
        line("bound", format!("a step of {} positions is bound by {bound}", ModelInfo::CANVAS))?;
    }
    line("GPU", info.gpu.clone())?;
    let buffers = bytes(info.working_bytes);
    line(
        "memory",
        format!("{} of weights, {buffers} of buffers for {} positions", bytes(info.weight_bytes), ModelInfo::CANVAS),
    )?;
    line("tokenizer", info.tokenizer.clone())?;
    line("chat template", if info.chat_template { "yes" } else { "no: prompts are given as they are" }.into())?;
    line("strategy", format!("{} by default, layer {:?}", info.strategy, info.layer))?;
    let flag = |(name, value): (&str, &Value)| format!("--{} {value}", name.replace('_', "-"));
    let flags: Vec<String> = info.recommended.iter().map(flag).collect();
    line("recommended", if flags.is_empty() { "nothing else".into() } else { flags.join(" ") })
}
