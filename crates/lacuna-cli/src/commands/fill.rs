//! `lacuna fill`: fill the gaps of a text.

use anyhow::{Result, anyhow};
use clap::Args;
use lacuna::Canvas;
use lacuna_models::{GAP, Job, Kind};

use super::text_or_stdin;
use crate::args::{Decoding, Model, Output, Tokens, parse_tokens};
use crate::engine::{Engine, decode};
use crate::show::Show;

#[derive(Args)]
#[command(after_help = "\
A gap is written <gap:N>, where N is its length in tokens; the model's own mask token works too.

Examples:
  lacuna fill --prompt \"Sara has 24 pens and gives 9 away. How many are left?\" \"Sara still has <gap:5> = 15 pens.\"
  lacuna fill \"def square(x):<gap:8>x * x\"
  lacuna fill - < text-with-gaps.txt")]
pub(crate) struct Fill {
    /// The text with its gaps; '-' reads it from standard input
    #[arg(value_name = "TEXT", required_unless_present = "tokens")]
    text: Option<String>,
    /// The canvas as raw token ids, the mask token where a gap is
    #[arg(long, value_name = "IDS", value_parser = parse_tokens, conflicts_with_all = ["text", "prompt"])]
    tokens: Option<Tokens>,
    /// A prompt to which the text is the answer; it gets the model's chat template
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// Let gaps end the text (end-of-text tokens), instead of filling them to the end
    #[arg(long)]
    allow_eos: bool,
    #[command(flatten)]
    decoding: Decoding,
    #[command(flatten)]
    model: Model,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn fill(args: &Fill) -> Result<()> {
    let mut engine = Engine::open(&args.model)?;
    let plan = args.decoding.request()?.plan(&engine.checkpoint)?;
    let mask = engine.checkpoint.mask_token()?;
    let prompt = match &args.prompt {
        Some(prompt) => engine.checkpoint.encode_prompt(&text_or_stdin(prompt)?, None, false)?,
        None => Vec::new(),
    };
    let body = match (&args.tokens, &args.text) {
        (Some(tokens), _) => tokens.0.clone(),
        (None, text) => engine.checkpoint.encode_with_gaps(&text_or_stdin(text.as_deref().unwrap_or("-"))?)?,
    };
    let gap = if args.tokens.is_some() { format!("the mask token, {mask}") } else { GAP.into() };
    let canvas = Canvas::new([prompt.as_slice(), &body].concat(), mask)
        .map_err(|error| anyhow!("{error}: write each gap as {gap}"))?;
    let run = plan.fill(canvas, args.allow_eos, engine.predictor.description())?;
    let mut job = Job::new(run, prompt.len(), Kind::Fill);
    let mut show = Show::new(&args.output, 1, &plan, &engine.checkpoint);
    decode(&mut job, engine.predictor.as_mut(), |job| show.step(&[job]))?;
    show.finish(&job)
}
