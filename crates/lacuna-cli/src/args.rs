//! The commands, and the flags that several of them share.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches, Parser, Subcommand, ValueEnum};
use lacuna::Token;
use lacuna::catalogue::{Default, Kind, Named, Params, parameter, parameters};
use lacuna_models::{Device, Request};
use serde::{Deserialize, Serialize};

#[cfg(feature = "serve")]
use crate::commands::Serve;
use crate::commands::{
    Bench, Compare, Diff, Eval, Fill, Generate, Grade, Inspect, Probe, Quantize, Replay, Report, Revise, Score, Tune,
};

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
    /// Let the model look at a finished text again, and change what it doubts
    Revise(Revise),
    /// Decode one prompt with several strategies, side by side
    Compare(Compare),
    /// Show again what `generate --format json` or `fill --format json` recorded
    Replay(Replay),
    /// Tell where two recordings of the same prompts part, and why
    Diff(Diff),
    /// Print what the model sees: logits and dependency scores for a canvas
    Probe(Probe),
    /// Tell how likely given texts are: LLaDA's estimate, or along an order
    Score(Score),
    /// Describe a model: its shape, its files, the memory it takes
    Inspect(Inspect),
    /// Store a model in 4 or 8 bits a weight, so that it loads without rounding
    Quantize(Quantize),
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
    /// Serve the model: OpenAI's API, and a page that shows the decoding order
    #[cfg(feature = "serve")]
    Serve(Serve),
    /// Explain the strategies and how to combine them
    Strategies,
}

#[derive(Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct Model {
    /// A model directory as on Hugging Face (config.json, safetensors, tokenizer), or a GGUF file [default: the embedded model]
    #[arg(long, value_name = "DIR")]
    pub(crate) model: Option<PathBuf>,
    /// The mask token's id, for checkpoints that do not name it
    #[arg(long, value_name = "ID", value_parser = parse_unsigned::<Token>)]
    pub(crate) mask_token: Option<Token>,
    /// The model predicts a position from the row before it, for checkpoints that do not say so (A2D)
    #[arg(long, value_name = "BOOL")]
    pub(crate) shifted: Option<bool>,
    /// The precision of weights and matrix products [default: as stored, bf16 for 16-bit checkpoints]
    #[arg(long, value_enum)]
    pub(crate) precision: Option<Precision>,
    /// Compute device: auto, cpu, cuda (the first NVIDIA GPU), a GPU by its number as in cuda:1, or with generate, eval, tune and
    /// serve several as in cuda:0,1 or cuda:all, each with a replica of the model
    #[arg(long, value_name = "DEVICE", default_value_t = Device::Auto)]
    pub(crate) device: Device,
    /// The CPU's instruction set; auto is the one that LACUNA_ISA names, or else the fastest
    #[arg(long, value_enum, default_value_t = Isa::Auto)]
    pub(crate) isa: Isa,
    /// Number of threads [default: all cores]; results do not depend on it
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub(crate) threads: Option<usize>,
}

/// The decoding flags: one for each parameter of the catalogue, but for those of the texts that the command does not write: an
/// `ANSWER`'s length and draft, or the gaps of a text.
#[derive(Clone)]
pub(crate) struct Decoding<const ANSWER: bool = false> {
    given: Vec<(&'static str, String)>,
}

impl<const ANSWER: bool> Decoding<ANSWER> {
    /// The request that the flags make. Flags about the record of a run are refused where none is printed.
    pub(crate) fn request(&self, output: Option<&Output>) -> lacuna::Result<Request> {
        let mut params = Params::new();
        let recorded = output.is_some_and(|output| output.format == Format::Json);
        if !recorded && self.given.iter().any(|(name, _)| *name == "top_logprobs") {
            return Err(match output {
                Some(_) => lacuna::Error::unused("top_logprobs", "--format text").advise("format", "json"),
                None => lacuna::Error::unused("top_logprobs", "a command that prints no steps"),
            });
        }
        for (name, text) in &self.given {
            match parameter(name) {
                Some(known) if known.parameter.kind == Kind::File => {
                    let unreadable =
                        |error| lacuna::Error::parameter(name, text.as_str(), format!("cannot be read: {error}"));
                    params.parse(name, &std::fs::read_to_string(text).map_err(unreadable)?)?;
                }
                _ => params.parse(name, text)?,
            }
        }
        Ok(Request(params))
    }

    /// The parameters that are flags.
    fn parameters() -> Vec<Named> {
        let mut parameters = parameters();
        parameters.retain(|known| match known.parameter.name {
            "gen_length" | "max_tokens" | "length" | "draft" => ANSWER,
            "max_gap" => !ANSWER,
            _ => true,
        });
        parameters
    }
}

fn flag(known: &Named) -> Arg {
    let (parameter, users) = (known.parameter, known.users());
    let of = if users.is_empty() { String::new() } else { format!("{}: ", users.join(", ")) };
    let usual = match parameter.default {
        Default::Flag(false) => String::new(),
        _ => format!(" [default: {}]", known.default()),
    };
    let value = match parameter.kind {
        Kind::Flag => "BOOL",
        Kind::Integer { .. } | Kind::Limit => "N",
        Kind::Number(_) => "X",
        Kind::Choice(_) | Kind::Part(_) => "NAME",
        Kind::Text => "TEXT",
        Kind::Texts => "TEXT,...",
        Kind::File => "FILE",
        Kind::Integers => "N,...",
        Kind::Layers => "LAYERS",
    };
    let choices = match parameter.choices() {
        none if none.is_empty() => String::new(),
        words => format!(": {}", words.join(", ")),
    };
    let help = format!("{of}{}{choices}{usual}", parameter.about);
    let arg = Arg::new(parameter.name).long(parameter.name.replace('_', "-")).help(help).help_heading("Decoding");
    let arg = match parameter.alias {
        Some(alias) => arg.visible_alias(alias.replace('_', "-")),
        None => arg,
    };
    match (parameter.kind, parameter.default) {
        (Kind::Flag, Default::Flag(false)) => arg.action(ArgAction::SetTrue),
        _ => arg.value_name(value).allow_negative_numbers(true),
    }
}

impl<const ANSWER: bool> Args for Decoding<ANSWER> {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.args(Self::parameters().iter().map(flag))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl<const ANSWER: bool> FromArgMatches for Decoding<ANSWER> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given: Vec<(&'static str, String)> = Vec::new();
        for Named { parameter, .. } in Self::parameters() {
            if let Ok(Some(true)) = matches.try_get_one::<bool>(parameter.name) {
                given.push((parameter.name, "true".into()));
            } else if let Ok(Some(text)) = matches.try_get_one::<String>(parameter.name) {
                given.push((parameter.name, text.clone()));
            }
        }
        Ok(Self { given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[derive(Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Output {
    /// Output format: text is the result alone; json is one object a line with every step, which `lacuna replay` shows again
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
    /// More approximate, in half the room
    Int4,
    /// Approximate, on NVIDIA Hopper GPUs
    Fp8,
}

impl From<Precision> for lacuna_models::Precision {
    fn from(precision: Precision) -> Self {
        match precision {
            Precision::F32 => Self::F32,
            Precision::Bf16 => Self::Bf16,
            Precision::Int8 => Self::Int8,
            Precision::Int4 => Self::Int4,
            Precision::Fp8 => Self::Fp8,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lower")]
pub(crate) enum Isa {
    Auto,
    Amx,
    Avx512Bf16,
    Avx512,
    AvxVnni,
    Avx2,
    Scalar,
}

impl From<Isa> for Option<lacuna_models::Isa> {
    fn from(isa: Isa) -> Self {
        match isa {
            Isa::Auto => None,
            Isa::Amx => Some(lacuna_models::Isa::Amx),
            Isa::Avx512Bf16 => Some(lacuna_models::Isa::Avx512Bf16),
            Isa::Avx512 => Some(lacuna_models::Isa::Avx512),
            Isa::AvxVnni => Some(lacuna_models::Isa::AvxVnni),
            Isa::Avx2 => Some(lacuna_models::Isa::Avx2),
            Isa::Scalar => Some(lacuna_models::Isa::Scalar),
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

/// Parses a whole number that fits an unsigned type.
pub(crate) fn parse_unsigned<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let number = text.parse::<u64>().ok().and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| format!("it must be a whole number from 0 to {}", u64::MAX >> (64 - 8 * size_of::<T>())))
}

/// Parses a whole number above 0.
pub(crate) fn parse_positive(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&number| number > 0).ok_or_else(|| "it must be a whole number, 1 or more".into())
}

/// Parses a number of threads, canvases or the like: from 1 to 256.
pub(crate) fn parse_count(text: &str) -> Result<usize, String> {
    const MAX: usize = 256;
    let number = text.parse().ok().filter(|number| (1..=MAX).contains(number));
    number.ok_or_else(|| format!("it must be a whole number from 1 to {MAX}"))
}
