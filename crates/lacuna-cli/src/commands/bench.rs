//! `lacuna bench`: how fast one decoding step is, and where its time goes.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use clap::builder::PossibleValuesParser;
use lacuna::{Belief, Borders, Canvas, Description, Observation, Options, Predictor, Row, Run, Token, View, Wrapper};
use lacuna_models::{
    Checkpoint, CpuSpeed, Device, Isa, KernelTime, Model, Plan, Precision, Profile, Shape, forward_bytes,
    forward_flops, load,
};
use serde::Serialize;

use super::print;
use crate::args::{self, Decoding, Format, parse_count, parse_positive};
use crate::engine::start_threads;

#[derive(Args)]
#[command(after_help = "\
The model has random weights, which are made in memory. Half of the canvas is prompt, or what --prefix says; what is measured is
the first step of a run, in which the whole block is masked; with a cache, and on block-causal models, its second, the first that
finds the prompt computed. All times are those of the best
repetition. On a GPU what a step reads is fetched along with its forward pass, and is part of that time.

Examples:
  lacuna bench --shape medium --strategy dos
  lacuna bench --shape medium --strategy confidence --block-length 64
  lacuna bench --shape llada-8b --length 640 --device cuda
  lacuna bench --shape dream-7b --strategy entropy --temperature 0.2 --top-p 0.95
  lacuna bench --shape medium --cache dual
  lacuna bench --shape sdar-8b --prefix 640 --device cuda
  lacuna bench --shape mini --batch 16 --format json")]
pub(crate) struct Bench {
    /// The shape of the model
    #[arg(long, value_name = "NAME", default_value = "mini",
        value_parser = PossibleValuesParser::new(Shape::ALL.map(Shape::name)))]
    shape: String,
    /// The precision of weights and matrix products
    #[arg(long, value_enum, default_value_t = args::Precision::Bf16)]
    precision: args::Precision,
    /// Compute device
    #[arg(long, value_name = "DEVICE", default_value_t = Device::Auto)]
    device: Device,
    /// The CPU's instruction set; auto is the one that LACUNA_ISA names, or else the fastest
    #[arg(long, value_enum, default_value_t = args::Isa::Auto)]
    isa: args::Isa,
    /// Number of threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    threads: Option<usize>,
    /// Number of positions of a canvas, with its prompt [default: 256, or the prefix and a block]
    #[arg(long, value_name = "N", value_parser = parse_positive)]
    length: Option<usize>,
    /// Number of positions before the block that is measured [default: half of the canvas]
    #[arg(long, value_name = "N", value_parser = parse_positive)]
    prefix: Option<usize>,
    /// Batch size: canvases per forward pass
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_count)]
    batch: usize,
    /// Number of steps to measure
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = parse_positive)]
    repetitions: usize,
    /// Time each kernel of a further step, on a GPU
    #[arg(long)]
    kernels: bool,
    #[command(flatten)]
    decoding: Decoding,
    /// Output format
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
    #[serde(flatten)]
    cpu: Option<Cpu>,
    #[serde(flatten)]
    profile: Option<Profile>,
}

/// The CPU, and what bounds the forward pass on it.
#[derive(Serialize)]
struct Cpu {
    isa: &'static str,
    fastest_isa: &'static str,
    fastest_ceiling_gflops: f64,
    memory_gbps: f64,
    bound: &'static str,
}

/// A predictor that watches the clock.
struct Timed {
    inner: Box<dyn Model>,
    forward: Duration,
    read: Duration,
    rows: usize,
}

impl Wrapper for Timed {
    fn inner(&self) -> &dyn Predictor {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Predictor {
        &mut *self.inner
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
}

/// One measured step.
struct Sample {
    total: Duration,
    forward: Duration,
    read: Duration,
    rows: usize,
    computed: usize,
    tokens: usize,
    profile: Option<Profile>,
}

pub(crate) fn bench(args: &Bench) -> Result<()> {
    start_threads(args.threads)?;
    Isa::choose(args.isa.into())?;
    let shape = Shape::named(&args.shape).context("the shape is one of those that --help lists")?;
    let checkpoint = Checkpoint::random(shape)?;
    let architecture = checkpoint.architecture();
    let request = args.decoding.request(None)?;
    let default_block = architecture.attention.visibility.default_blocks().map(Borders::length);
    let block_length = request.integer("block_length").or(default_block).unwrap_or(32);
    let length = args.length.unwrap_or_else(|| args.prefix.map_or(256, |prefix| prefix.saturating_add(block_length)));
    let context = architecture.context;
    ensure!(length <= context, "a canvas of {length} positions is beyond the shape's {context}: use a shorter one");
    let block_length = block_length.min(length);
    let prefix = args.prefix.unwrap_or(length - block_length.max(length / 2));
    ensure!(prefix < length, "--prefix {prefix} leaves no room for a block in a canvas of {length} positions");
    let strategy = request.word("strategy").unwrap_or("dos").to_string();
    let request = request.with("strategy", &*strategy)?.with("block_length", block_length)?;
    let plan = request.plan(&checkpoint)?;
    let cached = !plan.strategy.cache.is_exact() || default_block.is_some();
    let precision = Precision::from(args.precision);
    let mut model = Timed {
        inner: load(&checkpoint, Some(precision), &args.device)?,
        forward: Duration::ZERO,
        read: Duration::ZERO,
        rows: 0,
    };
    if args.kernels {
        // A device that cannot tell says so before anything is measured.
        model.inner.begin_profile()?;
        model.inner.end_profile()?;
    }
    // Before the steps, which heat the chip.
    let ceiling_gflops = model.inner.ceiling_gflops()?;

    let mut take = |with_kernels: bool| -> Result<Sample> {
        let begin = || begin([prefix, length], &plan, model.description());
        let mut runs = (0..args.batch).map(|_| begin()).collect::<Result<Vec<Run>>>()?;
        if cached {
            lacuna::step(&mut runs.iter_mut().collect::<Vec<_>>(), &mut model)?;
        }
        let before: usize = runs.iter().map(Run::rows_computed).sum();
        (model.forward, model.read, model.rows) = Default::default();
        if with_kernels {
            model.inner.begin_profile()?;
        }
        let begun = Instant::now();
        lacuna::step(&mut runs.iter_mut().collect::<Vec<_>>(), &mut model)?;
        let total = begun.elapsed();
        let profile = if with_kernels { Some(model.inner.end_profile()?) } else { None };
        let tokens = runs.iter().filter_map(|run| run.trace().deltas.last()).map(|delta| delta.committed.len()).sum();
        let computed = runs.iter().map(Run::rows_computed).sum::<usize>() - before;
        runs.into_iter().for_each(|run| run.abandon(&mut model));
        Ok(Sample { total, forward: model.forward, read: model.read, rows: model.rows, computed, tokens, profile })
    };
    // The first step finds no buffers yet.
    take(false)?;
    let samples = (0..args.repetitions).map(|_| take(false)).collect::<Result<Vec<_>>>()?;
    let best = samples.into_iter().min_by_key(|sample| sample.total).context("--repetitions is 1 or more")?;
    let profile = if args.kernels { take(true)?.profile } else { None };

    let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
    let device = model.inner.device();
    let on_gpu = !device.starts_with("cpu");
    let memory = model.inner.memory(args.batch * length);
    let held = memory.weights + memory.buffers;
    let operations = args.batch as f64 * forward_flops(architecture, best.computed / args.batch, length);
    let peak_memory_bytes = if on_gpu { Some(held as u64) } else { peak_memory() };
    // After that, since measuring how fast memory is read takes memory.
    let cpu = (!on_gpu).then(|| {
        let speed = CpuSpeed::measure(precision);
        let bound = speed.bound(operations, forward_bytes(architecture, precision, best.computed));
        let CpuSpeed { isa, fastest_isa, fastest_ceiling_gflops, memory_gbps, .. } = speed;
        Cpu { isa, fastest_isa, fastest_ceiling_gflops, memory_gbps, bound }
    });
    report(
        &Report {
            shape: shape.name(),
            device: if on_gpu { device } else { "cpu".into() },
            precision: precision.name(),
            threads: rayon::current_num_threads(),
            length,
            block_length,
            batch: args.batch,
            strategy,
            ms_per_step: ms(best.total),
            forward_ms: ms(best.forward),
            read_ms: ms(best.read),
            decode_ms: ms(best.total.saturating_sub(best.forward + best.read)),
            gflops: operations / best.forward.as_secs_f64() * 1e-9,
            ceiling_gflops,
            rows_read: best.rows,
            tokens_per_second: best.tokens as f64 / best.total.as_secs_f64(),
            peak_memory_bytes,
            cpu,
            profile,
        },
        args.format,
    )
}

/// A run with a prompt of `prefix` tokens on a canvas of `length` positions.
fn begin([prefix, length]: [usize; 2], plan: &Plan, description: &Description) -> Result<Run> {
    let words = description.vocabulary.min(description.mask as usize);
    let prompt: Vec<Token> = (0..prefix).map(|position| (position * 7919 % words) as Token).collect();
    let canvas = Canvas::with_tail(&prompt, length - prefix, description.mask)?;
    let options = Options { stop: Vec::new(), ..plan.options.clone() };
    Ok(Run::new(canvas, plan.strategy.clone(), options, description)?)
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
    if let Some(Cpu { isa, fastest_isa, fastest_ceiling_gflops, memory_gbps, bound }) = &report.cpu {
        let fastest = if isa == fastest_isa {
            "the fastest".to_string()
        } else {
            format!("{fastest_isa} would do {fastest_ceiling_gflops:.0} GFLOP/s")
        };
        line("  with", format!("{isa}, {fastest}; memory is read at {memory_gbps:.0} GB/s"))?;
        line("  bound by", (*bound).into())?;
    }
    line("step", format!("{:.2} ms, {:.1} tokens/s", report.ms_per_step, report.tokens_per_second))?;
    let share = 100.0 * report.gflops / report.ceiling_gflops;
    let speed = format!("{:.0} of {:.0} GFLOP/s, {share:.0}%", report.gflops, report.ceiling_gflops);
    line("  forward", format!("{:.2} ms ({speed})", report.forward_ms))?;
    line("  read", format!("{:.2} ms ({} rows)", report.read_ms, report.rows_read))?;
    line("  decode", format!("{:.3} ms", report.decode_ms))?;
    if let Some(bytes) = report.peak_memory_bytes {
        line("peak memory", format!("{:.0} MB", bytes as f64 * 1e-6))?;
    }
    let Some(Profile { kernels, experts_used }) = &report.profile else { return Ok(()) };
    if *experts_used > 0 {
        line("experts used", format!("{experts_used}, summed over the layers"))?;
    }
    line("kernels", format!("{:.2} ms", kernels.iter().map(|time| time.ms).sum::<f64>()))?;
    for KernelTime { kernel, launches, ms } in kernels {
        print(&format!("  {ms:8.3} ms {launches:5} x {kernel}"))?;
    }
    Ok(())
}

/// The most memory this process has held, where the system tells.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}
