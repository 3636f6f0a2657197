//! `lacuna score`: how likely given texts are under the model.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use lacuna::{Likelihood, Passage, Scoring, Token};
use lacuna_models::{Record, ScoreRecord, ScoreRequest};
use serde::Serialize;
use serde_json::{Map, Value};

use super::generate::Message;
use super::{print, read, text_or_stdin};
use crate::args::{Format, Model, parse_count, parse_unsigned};
use crate::engine::Engine;

#[derive(Args)]
#[command(after_help = "\
Examples:
  lacuna score --prompt \"Sara has 24 pens and gives 9 away. How many are left?\" \"Sara still has 24 - 9 = 15 pens.\"
  lacuna score --prompt \"...\" --order left --format json \"...\"
  lacuna score --jsonl texts.jsonl --format json > scores.jsonl
  lacuna generate --format json \"...\" > runs.jsonl && lacuna score --trace runs.jsonl")]
pub(crate) struct Score {
    /// Texts to score, each on its own; '-' reads one from standard input
    #[arg(value_name = "TEXT")]
    texts: Vec<String>,
    /// The prompt that the texts answer; without it they stand alone
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// A file ('-': standard input) with one object a line: "text" or "text_tokens", behind a "prompt", "messages", "prompt_tokens" or
    /// nothing; "order" or "steps" ([[place, ...], ...]) say how it is scored; its "id" and all other columns come back in the output
    #[arg(long, value_name = "FILE")]
    jsonl: Option<PathBuf>,
    /// A file ('-': standard input) of runs that `generate --format json` or `fill --format json` recorded, each scored along its own
    /// steps
    #[arg(long, value_name = "FILE", conflicts_with_all = ["order", "samples", "seed"])]
    trace: Option<PathBuf>,
    /// Give the prompt to the model as it is, without its chat template
    #[arg(long)]
    raw: bool,
    /// A system message to put before the prompt
    #[arg(long, value_name = "TEXT", conflicts_with = "raw")]
    system: Option<String>,
    /// estimate: LLaDA's Monte Carlo estimate of a lower bound on the log-likelihood; left, right, random: the tokens one by one in
    /// this order [default: estimate]
    #[arg(long, value_name = "NAME")]
    order: Option<String>,
    /// Samples of the estimate: 1 to 32, or a multiple of 32 [default: 128]
    #[arg(long, value_name = "N", value_parser = parse_unsigned::<usize>)]
    samples: Option<usize>,
    /// Seed of the estimate's masks, or of the random order [default: 1234]
    #[arg(long, value_name = "N", value_parser = parse_unsigned::<u64>)]
    seed: Option<u64>,
    /// Scale of classifier-free guidance [default: 0]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    guidance: Option<f64>,
    /// Batch size: canvases per forward pass; the scores are the same for any number [default: as suits the model]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    batch: Option<usize>,
    #[command(flatten)]
    model: Model,
    /// Output format: text is a line for each text; json is one object a line
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// A text to score, and what its score is to be filed under.
struct ScoreTask {
    id: Option<Value>,
    columns: Map<String, Value>,
    passage: Passage,
    likelihood: Likelihood,
}

/// A score with the other columns of the row that its text was in.
#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    record: ScoreRecord,
    #[serde(flatten)]
    columns: Map<String, Value>,
}

/// Texts whose canvases are made together.
const BATCH: usize = 32;

pub(crate) fn score(args: &Score) -> Result<()> {
    let mut engine = Engine::open(&args.model)?;
    let request = ScoreRequest {
        order: args.order.clone(),
        steps: None,
        samples: args.samples,
        seed: args.seed,
        guidance: args.guidance,
    };
    let scale = request.scale()?;
    let mut tasks = tasks(args, &request, &engine)?;
    // What is wrong with any text is said before the first is computed.
    let description = engine.predictor.description().clone();
    for (number, one) in tasks.iter().enumerate() {
        let pair = (one.passage.clone(), one.likelihood.clone());
        let checked = Scoring::new(vec![pair], scale, &description);
        if tasks.len() > 1 {
            checked.with_context(|| format!("text {}", number + 1))?
        } else {
            checked?
        };
    }
    let batch = args.batch.unwrap_or_else(|| engine.predictor.default_batch());
    while !tasks.is_empty() {
        let some: Vec<ScoreTask> = tasks.drain(..tasks.len().min(BATCH)).collect();
        let pairs = some.iter().map(|one| (one.passage.clone(), one.likelihood.clone())).collect();
        let mut scoring = Scoring::new(pairs, scale, &description)?;
        let scores = scoring.finish(batch, usize::MAX, engine.predictor.as_mut())?;
        for (ScoreTask { id, columns, passage, .. }, score) in some.into_iter().zip(scores) {
            let record = ScoreRecord { id, ..ScoreRecord::of(&score, &passage, &engine.checkpoint)? };
            match args.format {
                Format::Json => print(&serde_json::to_string(&Row { record, columns })?)?,
                Format::Text => print(&line(&record))?,
            }
        }
    }
    Ok(())
}

fn line(record: &ScoreRecord) -> String {
    let error = record.standard_error.map(|error| format!(" ± {error:.4}")).unwrap_or_default();
    let ScoreRecord { loglikelihood, mean_logprob, tokens, .. } = record;
    format!("{loglikelihood:.4}{error}   {mean_logprob:.4} a token, {tokens} tokens")
}

/// All texts that the flags name: arguments, --jsonl, --trace.
fn tasks(args: &Score, request: &ScoreRequest, engine: &Engine) -> Result<Vec<ScoreTask>> {
    let mut tasks = Vec::new();
    let (prompt, system) = (args.prompt.as_deref().unwrap_or_default(), args.system.as_deref());
    ensure!(args.prompt.as_deref() != Some(""), "--prompt is empty: leave it out for texts without one");
    ensure!(system.is_none() || args.prompt.is_some() || args.jsonl.is_some(), "--system goes before a --prompt");
    for text in &args.texts {
        let passage = engine.checkpoint.passage(prompt, system, args.raw, &text_or_stdin(text)?)?;
        let likelihood = request.likelihood(&passage)?;
        tasks.push(ScoreTask { id: None, columns: Map::new(), passage, likelihood });
    }
    for (path, recorded) in [(&args.jsonl, false), (&args.trace, true)] {
        let Some(path) = path else { continue };
        let text = read(path)?;
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let one = if recorded { recorded_run(line) } else { row(line, args, request, engine) };
            tasks.push(one.with_context(|| format!("{} line {}", path.display(), number + 1))?);
        }
    }
    ensure!(!tasks.is_empty(), "there is nothing to score: give texts, --jsonl or --trace");
    Ok(tasks)
}

fn recorded_run(line: &str) -> Result<ScoreTask> {
    let record: Record = serde_json::from_str(line).map_err(|error| anyhow!("not a recorded run: {error}"))?;
    let (passage, likelihood) = record.passage()?;
    Ok(ScoreTask { id: record.id, columns: Map::new(), passage, likelihood })
}

fn row(line: &str, args: &Score, request: &ScoreRequest, engine: &Engine) -> Result<ScoreTask> {
    let mut columns: Map<String, Value> =
        serde_json::from_str(line).map_err(|error| anyhow!("not a JSON object: {error}"))?;
    if let Some(column) = columns.keys().find(|column| ScoreRecord::FIELDS.contains(&column.as_str())) {
        bail!("its column \"{column}\" is one that the output has, too: give it another name");
    }
    let mut request = request.clone();
    if let Some(order) = field(&mut columns, "order", "a text")? {
        request.order = Some(order);
    }
    request.steps = field(&mut columns, "steps", "a list of lists of places")?;
    let id = columns.remove("id");
    let text: Option<String> = field(&mut columns, "text", "a text")?;
    let text_tokens: Option<Vec<Token>> = field(&mut columns, "text_tokens", "a list of token ids")?;
    let prompt: Option<String> = field(&mut columns, "prompt", "a text")?;
    let messages: Option<Vec<Message>> = field(&mut columns, "messages", "a list of messages")?;
    let prompt_tokens: Option<Vec<Token>> = field(&mut columns, "prompt_tokens", "a list of token ids")?;
    let (checkpoint, system) = (&engine.checkpoint, args.system.as_deref());
    let prompt = prompt.or_else(|| args.prompt.clone().filter(|_| messages.is_none() && prompt_tokens.is_none()));
    let given = match (&prompt, messages, prompt_tokens) {
        (Some(prompt), None, None) => match &text {
            Some(text) => Given::Whole(checkpoint.passage(prompt, system, args.raw, text)?),
            None => Given::Prompt(checkpoint.encode_prompt(prompt, system, args.raw)?),
        },
        (None, Some(messages), None) => {
            ensure!(!messages.is_empty(), "a chat has at least one message");
            let pairs = messages.iter().map(|Message { role, content }| (role.as_str(), content.as_str()));
            Given::Prompt(engine.text()?.chat(&Vec::from_iter(pairs))?)
        }
        (None, None, tokens) => Given::Prompt(tokens.unwrap_or_default()),
        _ => bail!("it has more than one of \"prompt\", \"messages\" and \"prompt_tokens\""),
    };
    let passage = match (given, text, text_tokens) {
        (_, Some(_), Some(_)) => bail!("it has both \"text\" and \"text_tokens\""),
        (_, None, None) => bail!("it has neither \"text\" nor \"text_tokens\""),
        (Given::Whole(passage), ..) => passage,
        (Given::Prompt(prompt), text, tokens) => {
            let text = match text {
                Some(text) if text.is_empty() => Vec::new(),
                Some(text) => engine.text()?.encode(&text)?,
                None => tokens.unwrap_or_default(),
            };
            Passage { prompt: prompt.len(), tokens: [prompt, text].concat() }
        }
    };
    let likelihood = request.likelihood(&passage)?;
    Ok(ScoreTask { id, columns, passage, likelihood })
}

/// The start of a row's canvas: a prompt, or all of it.
enum Given {
    Prompt(Vec<Token>),
    Whole(Passage),
}

/// Takes a member out of a row.
fn field<T: serde::de::DeserializeOwned>(row: &mut Map<String, Value>, name: &str, what: &str) -> Result<Option<T>> {
    match row.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => serde_json::from_value(value).map(Some).map_err(|_| anyhow!("its \"{name}\" is not {what}")),
    }
}
