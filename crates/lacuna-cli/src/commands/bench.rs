//! `lacuna bench`: how fast one decoding step is, and where its time goes.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use clap::builder::PossibleValuesParser;
use lacuna::{
    Belief, Canvas, Description, Observation, Options, Predictor, Row, Run, Sampling, Settings, Strategy, Token, View,
    split,
};
use lacuna_models::{Checkpoint, Model, Precision, Request, Shape, forward_flops, load};
use serde::Serialize;

use super::print;
use crate::args::{self, Format, few, positive};
use crate::engine::start_threads;

#[derive(Args)]
#[command(after_help = "\
The model has random weights, which are made in memory. Half of the canvas is prompt; what is measured is the first step of
a run, in which the whole block is masked; with a cache its second, the first that uses it. All times are those of the best
repetition. On a GPU what a step reads is fetched along with its forward pass, and is part of that time.

Examples:
  lacuna bench --shape medium --strategy dos
  lacuna bench --shape medium --strategy confidence --block-length 64
  lacuna bench --shape llada-8b --length 640 --device cuda
  lacuna bench --shape dream-7b --strategy entropy --temperature 0.2 --top-p 0.95
  lacuna bench --shape medium --cache dual
  lacuna bench --shape mini --batch 16 --format json")]
pub(crate) struct Bench {
    /// The shape of the model
    #[arg(long, value_name = "NAME", default_value = "mini",
        value_parser = PossibleValuesParser::new(Shape::ALL.map(Shape::name)))]
    shape: String,
    /// The precision of weights and matrix products
    #[arg(long, value_enum, default_value_t = args::Precision::Bf16)]
    precision: args::Precision,
    /// Where to compute
    #[arg(long, value_enum, default_value_t = args::Device::Auto)]
    device: args::Device,
    /// How many threads to use [default: all cores]
    #[arg(long, value_name = "N", value_parser = few)]
    threads: Option<usize>,
    /// How many positions a canvas has, with its prompt
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = positive)]
    length: usize,
    /// How many positions the block has that is decoded
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = positive)]
    block_length: usize,
    /// The strategy whose step is measured
    #[arg(long, value_name = "NAME", default_value = "dos")]
    strategy: String,
    /// dos: the layer whose attention is used [default: a sixth of the way up]
    #[arg(long, value_name = "N")]
    layer: Option<usize>,
    /// eb: the entropy bound in nats [default: 0.01]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    gamma: Option<f64>,
    /// Draw tokens at this temperature; 0 takes the most probable [default: 0]
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    temperature: Option<f64>,
    /// Draw only from the most probable tokens that together reach this probability
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    top_p: Option<f64>,
    /// Draw only from the K most probable tokens
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,
    /// Which keys and values the step takes from the first one of its block
    #[arg(long, value_enum, default_value_t = args::Cache::None)]
    cache: args::Cache,
    /// How many canvases share a forward pass
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = few)]
    batch: usize,
    /// How many steps to measure
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = positive)]
    repetitions: usize,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Serialize)]
struct Report {
    shape: &'static str,
    device: String,
    precision: &'static str,
    threads: usize,
    length: usize,
    block_length: usize,
    batch: usize,
    strategy: String,
    ms_per_step: f64,
    forward_ms: f64,
    read_ms: f64,
    decode_ms: f64,
    gflops: f64,
    ceiling_gflops: f64,
    rows_read: usize,
    tokens_per_second: f64,
    peak_memory_bytes: Option<u64>,
}

/// A predictor that watches the clock.
struct Timed {
    inner: Box<dyn Model>,
    forward: Duration,
    read: Duration,
    rows: usize,
}

impl Predictor for Timed {
    fn description(&self) -> &Description {
        self.inner.description()
    }

    fn observe(&mut self, views: &[View<'_>]) -> lacuna::Result<Vec<Observation>> {
        let begun = Instant::now();
        let seen = self.inner.observe(views);
        self.inner.wait()?;
        self.forward += begun.elapsed();
        seen
    }

    fn read(&mut self, rows: &[Row<'_>]) -> lacuna::Result<Vec<Belief>> {
        let begun = Instant::now();
        let beliefs = self.inner.read(rows);
        self.read += begun.elapsed();
        self.rows += rows.len();
        beliefs
    }

    fn forget(&mut self, run: u64) {
        self.inner.forget(run);
    }
}

/// One measured step.
struct Sample {
    total: Duration,
    forward: Duration,
    read: Duration,
    rows: usize,
    tokens: usize,
}

pub(crate) fn bench(args: &Bench) -> Result<()> {
    start_threads(args.threads)?;
    let shape = Shape::named(&args.shape).context("the shape is one of those that --help lists")?;
    let checkpoint = Checkpoint::random(shape)?;
    let architecture = checkpoint.architecture();
    let block_length = args.block_length.min(args.length);
    ensure!(
        args.length <= architecture.context,
        "--length {} is beyond the shape's {} positions",
        args.length,
        architecture.context
    );
    let layers = vec![args.layer.unwrap_or(architecture.layers() / 6)];
    let gamma = args.gamma.unwrap_or(Settings::default().gamma);
    let settings = Settings { layers, gamma, ..Settings::default() };
    let &Bench { temperature, top_p, top_k, .. } = args;
    let rule =
        Request { temperature, top_p, top_k, ..Request::default() }.token_rule(architecture.family.convention())?;
    let sampling = Sampling { rule, ..Sampling::default() };
    let precision = Precision::from(args.precision);
    let mut model = Timed {
        inner: load(&checkpoint, Some(precision), args.device.into())?,
        forward: Duration::ZERO,
        read: Duration::ZERO,
        rows: 0,
    };
    // Before the steps, which heat the chip.
    let ceiling_gflops = model.inner.ceiling_gflops()?;

    let mut take = || -> Result<Sample> {
        let options = Options { sampling: sampling.clone(), cache: args.cache.into(), ..Options::default() };
        let begin = || begin(args, block_length, &settings, &options, model.description());
        let mut runs = (0..args.batch).map(|_| begin()).collect::<Result<Vec<Run>>>()?;
        if args.cache != args::Cache::None {
            lacuna::step(&mut runs.iter_mut().collect::<Vec<_>>(), &mut model)?;
        }
        (model.forward, model.read, model.rows) = Default::default();
        let begun = Instant::now();
        lacuna::step(&mut runs.iter_mut().collect::<Vec<_>>(), &mut model)?;
        let total = begun.elapsed();
        let tokens = runs.iter().filter_map(|run| run.trace().deltas.last()).map(|delta| delta.committed.len()).sum();
        runs.into_iter().for_each(|run| run.abandon(&mut model));
        Ok(Sample { total, forward: model.forward, read: model.read, rows: model.rows, tokens })
    };
    // The first step finds no buffers yet.
    take()?;
    let samples = (0..args.repetitions).map(|_| take()).collect::<Result<Vec<_>>>()?;
    let best = samples.into_iter().min_by_key(|sample| sample.total).context("--repetitions is 1 or more")?;

    let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
    let device = model.inner.device();
    let on_gpu = !device.starts_with("cpu");
    let memory = model.inner.memory(args.batch * args.length);
    let held = memory.weights + memory.buffers;
    let gap = args.length - gap_start(args, block_length);
    let rows = match args.cache {
        args::Cache::None => args.length,
        args::Cache::Prefix => gap,
        args::Cache::Dual => block_length,
    };
    let operations = args.batch as f64 * forward_flops(architecture, rows, args.length);
    report(
        &Report {
            shape: shape.name(),
            device: if on_gpu { device } else { "cpu".into() },
            precision: precision.name(),
            threads: rayon::current_num_threads(),
            length: args.length,
            block_length,
            batch: args.batch,
            strategy: args.strategy.clone(),
            ms_per_step: ms(best.total),
            forward_ms: ms(best.forward),
            read_ms: ms(best.read),
            decode_ms: ms(best.total.saturating_sub(best.forward + best.read)),
            gflops: operations / best.forward.as_secs_f64() * 1e-9,
            ceiling_gflops,
            rows_read: best.rows,
            tokens_per_second: best.tokens as f64 / best.total.as_secs_f64(),
            peak_memory_bytes: if on_gpu { Some(held as u64) } else { peak_memory() },
        },
        args.format,
    )
}

/// A run whose first half is a prompt.
fn begin(
    args: &Bench,
    block_length: usize,
    settings: &Settings,
    options: &Options,
    description: &Description,
) -> Result<Run> {
    let start = gap_start(args, block_length);
    let words = description.vocabulary.min(description.mask as usize);
    let prompt: Vec<Token> = (0..start).map(|position| (position * 7919 % words) as Token).collect();
    let canvas = Canvas::with_tail(&prompt, args.length - start, description.mask)?;
    let strategy = Strategy::parse(&args.strategy, settings)?;
    let blocks = split(start..args.length, block_length);
    Ok(Run::new(canvas, blocks, strategy, options.clone(), description)?)
}

/// Where the prompt ends.
fn gap_start(args: &Bench, block_length: usize) -> usize {
    args.length - block_length.max(args.length / 2)
}

fn report(report: &Report, format: Format) -> Result<()> {
    if format == Format::Json {
        return print(&serde_json::to_string(report)?);
    }
    let Report { shape, device, precision, threads, length, block_length, batch, strategy, .. } = report;
    let line = |name: &str, value: String| print(&format!("{name:<14}{value}"));
    line("shape", format!("{shape}, {batch} x {length} positions in blocks of {block_length}, {strategy}"))?;
    let place = if device == "cpu" { format!("{threads} threads (cpu)") } else { device.clone() };
    line("computes", format!("in {precision} on {place}"))?;
    line("step", format!("{:.2} ms, {:.1} tokens/s", report.ms_per_step, report.tokens_per_second))?;
    let share = 100.0 * report.gflops / report.ceiling_gflops;
    let speed = format!("{:.0} of {:.0} GFLOP/s, {share:.0}%", report.gflops, report.ceiling_gflops);
    line("  forward", format!("{:.2} ms ({speed})", report.forward_ms))?;
    line("  read", format!("{:.2} ms ({} rows)", report.read_ms, report.rows_read))?;
    line("  decode", format!("{:.3} ms", report.decode_ms))?;
    match report.peak_memory_bytes {
        Some(bytes) => line("peak memory", format!("{:.0} MB", bytes as f64 * 1e-6)),
        None => Ok(()),
    }
}

/// The most memory this process has held, where the system tells.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}
