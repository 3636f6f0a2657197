//! `lacuna replay`: show recorded runs again.

use std::io::{IsTerminal, stdout};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use lacuna::Token;
use lacuna_models::{Record, Specials};

use super::{print, read};
use crate::args::parse_unsigned;
use crate::engine::open_checkpoint;
use crate::picture::svg;
use crate::render::{self, Screen};

#[derive(Args)]
pub(crate) struct Replay {
    /// The recorded lines ('-': standard input)
    file: PathBuf,
    /// The model whose tokenizer turns the tokens into text [default: the embedded model]
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Draw the first run as a picture instead
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Milliseconds between steps on a terminal
    #[arg(long, value_name = "MS", default_value_t = 60, value_parser = parse_unsigned::<u64>)]
    delay: u64,
}

pub(crate) fn replay(args: &Replay) -> Result<()> {
    let checkpoint = open_checkpoint(args.model.as_deref())?;
    let file = read(&args.file)?;
    let lines: Vec<_> = file.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).collect();
    ensure!(!lines.is_empty(), "{} holds no recorded run", args.file.display());
    for (number, line) in lines {
        let place = || format!("{} line {}", args.file.display(), number + 1);
        let record: Record =
            serde_json::from_str(line).map_err(|error| anyhow!("not a recorded run: {error}")).with_context(place)?;
        let trace = record.trace().with_context(place)?;
        let end = trace.replay();
        let from = record.prompt_tokens;
        let tokens = end.tokens().get(from..).unwrap_or_default();
        // A canvas of whole blocks may go on behind the text.
        let to = if end.masked().next().is_some() { end.len() } else { from + record.tokens.len() };
        ensure!(tokens.starts_with(&record.tokens), "{}: the steps do not lead to the recorded tokens", place());
        let ends = checkpoint.ends();
        if checkpoint.text().is_err() {
            print(&record.tokens.iter().map(Token::to_string).collect::<Vec<_>>().join(","))?;
            continue;
        }
        let text = checkpoint.text()?;
        if let Some(picture) = &args.svg {
            let drawn = svg(&trace, &(from..to), text, &ends);
            return std::fs::write(picture, drawn).with_context(|| format!("cannot write {}", picture.display()));
        }
        if !stdout().is_terminal() {
            print(&text.decode(record.kind.visible(&record.tokens, &ends), Specials::Skip)?)?;
            continue;
        }
        let mut screen = Screen::new();
        for steps in 0..=trace.deltas.len() {
            let done = steps == trace.deltas.len();
            let width = render::size().0;
            let view = render::View { from, to, width, colour: screen.colour, end: done };
            let mut lines = view.lines(&trace, steps, text, &ends);
            lines.push(format!("{} · step {steps} of {}", record.strategy, trace.deltas.len()));
            screen.draw(&lines)?;
            sleep(Duration::from_millis(args.delay));
        }
    }
    Ok(())
}
