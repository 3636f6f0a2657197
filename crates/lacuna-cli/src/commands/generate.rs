//! `lacuna generate`: answer prompts.

use std::collections::BTreeMap;
use std::io::{IsTerminal, stdin};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use lacuna::catalogue::Params;
use lacuna::{CONSTRAINTS, Description, Run, Token, Work, decode_all};
use lacuna_models::{Job, Kind, Plan, Record, Request};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{read, text_or_stdin};
use crate::args::{Decoding, Model, Output, Tokens, parse_count, parse_tokens};
use crate::engine::Engine;
use crate::show::Show;

#[derive(Args)]
#[command(after_help = "\
Examples:
  lacuna generate \"Tom has 3 boxes of 12 apples and eats 5. How many are left?\"
  lacuna generate --strategy confidence --gen-length 128 --block-length 32 \"...\"
  lacuna generate --model LLaDA-8B-Instruct --strategy dos+eb --layer 4 \"...\"
  lacuna generate --jsonl prompts.jsonl --format json > runs.jsonl
  lacuna generate --prompt-tokens 1,2,3 --format json
  lacuna generate --json-schema answer.schema.json \"...\"
  lacuna generate --draft \"3 * 12 = 38\" \"...\"
  lacuna generate --regex '.*#### -?[0-9]+' \"...\"")]
pub(crate) struct Generate {
    /// Prompts to answer, each on its own; '-' reads one from standard input
    #[arg(value_name = "PROMPT")]
    prompts: Vec<String>,
    /// Another way to give a prompt; may be repeated
    #[arg(long = "prompt", value_name = "TEXT")]
    prompt_flags: Vec<String>,
    /// A prompt as raw token ids, to which no template is added; may be repeated
    #[arg(long, value_name = "IDS", value_parser = parse_tokens)]
    prompt_tokens: Vec<Tokens>,
    /// A file ('-': standard input) with one object a line: {"prompt": TEXT}, {"messages": [{"role", "content"}, ...]} or
    /// {"prompt_tokens": [...]}; "regex", "choices", "json", "json_schema" or "grammar" constrain its answer, "draft" begins it; its
    /// "id" and all other columns come back in the output
    #[arg(long, value_name = "FILE")]
    jsonl: Option<PathBuf>,
    /// Give the prompt to the model as it is, without its chat template
    #[arg(long)]
    raw: bool,
    /// A system message to put before the prompt
    #[arg(long, value_name = "TEXT", conflicts_with = "raw")]
    system: Option<String>,
    /// Samples of each prompt, drawn with the seed, the seed + 1 and so on
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_count)]
    n: usize,
    /// Draw this many samples and print the n best, by the mean log-probability of their tokens [default: n]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    best_of: Option<usize>,
    /// Batch size: texts per forward pass; the answers are the same for any
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_count)]
    batch: usize,
    #[command(flatten)]
    decoding: Decoding<true>,
    #[command(flatten)]
    model: Model,
    #[command(flatten)]
    output: Output,
}

/// A prompt as tokens, and what its answer is to be filed under.
struct Prompt {
    id: Option<Value>,
    columns: Map<String, Value>,
    tokens: Vec<Token>,
    /// Constraint on its answer, and its draft.
    own: Params,
    /// Its line or index, if there are others.
    place: String,
}

impl Prompt {
    fn new(tokens: Vec<Token>) -> Self {
        Self { id: None, columns: Map::new(), tokens, own: Params::new(), place: String::new() }
    }
}

/// One message of a chat.
#[derive(Deserialize)]
pub(super) struct Message {
    pub(super) role: String,
    pub(super) content: String,
}

/// One line of a prompt file.
#[derive(Deserialize)]
struct Line {
    id: Option<Value>,
    prompt: Option<String>,
    messages: Option<Vec<Message>>,
    prompt_tokens: Option<Vec<Token>>,
    #[serde(flatten)]
    columns: Map<String, Value>,
}

pub(crate) fn generate(args: &Generate) -> Result<()> {
    let mut engine = Engine::open_replicas(&args.model)?;
    let request = args.decoding.request(Some(&args.output))?;
    let plan = request.plan(&engine.checkpoint)?;
    let best_of = args.best_of.unwrap_or(args.n);
    ensure!(best_of >= args.n, "--best-of is {best_of}, but --n asks for {} of them", args.n);
    if best_of > args.n {
        plan.check_best_of()?;
    }
    let prompts = prompts(args, &engine)?;
    let mut jobs = Vec::new();
    for prompt in prompts {
        let model = engine.predictor.description();
        let own = match prompt.own == Params::new() {
            true => Ok(plan.clone()),
            false => Request(prompt.own.or(&request)).plan(&engine.checkpoint),
        };
        let placed = |error: lacuna::Error| match prompt.place.is_empty() {
            true => anyhow::Error::from(error),
            false => anyhow::Error::from(error).context(prompt.place.clone()),
        };
        let mut own = own.map_err(placed)?;
        for sample in 0..best_of {
            own.options.seed = plan.options.seed.wrapping_add(sample as u64);
            let run = own.answer(&prompt.tokens, model).map_err(placed)?;
            let job = Job::new(run, prompt.tokens.len(), Kind::Answer);
            jobs.push(Job { id: prompt.id.clone(), columns: prompt.columns.clone(), ..job });
        }
    }
    let (checkpoint, mut replicas) = engine.parts();
    let mut show = Show::new(&args.output, jobs.len(), &plan, checkpoint);
    show.watch &= replicas.len() == 1;
    let ends = checkpoint.ends();
    let mut answers =
        OrderedAnswers { show, plan: &plan, ends, n: args.n, best_of, finished: BTreeMap::new(), shown: 0 };
    decode_all(&mut replicas, args.batch, jobs.into_iter().enumerate(), &mut answers)
}

/// Shows answers in the order of their prompts, of several samples the best.
struct OrderedAnswers<'a> {
    show: Show<'a>,
    plan: &'a Plan,
    /// Tokens that end a text.
    ends: Vec<Token>,
    /// Answers that are shown of each prompt, and those that are drawn.
    n: usize,
    best_of: usize,
    /// Those that are finished before their turn.
    finished: BTreeMap<usize, Job>,
    shown: usize,
}

/// A prompt's number, and its answer.
struct Numbered(usize, Job);

impl AsMut<Run> for Numbered {
    fn as_mut(&mut self) -> &mut Run {
        &mut self.1.run
    }
}

impl Work for OrderedAnswers<'_> {
    type Question = (usize, Job);
    type Job = Numbered;
    type Error = anyhow::Error;

    fn begin(&mut self, (number, job): (usize, Job), _model: &Description) -> Result<Numbered> {
        Ok(Numbered(number, job))
    }

    fn stepped(&mut self, jobs: &mut [Numbered], took: Duration) -> Result<()> {
        jobs.iter_mut().for_each(|Numbered(_, job)| job.took += took);
        self.show.step(&Vec::from_iter(jobs.iter().map(|Numbered(_, job)| job)))
    }

    fn finished(&mut self, jobs: Vec<Numbered>) -> Result<()> {
        self.finished.extend(jobs.into_iter().map(|Numbered(number, job)| (number, job)));
        while (self.shown..self.shown + self.best_of).all(|number| self.finished.contains_key(&number)) {
            let drawn = self.shown..self.shown + self.best_of;
            let mut samples: Vec<Job> = drawn.filter_map(|number| self.finished.remove(&number)).collect();
            if self.best_of > self.n {
                let mean = |job: &Job| job.summary(self.plan).mean_logprob(&self.ends).unwrap_or(f64::NEG_INFINITY);
                samples.sort_by(|a, b| mean(b).total_cmp(&mean(a)));
            }
            samples[..self.n].iter().try_for_each(|job| self.show.finish(job))?;
            self.shown += self.best_of;
        }
        Ok(())
    }
}

/// All prompts that the flags name, in the order: arguments, --prompt, --prompt-tokens, --jsonl. With none of them, what
/// is piped in.
fn prompts(args: &Generate, engine: &Engine) -> Result<Vec<Prompt>> {
    let mut prompts = Vec::new();
    for text in args.prompts.iter().chain(&args.prompt_flags) {
        let text = text_or_stdin(text)?;
        prompts.push(Prompt::new(encode(&text, args, engine)?));
    }
    prompts.extend(args.prompt_tokens.iter().map(|tokens| Prompt::new(tokens.0.clone())));
    if prompts.len() > 1 {
        prompts.iter_mut().zip(1..).for_each(|(prompt, number)| prompt.place = format!("prompt {number}"));
    }
    if let Some(path) = &args.jsonl {
        let text = read(path)?;
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let place = format!("{} line {}", path.display(), number + 1);
            let prompt = parse_line(line, args, engine).with_context(|| place.clone())?;
            prompts.push(Prompt { place, ..prompt });
        }
        ensure!(!prompts.is_empty(), "{} has no prompts", path.display());
    }
    if prompts.is_empty() {
        ensure!(
            !stdin().is_terminal(),
            "there is no prompt: write one after `lacuna generate`, in quotes, or pipe it in"
        );
        prompts.push(Prompt::new(encode(&text_or_stdin("-")?, args, engine)?));
    }
    Ok(prompts)
}

fn parse_line(line: &str, args: &Generate, engine: &Engine) -> Result<Prompt> {
    let unread = |error| anyhow!("not a prompt object: {error}");
    let mut members: Map<String, Value> = serde_json::from_str(line).map_err(unread)?;
    let own = take_own_params(&mut members)?;
    let line: Line = serde_json::from_value(Value::Object(members)).map_err(unread)?;
    let tokens = match (line.prompt, line.messages, line.prompt_tokens) {
        (Some(prompt), None, None) => encode(&prompt, args, engine)?,
        (None, Some(messages), None) => {
            ensure!(!messages.is_empty(), "a chat has at least one message");
            let pairs = messages.iter().map(|Message { role, content }| (role.as_str(), content.as_str()));
            engine.text()?.chat(&Vec::from_iter(pairs))?
        }
        (None, None, Some(tokens)) => tokens,
        _ => bail!("a prompt object has exactly one of \"prompt\", \"messages\" and \"prompt_tokens\""),
    };
    if let Some(column) = line.columns.keys().find(|column| Record::FIELDS.contains(&column.as_str())) {
        bail!("its column \"{column}\" is one that the output has, too: give it another name");
    }
    Ok(Prompt { id: line.id, columns: line.columns, own, ..Prompt::new(tokens) })
}

/// Takes the constraint and the draft out of a prompt object. What is a file on the command line is its text here, or the object that it holds.
fn take_own_params(members: &mut Map<String, Value>) -> Result<Params> {
    let mut params = Params::new();
    for name in CONSTRAINTS.into_iter().chain(["draft"]) {
        match members.remove(name) {
            None | Some(Value::Null) => {}
            Some(object @ Value::Object(_)) => params.set(name, &object.to_string().as_str().into())?,
            Some(value) => {
                let shown = value.to_string();
                let refused =
                    |_| lacuna::Error::parameter(name, shown, "must be text, a list of texts, an object or a boolean");
                params.set(name, &serde_json::from_value(value).map_err(refused)?)?;
            }
        }
    }
    Ok(params)
}

fn encode(prompt: &str, args: &Generate, engine: &Engine) -> Result<Vec<Token>> {
    Ok(engine.checkpoint.encode_prompt(prompt, args.system.as_deref(), args.raw)?)
}
