//! The commands, and the flags that several of them share.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use lacuna::Token;
use lacuna_models::{Layers, Request};
use serde::{Deserialize, Serialize};

use crate::commands::{Bench, Compare, Eval, Fill, Generate, Grade, Inspect, Probe, Replay, Report, Serve, Tune};

/// lacuna fills the gaps: inference for masked diffusion language models (LLaDA, Dream and their kin).
///
/// Such a model does not write from left to right. It starts from a canvas of masks and fills them step by step; which
/// positions come next decides how good the text becomes. That choice is a strategy: `lacuna strategies` explains them.
#[derive(Parser)]
#[command(name = "lacuna", version, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Answer a prompt, and watch the answer emerge
    Generate(Generate),
    /// Fill the gaps of a text, with what follows them in view
    Fill(Fill),
    /// Decode one prompt with several strategies, side by side
    Compare(Compare),
    /// Show again what `generate --format json` or `fill --format json` recorded
    Replay(Replay),
    /// Print what the model sees: logits and dependency scores for a canvas
    Probe(Probe),
    /// Describe a model: its shape, its files, the memory it takes
    Inspect(Inspect),
    /// Measure how fast a decoding step is on this machine
    Bench(Bench),
    /// Measure strategies on benchmarks; a stopped run resumes
    Eval(Eval),
    /// Grade answers that any system has recorded
    Grade(Grade),
    /// Turn results into tables and plots
    Report(Report),
    /// Find the attention layers and heads that suit a model and task
    Tune(Tune),
    /// Serve the model: OpenAI's API, and a page on which one sees the order
    Serve(Serve),
    /// Explain the strategies and how to combine them
    Strategies,
}

#[derive(Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct Model {
    /// A model directory as on Hugging Face (config.json, safetensors, tokenizer) [default: the embedded model]
    #[arg(long, value_name = "DIR")]
    pub(crate) model: Option<PathBuf>,
    /// The precision of weights and matrix products [default: bf16 for 16-bit checkpoints, else f32]
    #[arg(long, value_enum)]
    pub(crate) precision: Option<Precision>,
    /// Where to compute
    #[arg(long, value_enum, default_value_t = Device::Auto)]
    pub(crate) device: Device,
    /// How many threads to use [default: all cores]; results do not depend on it
    #[arg(long, value_name = "N", value_parser = few)]
    pub(crate) threads: Option<usize>,
}

#[derive(Args)]
#[command(next_help_heading = "Decoding")]
pub(crate) struct Decoding {
    /// <order>[+<pace>][+<revision>] or a preset; see `lacuna strategies` [default: the model's own, else dos+eb]
    #[arg(long, value_name = "NAME")]
    pub(crate) strategy: Option<String>,
    /// Decode in blocks of N from left to right; for `generate` N must divide the generation length [default: one block]
    #[arg(long, value_name = "N")]
    pub(crate) block_length: Option<usize>,
    /// dos: the layers whose attention is used, from 0: 4, or 2,4, or 2-5, or all; several are averaged [default: the
    /// model's own, else one a sixth of the way up]
    #[arg(long, value_name = "LAYERS")]
    pub(crate) layer: Option<Layers>,
    /// dos: the attention heads that are averaged, from 0 [default: all]
    #[arg(long, value_name = "HEADS", value_delimiter = ',')]
    pub(crate) heads: Option<Vec<usize>>,
    /// eb: the entropy bound in nats [default: 0.01]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub(crate) gamma: Option<f64>,
    /// threshold [default: 0.95] and wino [default: 0.6]: the confidence to reach; score-threshold: the score to reach
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub(crate) threshold: Option<f64>,
    /// schedule: steps for the whole text; klass: for its fallback [default: one for each token]
    #[arg(long, value_name = "N")]
    pub(crate) steps: Option<usize>,
    /// schedule: how the tokens are spread over the steps [default: llada]
    #[arg(long, value_enum)]
    pub(crate) schedule: Option<Convention>,
    /// schedule dream: the last timestep [default: 0.001]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub(crate) eps: Option<f32>,
    /// factor: how much uncertainty all tokens of a step may have together [default: 1]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub(crate) factor: Option<f64>,
    /// klass: the confidence to exceed [default: 0.9]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub(crate) conf_threshold: Option<f64>,
    /// klass: the divergence from the step before to stay below [default: 0.01]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub(crate) kl_threshold: Option<f64>,
    /// klass: for how many steps it must stay below [default: 2]
    #[arg(long, value_name = "N")]
    pub(crate) history: Option<usize>,
    /// wino: tokens with less support than this are reopened [default: 0.9]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub(crate) threshold_back: Option<f64>,
    /// saber: the least number of tokens in a step [default: 2]
    #[arg(long, value_name = "N")]
    pub(crate) saber_n: Option<usize>,
    /// Draw the order of positions at this temperature instead of taking the best (Dream's alg_temp)
    #[arg(long, visible_alias = "alg-temp", value_name = "T", allow_negative_numbers = true)]
    pub(crate) order_temperature: Option<f64>,
    /// Draw tokens at this temperature; 0 takes the most probable [default: 0]
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    pub(crate) temperature: Option<f64>,
    /// Draw only from the most probable tokens that together reach this probability (implies --sampling dream)
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub(crate) top_p: Option<f64>,
    /// Draw only from the K most probable tokens (implies --sampling dream)
    #[arg(long, value_name = "K")]
    pub(crate) top_k: Option<usize>,
    /// What temperature means: llada draws the token but ranks by untempered confidence, dream tempers both [default: as the
    /// model's family does]
    #[arg(long, value_enum)]
    pub(crate) sampling: Option<Convention>,
    /// Classifier-free guidance as LLaDA's cfg_scale; doubles the number of forwards
    #[arg(long, visible_alias = "cfg-scale", value_name = "X", allow_negative_numbers = true)]
    pub(crate) guidance: Option<f32>,
    /// Never choose the end-of-text token (LLaDA's logits_eos_inf)
    #[arg(long)]
    pub(crate) suppress_eos: bool,
    /// Commit end-of-text and end-of-turn tokens last (LLaDA's confidence_eos_eot_inf)
    #[arg(long)]
    pub(crate) defer_eos: bool,
    /// Stop when everything before the first end-of-text is decided; the visible text is the same [default:
    /// true]
    #[arg(long, value_name = "BOOL", action = ArgAction::Set)]
    pub(crate) early_stop: Option<bool>,
    /// Where random draws start from [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Which keys and values the steps of a block take from its first one (Fast-dLLM): those before the block, or also those
    /// behind it. Faster, and not exact [default: none]
    #[arg(long, value_enum)]
    pub(crate) cache: Option<Cache>,
}

impl Decoding {
    /// What the flags ask for.
    pub(crate) fn request(&self) -> Request {
        Request {
            strategy: self.strategy.clone(),
            gen_length: None,
            block_length: self.block_length,
            layer: self.layer.clone(),
            heads: self.heads.clone(),
            steps: self.steps,
            schedule: self.schedule.map(Into::into),
            eps: self.eps,
            gamma: self.gamma,
            threshold: self.threshold,
            threshold_back: self.threshold_back,
            factor: self.factor,
            conf_threshold: self.conf_threshold,
            kl_threshold: self.kl_threshold,
            history: self.history,
            saber_n: self.saber_n,
            order_temperature: self.order_temperature,
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            sampling: self.sampling.map(Into::into),
            guidance: self.guidance,
            suppress_eos: self.suppress_eos,
            defer_eos: self.defer_eos,
            early_stop: self.early_stop,
            seed: self.seed,
            cache: self.cache.map(Into::into),
        }
    }
}

#[derive(Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Output {
    /// text prints the result alone; json prints one object a line with every step, which `lacuna replay` shows again
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Draw the text while it emerges [default: when the output is a terminal]
    #[arg(long, value_name = "BOOL", action = ArgAction::Set)]
    pub(crate) watch: Option<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Precision {
    F32,
    Bf16,
    /// Approximate, on the CPU
    Int8,
    /// Approximate, on NVIDIA Hopper GPUs
    Fp8,
}

impl From<Precision> for lacuna_models::Precision {
    fn from(precision: Precision) -> Self {
        match precision {
            Precision::F32 => Self::F32,
            Precision::Bf16 => Self::Bf16,
            Precision::Int8 => Self::Int8,
            Precision::Fp8 => Self::Fp8,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Device {
    /// A GPU if there is one that can be used, else the processor
    Auto,
    Cpu,
    /// The first NVIDIA GPU
    Cuda,
}

impl From<Device> for lacuna_models::Device {
    fn from(device: Device) -> Self {
        match device {
            Device::Auto => Self::Auto,
            Device::Cpu => Self::Cpu,
            Device::Cuda => Self::Cuda,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Convention {
    Llada,
    Dream,
}

impl From<Convention> for lacuna_models::Convention {
    fn from(convention: Convention) -> Self {
        match convention {
            Convention::Llada => Self::Llada,
            Convention::Dream => Self::Dream,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Cache {
    None,
    Prefix,
    Dual,
}

impl From<Cache> for lacuna::Cache {
    fn from(cache: Cache) -> Self {
        match cache {
            Cache::None => Self::None,
            Cache::Prefix => Self::Prefix,
            Cache::Dual => Self::Dual,
        }
    }
}

/// Token ids separated by commas.
#[derive(Clone, Debug)]
pub(crate) struct Tokens(pub(crate) Vec<Token>);

pub(crate) fn parse_tokens(text: &str) -> Result<Tokens, String> {
    let id = |part: &str| part.trim().parse().map_err(|_| format!("'{}' is not a token id", part.trim()));
    let ids: Result<Vec<Token>, String> = text.split(',').map(id).collect();
    if text.trim().is_empty() { Ok(Tokens(Vec::new())) } else { ids.map(Tokens) }
}

pub(crate) fn positive(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&number| number > 0).ok_or_else(|| "it must be a whole number, 1 or more".into())
}

/// A number of things of which each takes its share of the machine.
pub(crate) fn few(text: &str) -> Result<usize, String> {
    const MOST: usize = 256;
    let number = text.parse().ok().filter(|number| (1..=MOST).contains(number));
    number.ok_or_else(|| format!("it must be a whole number from 1 to {MOST}"))
}
