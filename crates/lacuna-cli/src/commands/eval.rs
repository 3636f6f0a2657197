//! `lacuna eval`: measure strategies on benchmarks.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal, Write, stderr};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use clap::Args;
use clap::builder::{EnumValueParser, TypedValueParser};
use lacuna::catalogue::{Layers, Params};
use lacuna::{Borders, CONSTRAINTS, Canvas, Description, Options, Recipe, Replica, Run, Token};
use lacuna_eval::report::merge;
use lacuna_eval::run::{Entry, Evaluation, Folder, Model, Part, Progress, Shard, TextCodec, Trial, evaluate};
use lacuna_eval::suite::Suite;
use lacuna_eval::task;
use lacuna_eval::tune::Preset;
use lacuna_models::{Checkpoint, Plan, PlanContext, Request, Specials, Text, uses_attention};

use super::print;
use crate::args::{self, Decoding, Format};
use crate::engine::{Engine, open_as_asked};

#[derive(Args)]
#[command(after_help = "\
Tasks: gsm8k, math500, humaneval, mbpp (from --data), words and code (part of the program), and those of models/orders: last,
first, forward, backward, shuffled, sudoku, sudoku9, latin, copy, reverse, sort, shuffle.

Every sample is written as it is done: the same command goes on where a stopped one ended. `lacuna report DIR` makes tables
and plots of the results.

Examples:
  lacuna eval words code --strategy confidence,dos,dos+eb --limit 64
  lacuna eval --suite mini --limit 64 --out results/mini
  lacuna eval words --suite strategies --strategy dos+eb,dos+cumulative --out results/part
  lacuna eval --suite orders --model models/orders --out results/orders
  lacuna eval gsm8k --model LLaDA-8B-Instruct --data data --strategy fast-dllm,dos+eb --block-lengths 32,one
  lacuna eval --suite paper --model LLaDA-8B-Instruct --data data --shard 1/8 --out results/paper-1")]
pub(crate) struct Eval {
    #[command(flatten)]
    measurement: Measurement,
    /// List the protocols of the tasks named, or of all, and stop
    #[arg(long)]
    list_protocols: bool,
    /// Spread the problems over the Ray cluster at ADDRESS, else over one that is there or is started here; it takes the `lacuna` command
    /// of the Python package
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "auto", conflicts_with = "shard")]
    ray: Option<String>,
    #[command(flatten)]
    decoding: Decoding,
    #[command(flatten)]
    model: args::Model,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// An evaluation, but for the model and the parameters of decoding.
#[derive(Args, Clone, Default)]
pub struct Measurement {
    /// The tasks; of a suite, only these
    #[arg(value_name = "TASK")]
    pub tasks: Vec<String>,
    /// A list of measurements: paper, mini, orders, heads, strategies, or a file; TASK and --strategy take a part of it
    #[arg(long, value_name = "NAME", conflicts_with = "preset")]
    pub suite: Option<String>,
    /// The folder with the data files, or one such file [default: the model's folder; words and code need none]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Folder for the results
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub out: PathBuf,
    /// Protocol: how the tasks are asked and answers are taken; `--list-protocols` lists them [default: the task's own]
    #[arg(long, value_name = "NAME")]
    pub protocol: Option<String>,
    /// Layers, heads and strategy as `lacuna tune` found them
    #[arg(long, value_name = "FILE")]
    pub preset: Option<PathBuf>,
    /// Only the first N problems of each task
    #[arg(long, value_name = "N", value_parser = args::parse_positive)]
    pub limit: Option<usize>,
    /// Part of the problems: all, those set aside for `lacuna tune`, or the others
    #[arg(long, value_name = "PART", default_value = "all", value_parser = EnumValueParser::<PartName>::new().map(Part::from))]
    pub part: Part,
    /// Shard of this machine: I of N
    #[arg(long, value_name = "I/N", default_value = "1/1")]
    pub shard: Shard,
    /// Batch size: problems per forward pass; the answers are the same for any [default: 8; of a small
    /// model one for each thread, on a GPU 128]
    #[arg(long, value_name = "N", value_parser = args::parse_positive)]
    pub batch: Option<usize>,
    /// Number of tokens to generate; several are tried in turn [default: the task's own]
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    pub gen_length: Vec<usize>,
    /// Block lengths to try in turn; "one" is one block
    #[arg(long, value_name = "N,...", value_delimiter = ',', conflicts_with = "block_length")]
    pub block_lengths: Vec<String>,
    /// dos: layers to try in turn, each on its own: 0,2,4 or 0-7 or all
    #[arg(long, value_name = "LAYERS", conflicts_with = "layer")]
    pub each_layer: Option<String>,
    /// Run generated code even where nothing confines it
    #[arg(long)]
    pub unconfined: bool,
}

/// The model that is measured.
pub struct Subject<'a> {
    /// Facts that results depend on.
    pub model: Model,
    /// Everything that a plan depends on.
    pub context: PlanContext,
    /// Its checkpoint, if it has one; constraints need its tokenizer.
    pub checkpoint: Option<&'a Checkpoint>,
    /// Default batch size.
    pub default_batch: usize,
    /// The model on each of its devices.
    pub replicas: Vec<Replica<'a>>,
    /// Its tokenizer and chat template.
    pub codec: &'a dyn TextCodec,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum PartName {
    All,
    Tune,
    Test,
}

impl From<PartName> for Part {
    fn from(name: PartName) -> Self {
        match name {
            PartName::All => Self::All,
            PartName::Tune => Self::Tune,
            PartName::Test => Self::Test,
        }
    }
}

pub(crate) fn eval(args: &Eval) -> Result<()> {
    if args.list_protocols {
        return list_protocols(&args.measurement.tasks);
    }
    // The command of the Python package takes it from here before.
    ensure!(
        args.ray.is_none(),
        "--ray takes the `lacuna` command of the Python package: pip install '.[ray]' in a checkout"
    );
    let request = args.decoding.request(None)?;
    let mut engine = Engine::open_replicas(&args.model)?;
    let mut measurement = args.measurement.clone();
    measurement.data = measurement.data.or_else(|| args.model.model.clone());
    let (model, default_batch) =
        (describe_model(&engine.checkpoint, engine.predictor.as_ref()), engine.predictor.default_batch());
    let (checkpoint, replicas) = engine.parts();
    let subject = Subject {
        model,
        context: PlanContext::of(checkpoint),
        checkpoint: Some(checkpoint),
        default_batch,
        replicas,
        codec: &CheckpointCodec::of(checkpoint)?,
    };
    let entries = measure(&measurement, &request, subject, true)?;
    if args.format == Format::Json {
        return print(&serde_json::to_string(&entries)?);
    }
    if measurement.shard.count > 1 {
        return print(&format!("shard {} is done: bring all together with lacuna report", measurement.shard));
    }
    let out = &measurement.out;
    print(&merge(&[Folder::open(out)?])?.markdown(&[]))?;
    print(&format!("Samples and results.json are in {0}; lacuna report {0} adds plots.", out.display()))
}

/// Says what is wrong with an evaluation, without loading the model.
pub(crate) fn check_eval(args: &Eval) -> Result<()> {
    let request = args.decoding.request(None)?;
    let checkpoint = open_as_asked(&args.model)?;
    let (family, context) = (checkpoint.architecture().family.name(), PlanContext::of(&checkpoint));
    trials(&args.measurement, &request, family, &context, &checkpoint.description()?)?;
    Request(general(&request)).plan(&checkpoint)?;
    Ok(())
}

/// Measures a model, and shows on standard error how far it is if asked to. Returns what results.json holds.
pub fn measure(
    measurement: &Measurement,
    request: &Request,
    subject: Subject<'_>,
    progress: bool,
) -> Result<Vec<Entry>> {
    let Subject { model, context, checkpoint, default_batch, mut replicas, codec } = subject;
    let Some(description) = replicas.first().map(|replica| replica.description()) else {
        bail!("there is no model to measure");
    };
    let mut trials = trials(measurement, request, &model.family, &context, description)?;
    if measurement.suite.is_some() {
        trials = supported(trials, description)?;
    }
    let general = general(request);
    let plan = match checkpoint {
        Some(checkpoint) => Request(general.clone()).plan(checkpoint)?,
        None => Request(general.clone()).plan_for(&context)?,
    };
    let evaluation = Evaluation {
        out: measurement.out.clone(),
        data: measurement.data.clone(),
        model,
        trials,
        limit: measurement.limit,
        part: measurement.part,
        shard: measurement.shard,
        seed: request.integer("seed").unwrap_or(0) as u64,
        batch: measurement.batch.unwrap_or(default_batch),
        general,
        options: plan.options,
        unconfined: measurement.unconfined,
    };
    let mut bar = progress.then(Bar::new);
    let result = evaluate(&evaluation, &mut replicas, codec, &mut |progress| {
        if let Some(bar) = &mut bar {
            bar.show("", progress);
        }
    });
    if let Some(bar) = bar {
        bar.end();
    }
    Ok(result?)
}

fn list_protocols(tasks: &[String]) -> Result<()> {
    let named = tasks.iter().map(|name| task::find(name)).collect::<lacuna_eval::Result<Vec<_>>>()?;
    let shown = if named.is_empty() { task::TASKS.to_vec() } else { named };
    shown.into_iter().try_for_each(|task| {
        let names: Vec<&str> = task.protocols().iter().map(|protocol| protocol.name).collect();
        print(&format!("{:<10} {}", task.name(), names.join(", ")))
    })
}

/// The model, as far as results depend on it.
pub fn describe_model(checkpoint: &Checkpoint, model: &dyn lacuna_models::Model) -> Model {
    let device = model.device();
    Model {
        name: checkpoint.name(),
        family: checkpoint.architecture().family.name().into(),
        parameters: checkpoint.parameters(),
        precision: model.precision().name().into(),
        // The number of threads changes no answer, so a run may go on with another.
        device: if device.starts_with("cpu") { "cpu".into() } else { device },
    }
}

/// The parameters of a plan's strategy, as a trial has them.
pub(super) fn settings(plan: &Plan) -> Result<Params> {
    let mut settings = Recipe::parse(&plan.strategy.name, &plan.params)?.own(&plan.params);
    settings.unset("block_length");
    Ok(settings)
}

/// The parameters on which answers depend beside those of a trial.
pub(super) fn general(request: &Request) -> Params {
    request.filter(|name| {
        matches!(name, "temperature" | "top_p" | "top_k" | "sampling" | "guidance" | "suppress_eos" | "defer_eos")
            || CONSTRAINTS.contains(&name)
    })
}

/// All that is asked for, whether the model can do it or not.
fn trials(
    args: &Measurement,
    request: &Request,
    family: &str,
    context: &PlanContext,
    model: &Description,
) -> Result<Vec<Trial>> {
    let base = Request(request.filter(|name| name != "strategy" && !CONSTRAINTS.contains(&name)));
    if let Some(suite) = &args.suite {
        let general = general(request);
        let ours = |name: &str| general.get(name).is_some() || matches!(name, "seed" | "strategy");
        if let Some((name, _)) = request.iter().find(|(name, _)| !ours(name)) {
            bail!("a suite sets its own parameters: leave out --{}", name.replace('_', "-"));
        }
        let mut trials = Suite::load(suite)?.trials(family, context.layers, &context.layers_for(&Params::new()))?;
        keep_named(&mut trials, "task", &args.tasks, |trial| &trial.task)?;
        keep_named(&mut trials, "strategy", &names_in(request.word("strategy").unwrap_or_default()), |trial| {
            &trial.strategy
        })?;
        return Ok(trials);
    }
    if args.tasks.is_empty() {
        bail!("name at least one task ({}), or a suite", task::TASKS.map(|task| task.name()).join(", "));
    }
    let preset: Option<Preset> = match &args.preset {
        Some(path) => Some(serde_json::from_str(&super::read(path)?).map_err(|error| {
            anyhow::anyhow!("{}, line {}: not a preset of lacuna tune ({error})", path.display(), error.line())
        })?),
        None => None,
    };
    let usual = Request::default().plan_for(context)?.strategy.name;
    let named = request.word("strategy").map(str::to_string);
    let named = named.or(preset.as_ref().map(|preset| preset.strategy.clone())).unwrap_or(usual);
    let names = names_in(&named);
    let mut trials: Vec<Trial> = Vec::new();
    for name in &args.tasks {
        let task = task::find(name)?;
        let protocol = task.protocol(args.protocol.as_deref())?;
        let lengths = if args.gen_length.is_empty() { vec![task.gen_length()] } else { args.gen_length.clone() };
        for (strategy, request) in names.iter().zip(base.for_each(&names)?) {
            for &gen_length in &lengths {
                for block_length in blocks(args, &base, default_block(model).unwrap_or(gen_length), gen_length)? {
                    for request in with_layers(args, preset.as_ref(), &request, context)? {
                        let request = request.with("gen_length", gen_length)?.with("block_length", block_length)?;
                        let trial = Trial {
                            task: name.clone(),
                            protocol: protocol.name.into(),
                            strategy: strategy.to_string(),
                            settings: settings(&request.plan_for(context)?)?,
                            gen_length,
                            block_length,
                            early_stop: base.flag("early_stop").unwrap_or(true),
                            labels: Vec::new(),
                        };
                        if !trials.iter().any(|other| other.same(&trial)) {
                            trials.push(trial);
                        }
                    }
                }
            }
        }
    }
    Ok(trials)
}

/// The names in a list with commas.
fn names_in(list: &str) -> Vec<&str> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty()).collect()
}

/// Keeps those trials of a suite whose task or strategy is named. Without names all are kept.
fn keep_named<'a, S: AsRef<str>>(
    trials: &mut Vec<Trial>,
    what: &str,
    names: &'a [S],
    of: impl Fn(&Trial) -> &String,
) -> Result<()> {
    let named = |name: &'a S| trials.iter().any(|trial| of(trial) == name.as_ref());
    if let Some(name) = names.iter().find(|name| !named(name)) {
        bail!("the suite has no {what} '{}': leave it out, or measure it without --suite", name.as_ref());
    }
    trials.retain(|trial| names.is_empty() || names.iter().any(|name| of(trial) == name.as_ref()));
    Ok(())
}

/// The trials that the model can do here. Those that it cannot are named, with the reason.
fn supported(trials: Vec<Trial>, model: &Description) -> Result<Vec<Trial>> {
    let mut able = Vec::new();
    let mut reasons: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for trial in trials {
        let canvas = Canvas::with_tail(&[], trial.gen_length, model.mask)?;
        let run = trial.strategy().map(|strategy| Run::new(canvas, strategy, Options::default(), model));
        match run {
            Ok(Err(why @ lacuna::Error::Incompatible(_))) => {
                reasons.entry(why.to_string()).or_default().insert(trial.strategy);
            }
            // What is wrong otherwise may depend on the problem, and is told when it is decoded.
            _ => able.push(trial),
        }
    }
    for (why, names) in reasons {
        let names: Vec<String> = names.into_iter().collect();
        writeln!(stderr(), "left out: {} ({why})", names.join(", "))?;
    }
    Ok(able)
}

/// The request with each choice of layers that the flags or a preset name, if its strategy uses attention.
fn with_layers(
    args: &Measurement,
    preset: Option<&Preset>,
    request: &Request,
    context: &PlanContext,
) -> Result<Vec<Request>> {
    if !request.word("strategy").is_some_and(uses_attention) {
        return Ok(vec![request.clone()]);
    }
    if let Some(text) = &args.each_layer {
        let layers = match text.parse::<Layers>().map_err(|why| anyhow::anyhow!("--each-layer: {why}"))? {
            Layers::All => (0..context.layers).collect(),
            Layers::These(layers) => layers,
        };
        return Ok(layers
            .into_iter()
            .map(|layer| request.clone().with("layer", layer))
            .collect::<lacuna::Result<_>>()?);
    }
    match preset.filter(|_| request.get("layer").is_none()) {
        Some(preset) => {
            let mut request = request.clone().with("layer", &preset.layer[..])?;
            if !preset.heads.is_empty() && request.get("heads").is_none() {
                request = request.with("heads", &preset.heads[..])?;
            }
            Ok(vec![request])
        }
        None => Ok(vec![request.clone()]),
    }
}

/// The length of the model's blocks, if its attention is block-causal.
pub(super) fn default_block(model: &Description) -> Option<usize> {
    model.visibility.default_blocks().map(Borders::length)
}

fn blocks(args: &Measurement, base: &Request, usual: usize, gen_length: usize) -> Result<Vec<usize>> {
    let mut lengths = Vec::new();
    for text in &args.block_lengths {
        lengths.push(match (text.as_str(), text.parse()) {
            ("one", _) => gen_length,
            (_, Ok(length)) if length > 0 => length,
            _ => bail!("--block-lengths: '{text}' is neither a length nor \"one\""),
        });
    }
    if lengths.is_empty() {
        lengths.push(base.integer("block_length").unwrap_or(usual));
    }
    Ok(lengths)
}

/// The text side of a checkpoint.
pub struct CheckpointCodec<'a> {
    text: &'a Text,
    ends: Vec<Token>,
}

impl<'a> CheckpointCodec<'a> {
    /// That of a checkpoint, which must have a tokenizer.
    pub fn of(checkpoint: &'a Checkpoint) -> Result<Self> {
        Ok(Self { text: checkpoint.text()?, ends: checkpoint.ends() })
    }
}

fn failed(error: lacuna_models::Error) -> lacuna_eval::Error {
    lacuna_eval::Error::Model(Box::new(error))
}

impl TextCodec for CheckpointCodec<'_> {
    fn render(&self, turns: &[(&str, &str)]) -> lacuna_eval::Result<String> {
        self.text.render(turns).map_err(failed)
    }

    fn encode(&self, text: &str) -> lacuna_eval::Result<Vec<Token>> {
        self.text.encode(text).map_err(failed)
    }

    fn decode(&self, tokens: &[Token]) -> lacuna_eval::Result<String> {
        self.text.decode(tokens, Specials::Skip).map_err(failed)
    }

    fn ends(&self) -> &[Token] {
        &self.ends
    }
}

/// Progress of a run: a line that is redrawn on a terminal, a line for each trial elsewhere.
pub(super) struct Bar {
    terminal: bool,
    drawn: Option<Instant>,
}

impl Bar {
    pub(super) fn new() -> Self {
        Self { terminal: stderr().is_terminal(), drawn: None }
    }

    pub(super) fn show(&mut self, stage: &str, progress: &Progress<'_>) {
        let finished = progress.done == progress.total;
        let recent = self.drawn.is_some_and(|drawn| drawn.elapsed().as_millis() < 100);
        if (!self.terminal || recent) && !finished {
            return;
        }
        self.drawn = Some(Instant::now());
        let Progress { trial, number, trials, done, total, correct, nfe, .. } = progress;
        let filled = 20 * done / (*total).max(1);
        let rate = progress.done_now as f64 / progress.elapsed.as_secs_f64().max(1e-3);
        let left = if rate > 0.0 { format!("{} left", duration(progress.left as f64 / rate)) } else { String::new() };
        let line = format!(
            "{stage}[{number}/{trials}] {} · {} · block {} {}{} {done}/{total} · accuracy {:.1}% · NFE {nfe:.1} · {left}",
            trial.task,
            trial.title(),
            trial.block_length,
            "█".repeat(filled),
            "░".repeat(20 - filled),
            100.0 * *correct as f64 / (*done).max(1) as f64,
        );
        // A closed standard error is no reason to stop measuring.
        let _ = match (self.terminal, finished) {
            (true, false) => write!(stderr(), "\r\x1b[K{line}"),
            (true, true) => writeln!(stderr(), "\r\x1b[K{line}"),
            (false, _) => writeln!(stderr(), "{line}"),
        };
    }

    pub(super) fn end(&self) {
        if self.terminal {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

fn duration(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes}:{seconds:02}"),
        (hours, minutes, seconds) => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}
