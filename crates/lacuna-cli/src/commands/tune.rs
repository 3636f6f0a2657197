//! `lacuna tune`: find the layers and heads that suit a model and task.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use lacuna_eval::run::{Evaluation, Part, Shard, Trial};
use lacuna_eval::{task, tune as calibration};

use super::eval::{Bar, CheckpointCodec, default_block, describe_model, general, settings};
use super::print;
use crate::args::{self, Decoding};
use crate::engine::Engine;

#[derive(Args)]
#[command(after_help = "\
It looks at every fourth problem only. Measure what it finds on the others: lacuna eval TASK --part test --preset FILE

Examples:
  lacuna tune words code --limit 64
  lacuna tune gsm8k --model LLaDA-8B-Instruct --data data --strategy dos+eb --out tuning --preset llada-gsm8k.json")]
pub(crate) struct Tune {
    /// The tasks, which get one preset together
    #[arg(value_name = "TASK", required = true)]
    tasks: Vec<String>,
    /// The folder with the data files, or one such file [default: the model's folder; words and code need none]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Folder for the samples, from which a stopped run resumes
    #[arg(long, value_name = "DIR", default_value = "tuning")]
    out: PathBuf,
    /// The file that the preset is written to [default: preset.json in --out]
    #[arg(long, value_name = "FILE")]
    preset: Option<PathBuf>,
    /// Evaluation protocol [default: the task's own]
    #[arg(long, value_name = "NAME")]
    protocol: Option<String>,
    /// Only the first N problems of the part
    #[arg(long, value_name = "N", value_parser = args::parse_positive)]
    limit: Option<usize>,
    /// Batch size: problems per forward pass; the answers are the same for any [default: 8; of a small
    /// model one for each thread, on a GPU 128]
    #[arg(long, value_name = "N", value_parser = args::parse_positive)]
    batch: Option<usize>,
    /// Number of tokens to generate [default: the task's own]
    #[arg(long, value_name = "N", value_parser = args::parse_positive)]
    gen_length: Option<usize>,
    /// Run generated code even where nothing confines it
    #[arg(long)]
    unconfined: bool,
    #[command(flatten)]
    decoding: Decoding,
    #[command(flatten)]
    model: args::Model,
}

pub(crate) fn tune(args: &Tune) -> Result<()> {
    let request = args.decoding.request(None)?;
    ensure!(
        request.get("layer").is_none() && request.get("heads").is_none(),
        "--layer and --heads are what tune looks for: leave them out"
    );
    let mut engine = Engine::open_replicas(&args.model)?;
    let strategy = request.word("strategy").unwrap_or("dos+eb").to_string();
    let plan = request.clone().with("strategy", &*strategy)?.plan(&engine.checkpoint)?;
    let mut trials = Vec::new();
    for name in &args.tasks {
        let task = task::find(name)?;
        let gen_length = args.gen_length.unwrap_or(task.gen_length());
        trials.push(Trial {
            task: name.clone(),
            protocol: task.protocol(args.protocol.as_deref())?.name.into(),
            strategy: strategy.clone(),
            settings: settings(&plan)?,
            gen_length,
            block_length: request
                .integer("block_length")
                .or(default_block(engine.predictor.description()))
                .unwrap_or(gen_length),
            early_stop: request.flag("early_stop").unwrap_or(true),
            labels: Vec::new(),
        });
    }
    let evaluation = Evaluation {
        out: args.out.clone(),
        data: args.data.clone().or_else(|| args.model.model.clone()),
        model: describe_model(&engine.checkpoint, engine.predictor.as_ref()),
        trials,
        limit: args.limit,
        part: Part::Tune,
        shard: Shard::default(),
        seed: request.integer("seed").unwrap_or(0) as u64,
        batch: args.batch.unwrap_or_else(|| engine.predictor.default_batch()),
        general: general(&request),
        options: plan.options,
        unconfined: args.unconfined,
    };
    let mut bar = Bar::new();
    let (checkpoint, mut replicas) = engine.parts();
    let codec = CheckpointCodec::of(checkpoint)?;
    let result = calibration::tune(&evaluation, &mut replicas, &codec, &mut |stage, progress| {
        bar.show(&format!("{stage} "), progress);
    });
    bar.end();
    let preset = result?;
    let path = args.preset.clone().unwrap_or_else(|| args.out.join("preset.json"));
    let text = serde_json::to_string_pretty(&preset)? + "\n";
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    for candidate in &preset.candidates {
        print(&format!(
            "{:28} {:5.1}%  NFE {:6.1}",
            name(&candidate.layer, &candidate.heads),
            100.0 * candidate.correct as f64 / candidate.n.max(1) as f64,
            candidate.nfe
        ))?;
    }
    print(&format!(
        "\nbest: {} with {}/{} right (95%: {:.1}–{:.1}%); written to {}",
        name(&preset.layer, &preset.heads),
        preset.correct,
        preset.n,
        100.0 * preset.interval[0],
        100.0 * preset.interval[1],
        path.display()
    ))
}

fn name(layers: &[usize], heads: &[usize]) -> String {
    let list = |numbers: &[usize]| numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let heads = if heads.is_empty() { String::new() } else { format!(" heads {}", list(heads)) };
    format!("layer {}{heads}", list(layers))
}
