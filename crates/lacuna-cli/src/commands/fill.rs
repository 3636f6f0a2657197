//! `lacuna fill`: fill the gaps of a text.

use anyhow::Result;
use clap::Args;
use lacuna_models::{Job, Plan, Template};

use super::text_or_stdin;
use crate::args::{Decoding, Model, Output, Tokens, parse_tokens};
use crate::engine::{Engine, decode};
use crate::show::Show;

#[derive(Args)]
#[command(after_help = "\
A gap is written <gap:N>, where N is its length in tokens; the model's own mask token works too. <gap> has its length found: all
lengths up to --max-gap are tried in one forward pass, and the one is taken whose masks the model is surest of. At the end of the
text <gap> grows until the model ends the text. <draft>...</draft> encloses what a revision may change.

Examples:
  lacuna fill --prompt \"Sara has 24 pens and gives 9 away. How many are left?\" \"Sara still has <gap:5> = 15 pens.\"
  lacuna fill --prompt \"Sara has 24 pens and gives 9 away. How many are left?\" \"Sara still has<gap> = 15 pens.\"
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
    let engine = Engine::open(&args.model)?;
    let request = args.decoding.request(Some(&args.output))?;
    let (plan, template) = match (&args.tokens, &args.text) {
        (Some(tokens), _) => {
            let mask = engine.checkpoint.mask_token()?;
            (request.plan(&engine.checkpoint)?, Template::of_tokens(tokens.0.clone(), mask)?)
        }
        (None, text) => {
            let text = text_or_stdin(text.as_deref().unwrap_or("-"))?;
            let plan = request.for_text(&text, &engine.checkpoint)?.plan(&engine.checkpoint)?;
            (plan, engine.checkpoint.encode_template(&text)?)
        }
    };
    fill_template(engine, &plan, template, args.prompt.as_deref(), args.allow_eos, &args.output)
}

/// Decodes a template, behind a prompt if there is one, and shows it.
pub(super) fn fill_template(
    mut engine: Engine,
    plan: &Plan,
    template: Template,
    prompt: Option<&str>,
    allow_eos: bool,
    output: &Output,
) -> Result<()> {
    let prompt = match prompt {
        Some(prompt) => engine.checkpoint.encode_prompt(&text_or_stdin(prompt)?, None, false)?,
        None => Vec::new(),
    };
    let template = template.after(&prompt);
    let run = plan.fill(&template, allow_eos, engine.predictor.description())?;
    let mut job = Job::new(run, prompt.len(), template.kind());
    let mut show = Show::new(output, 1, plan, &engine.checkpoint);
    decode(&mut job, engine.predictor.as_mut(), |job| show.step(&[job]))?;
    show.finish(&job)
}
