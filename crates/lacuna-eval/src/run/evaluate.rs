//! An evaluation from start to end.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use lacuna::catalogue::Params;
use lacuna::{Description, Options, Replica, Visibility};

use super::codec::encode;
use super::decode::{Answer, Decoder, Question};
use super::ledger::Ledger;
use super::trial::fingerprint;
use super::{Configuration, Entry, Folder, Model, Part, Sample, Shard, TextCodec, Trial};
use crate::grade::Verdict;
use crate::sandbox::{Limits, Outcome, Sandbox};
use crate::task::{self, Benchmark, Check, Problem};
use crate::{Error, Result};

/// An evaluation: trials, model, problems and the results folder.
pub struct Evaluation {
    /// The results folder.
    pub out: PathBuf,
    /// The data: a folder or a file; the embedded tasks need none.
    pub data: Option<PathBuf>,
    /// The model.
    pub model: Model,
    /// Trials measured.
    pub trials: Vec<Trial>,
    /// Maximum number of problems per task.
    pub limit: Option<usize>,
    /// Part of the problems used.
    pub part: Part,
    /// Shard of this machine.
    pub shard: Shard,
    /// Seed.
    pub seed: u64,
    /// Batch size; answers do not depend on it.
    pub batch: usize,
    /// Sampling options; `stop` and `seed` are set for each problem.
    pub options: Options,
    /// The parameters that they were made of, as far as answers depend on them.
    pub general: Params,
    /// True if generated code may run where nothing confines it.
    pub unconfined: bool,
}

/// Progress of an evaluation.
#[derive(Clone, Debug)]
pub struct Progress<'a> {
    /// The trial that is running.
    pub trial: &'a Trial,
    /// Its number, from 1.
    pub number: usize,
    /// Number of trials.
    pub trials: usize,
    /// Samples of it that are done.
    pub done: usize,
    /// Samples that it has.
    pub total: usize,
    /// Number of right answers among those done.
    pub correct: usize,
    /// Forward passes of a sample so far.
    pub nfe: f64,
    /// Samples of all trials that this run has done.
    pub done_now: usize,
    /// Samples of all trials that are still to do.
    pub left: usize,
    /// Since this run began.
    pub elapsed: Duration,
}

/// A benchmark and the prompts of those of its problems that this run uses.
struct Loaded {
    benchmark: Benchmark,
    chosen: Vec<usize>,
    /// Number of problems over all shards.
    used: usize,
    prompts: HashMap<usize, Vec<lacuna::Token>>,
    fingerprint: String,
}

/// Runs everything that is not done yet, on all replicas of the model, and returns the results.
pub fn evaluate(
    evaluation: &Evaluation,
    replicas: &mut [Replica<'_>],
    codec: &dyn TextCodec,
    watch: &mut (dyn FnMut(&Progress<'_>) + Send),
) -> Result<Vec<Entry>> {
    let Some(first) = replicas.first() else {
        return Err(Error::Request("there is no model to measure".into()));
    };
    let loaded = load(evaluation, codec)?;
    check(evaluation, &loaded, first.description(), codec)?;
    let sandbox = sandbox(evaluation, &loaded)?;
    let folder = Folder::create(&evaluation.out, configuration(evaluation, &loaded, sandbox.as_ref()))?;
    let mut grader = Grader { sandbox, outcomes: HashMap::new() };
    let begun = Instant::now();

    let mut ledgers = Vec::new();
    for trial in &evaluation.trials {
        ledgers.push(Ledger::open(&folder.samples_path(), trial)?);
    }
    let open = |loaded: &Loaded, ledger: &Ledger| {
        loaded.chosen.iter().filter(|place| !ledger.has(loaded.benchmark.problems[**place].row)).count()
    };
    let mut left: usize =
        evaluation.trials.iter().zip(&ledgers).map(|(trial, ledger)| open(&loaded[&trial.benchmark()], ledger)).sum();
    let mut done_now = 0;

    for (number, (trial, ledger)) in evaluation.trials.iter().zip(&mut ledgers).enumerate() {
        let Loaded { benchmark, chosen, prompts, .. } = &loaded[&trial.benchmark()];
        let question = |&problem: &usize| Question {
            problem,
            row: benchmark.problems[problem].row,
            prompt: prompts[&problem].clone(),
        };
        let questions: Vec<Question> =
            chosen.iter().filter(|place| !ledger.has(benchmark.problems[**place].row)).map(question).collect();
        let decoder = Decoder { trial, benchmark, options: &evaluation.options, seed: evaluation.seed, codec };
        let mut report = |ledger: &Ledger, done_now: usize, left: usize| {
            let (mut correct, mut nfe, mut done) = (0, 0, 0);
            for sample in ledger.samples() {
                correct += usize::from(sample.correct);
                nfe += sample.nfe;
                done += 1;
            }
            watch(&Progress {
                trial,
                number: number + 1,
                trials: evaluation.trials.len(),
                done,
                total: chosen.len(),
                correct,
                nfe: nfe as f64 / done.max(1) as f64,
                done_now,
                left,
                elapsed: begun.elapsed(),
            });
        };
        report(ledger, done_now, left);
        decoder.decode(questions, evaluation.batch, replicas, |answers| {
            for sample in grader.samples(benchmark, answers)? {
                ledger.add(sample)?;
                done_now += 1;
                left -= 1;
            }
            report(ledger, done_now, left);
            Ok(())
        })?;
    }
    folder.write_results()
}

fn load(evaluation: &Evaluation, codec: &dyn TextCodec) -> Result<BTreeMap<String, Loaded>> {
    if evaluation.trials.is_empty() {
        return Err(Error::Request("there is nothing to measure: name a task, or a suite with --suite".into()));
    }
    let mut names = HashSet::new();
    if let Some(twice) = evaluation.trials.iter().find(|trial| !names.insert(trial.file_name())) {
        return Err(Error::Request(format!(
            "{} on {} is to be measured twice: name it once",
            twice.title(),
            twice.task
        )));
    }
    let mut loaded = BTreeMap::new();
    for trial in &evaluation.trials {
        if loaded.contains_key(&trial.benchmark()) {
            continue;
        }
        let task = task::find(&trial.task)?;
        let benchmark = Benchmark::load(task, task.protocol(Some(&trial.protocol))?, evaluation.data.as_deref())?;
        let used = benchmark.problems.iter().enumerate().filter(|(_, problem)| evaluation.part.has(problem.row));
        let used: Vec<usize> = used.map(|(place, _)| place).take(evaluation.limit.unwrap_or(usize::MAX)).collect();
        let chosen: Vec<usize> =
            used.iter().enumerate().filter(|(at, _)| evaluation.shard.has(*at)).map(|(_, place)| *place).collect();
        let mut prompts = HashMap::new();
        for &place in &chosen {
            let prompt = benchmark.prompt(&benchmark.problems[place]);
            prompts.insert(place, encode(codec, &prompt)?);
        }
        let fingerprint = data_fingerprint(used.iter().map(|place| &benchmark.problems[*place]));
        loaded.insert(trial.benchmark(), Loaded { benchmark, chosen, used: used.len(), prompts, fingerprint });
    }
    Ok(loaded)
}

/// Tells data files apart, not the folders they lie in.
fn data_fingerprint<'a>(problems: impl Iterator<Item = &'a Problem>) -> String {
    let mut text = String::new();
    for problem in problems {
        text += &format!("{problem:?}\n");
    }
    format!("{:016x}", fingerprint(text.as_bytes()))
}

/// Refuses what would fail later, before anything is written.
fn check(
    evaluation: &Evaluation,
    loaded: &BTreeMap<String, Loaded>,
    model: &Description,
    codec: &dyn TextCodec,
) -> Result<()> {
    for trial in &evaluation.trials {
        let Trial { gen_length, block_length, .. } = *trial;
        let whole = !matches!(model.visibility, Visibility::Blocks(_));
        if gen_length == 0 || block_length == 0 || (whole && gen_length % block_length != 0) {
            return Err(Error::Request(format!(
                "blocks of {block_length} do not divide {gen_length} tokens: choose --block-length so that they do"
            )));
        }
        let Loaded { prompts, benchmark, .. } = &loaded[&trial.benchmark()];
        let Some((&problem, prompt)) = prompts.iter().max_by_key(|(place, prompt)| (prompt.len(), **place)) else {
            continue;
        };
        let row = benchmark.problems[problem].row;
        let decoder = Decoder { trial, benchmark, options: &evaluation.options, seed: evaluation.seed, codec };
        decoder.start(&Question { problem, row, prompt: prompt.clone() }, model)?;
    }
    Ok(())
}

fn sandbox(evaluation: &Evaluation, loaded: &BTreeMap<String, Loaded>) -> Result<Option<Sandbox>> {
    let limits = loaded.values().map(|loaded| loaded.benchmark.protocol.time_limit_s).max().filter(|limit| *limit > 0);
    let Some(limit) = limits else { return Ok(None) };
    let limits = Limits { wall: Duration::from_secs(limit), ..Limits::default() };
    Sandbox::detect(limits, evaluation.unconfined).map(Some)
}

fn configuration(
    evaluation: &Evaluation,
    loaded: &BTreeMap<String, Loaded>,
    sandbox: Option<&Sandbox>,
) -> Configuration {
    Configuration {
        version: env!("CARGO_PKG_VERSION").into(),
        model: evaluation.model.clone(),
        limit: evaluation.limit,
        part: evaluation.part,
        seed: evaluation.seed,
        shard: evaluation.shard,
        options: evaluation.general.clone(),
        data: loaded.iter().map(|(name, loaded)| (name.clone(), loaded.fingerprint.clone())).collect(),
        problems: loaded.iter().map(|(name, loaded)| (name.clone(), loaded.used)).collect(),
        trials: evaluation.trials.clone(),
        sandbox: sandbox.map(|sandbox| format!("{}; Python {}", sandbox.layers(), sandbox.interpreter().version)),
    }
}

/// Grades answers. Different strategies often write the same program, which is then run once.
struct Grader {
    sandbox: Option<Sandbox>,
    outcomes: HashMap<String, Outcome>,
}

impl Grader {
    fn samples(&mut self, benchmark: &Benchmark, answers: Vec<Answer>) -> Result<Vec<Sample>> {
        let checks: Vec<Check> =
            answers.iter().map(|answer| benchmark.check(&benchmark.problems[answer.problem], &answer.text)).collect();
        self.run(&checks)?;
        let sample = |(answer, check): (Answer, Check)| {
            let verdict = match check {
                Check::Verdict(verdict) => verdict,
                Check::Program(program) => {
                    let Outcome { passed, reason } = self.outcomes[&program].clone();
                    Verdict { correct: passed, reason }
                }
            };
            let problem = &benchmark.problems[answer.problem];
            Sample {
                id: problem.id.clone(),
                row: problem.row,
                correct: verdict.correct,
                reason: verdict.reason,
                answer: answer.text,
                nfe: answer.nfe,
                rows_read: answer.rows_read,
                tokens: answer.tokens,
                seconds: answer.seconds,
                order: answer.order,
                respect: answer.respect,
            }
        };
        Ok(answers.into_iter().zip(checks).map(sample).collect())
    }

    fn run(&mut self, checks: &[Check]) -> Result<()> {
        let programs: Vec<String> = checks
            .iter()
            .filter_map(|check| match check {
                Check::Program(program) if !self.outcomes.contains_key(program) => Some(program.clone()),
                _ => None,
            })
            .collect();
        if programs.is_empty() {
            return Ok(());
        }
        let sandbox = self.sandbox.as_ref().ok_or(Error::NoSandbox)?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let outcomes = sandbox.run_all(&programs, threads)?;
        self.outcomes.extend(programs.into_iter().zip(outcomes));
        Ok(())
    }
}
