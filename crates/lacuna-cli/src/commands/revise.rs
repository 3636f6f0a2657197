//! `lacuna revise`: look at a finished text again.

use anyhow::{Result, ensure};
use clap::Args;

use super::{fill, text_or_stdin};
use crate::args::{Decoding, Model, Output};
use crate::engine::Engine;

#[derive(Args)]
#[command(after_help = "\
The text keeps its number of tokens. A strategy's revision says what is looked at: verify (WINO) reopens tokens that the model doubts
when it does not see them, core replaces tokens that do not hold when the least sure ones are masked together, remdm masks the least
probable tokens again, edit replaces every token that the model would choose otherwise. With <draft>...</draft> in the text, only what
they enclose is looked at. --format json says which tokens have changed.

Examples:
  lacuna revise --prompt \"Sara has 24 pens and gives 9 away. How many are left?\" \"24 - 9 = 13\\n#### 15\"
  lacuna revise --strategy dos+eb+core --prompt \"...\" - < answer.txt
  lacuna revise --prompt \"...\" \"24 - 9 = <draft>13</draft>\"")]
pub(crate) struct Revise {
    /// The text; '-' reads it from standard input
    #[arg(value_name = "TEXT")]
    text: String,
    /// A prompt to which the text is the answer; it gets the model's chat template
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    #[command(flatten)]
    decoding: Decoding,
    #[command(flatten)]
    model: Model,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn revise(args: &Revise) -> Result<()> {
    let engine = Engine::open(&args.model)?;
    let text = text_or_stdin(&args.text)?;
    ensure!(!text.is_empty(), "the text is empty: give one to revise");
    let request = args.decoding.request(Some(&args.output))?.for_draft(&engine.checkpoint)?;
    let plan = request.for_text(&text, &engine.checkpoint)?.plan(&engine.checkpoint)?;
    let template = engine.checkpoint.encode_draft(&text)?;
    fill::fill_template(engine, &plan, template, args.prompt.as_deref(), false, &args.output)
}
