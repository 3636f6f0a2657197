//! `lacuna diff`: where two recordings of the same prompts part, and why.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use lacuna::{Canvas, Draw, Row, Sampling, Target, Token, TokenSet, View};
use lacuna_models::{Record, StepRecord};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{print, read};
use crate::args::{Format, Model};
use crate::engine::Engine;

#[derive(Args)]
pub(crate) struct Diff {
    /// A recording: the lines of `generate --format json`
    #[arg(value_name = "A.jsonl")]
    first: PathBuf,
    /// Another recording of the same prompts: another strategy, precision, cache, device or version
    #[arg(value_name = "B.jsonl")]
    second: PathBuf,
    /// Show the model's probabilities at the positions where two runs first differ
    #[arg(long)]
    why: bool,
    /// Verdicts on both, as `lacuna grade` prints them, to show which answers flipped to right or to wrong
    #[arg(long, num_args = 2, value_names = ["A", "B"])]
    grades: Option<Vec<PathBuf>>,
    #[command(flatten)]
    model: Model,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Two runs of one prompt.
#[derive(Serialize)]
struct Pair {
    id: Value,
    /// The first step whose changes differ, from 0; null if the runs are the same.
    first_difference: Option<usize>,
    /// Share of the positions that hold the same token at the end.
    equal_tokens: f64,
    /// Rank correlation of the steps at which positions were decided; null if one order has no ranks.
    order_agreement: Option<f64>,
    nfe: [usize; 2],
    /// The answer's new verdict, if it flipped: right (true) or wrong (false).
    flipped: Option<bool>,
    /// The model's beliefs at positions that only one run changed, or changed in another way, in the first step that differs.
    why: Vec<Why>,
}

/// The model's belief where two runs part.
#[derive(Serialize)]
struct Why {
    position: usize,
    /// The tokens that the runs put there, if they did.
    tokens: [Option<Token>; 2],
    probability: f64,
    /// Best minus second probability.
    margin: f64,
    entropy: f64,
}

#[derive(Serialize)]
struct Summary {
    runs: usize,
    same: usize,
    equal_tokens: f64,
    order_agreement: Option<f64>,
    nfe: [f64; 2],
    flipped_to_right: usize,
    flipped_to_wrong: usize,
}

#[derive(Deserialize)]
struct Verdict {
    id: Value,
    correct: bool,
}

pub(crate) fn diff(args: &Diff) -> Result<()> {
    let (first, second) = (records(&args.first)?, records(&args.second)?);
    let pairs = matched(&first, &second, args)?;
    let grades = match &args.grades {
        Some(files) => Some([verdicts(&files[0])?, verdicts(&files[1])?]),
        None => None,
    };
    let mut engine = if args.why { Some(Engine::open(&args.model)?) } else { None };
    let mut compared = Vec::new();
    for (number, (a, b)) in pairs.into_iter().enumerate() {
        let place = || format!("run {}", number + 1);
        let id = a.id.clone().unwrap_or_else(|| (number + 1).into());
        let mut pair = compare(id, a, b).with_context(place)?;
        if let (Some(engine), Some(step)) = (&mut engine, pair.first_difference) {
            pair.why = explain(a, b, step, engine).with_context(place)?;
        }
        if let Some(grades) = &grades {
            let verdict = |side: &HashMap<String, bool>| side.get(&pair.id.to_string()).copied();
            if let (Some(before), Some(after)) = (verdict(&grades[0]), verdict(&grades[1])) {
                pair.flipped = (before != after).then_some(after);
            }
        }
        compared.push(pair);
    }
    show(&compared, args.format)
}

/// The recorded runs of a file.
fn records(path: &Path) -> Result<Vec<Record>> {
    let parse = |(number, line): (usize, &str)| {
        serde_json::from_str(line)
            .map_err(|error| anyhow!("{} line {}: not a recorded run: {error}", path.display(), number + 1))
    };
    let text = read(path)?;
    let records: Vec<Record> =
        text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(parse).collect::<Result<_>>()?;
    ensure!(!records.is_empty(), "{} holds no recorded run", path.display());
    Ok(records)
}

/// The verdicts of a file, by id as JSON. Its summary, which has no id, is passed over.
fn verdicts(path: &Path) -> Result<HashMap<String, bool>> {
    let text = read(path)?;
    let known = text.lines().filter_map(|line| serde_json::from_str::<Verdict>(line).ok());
    let verdicts: HashMap<String, bool> = known.map(|verdict| (verdict.id.to_string(), verdict.correct)).collect();
    ensure!(!verdicts.is_empty(), "{} holds no verdict: write it with `lacuna grade`", path.display());
    Ok(verdicts)
}

/// The runs of the same prompts: by id if all have one, else line by line.
fn matched<'a>(first: &'a [Record], second: &'a [Record], args: &Diff) -> Result<Vec<(&'a Record, &'a Record)>> {
    let id = |record: &Record| record.id.as_ref().map(ToString::to_string);
    let by_id: Option<HashMap<String, &Record>> = second.iter().map(|record| Some((id(record)?, record))).collect();
    let (a, b) = (args.first.display(), args.second.display());
    let pairs: Vec<_> = match by_id.filter(|known| known.len() == second.len() && first.iter().all(|r| r.id.is_some()))
    {
        Some(known) => {
            let pair = |record| Some((record, *known.get(&id(record)?)?));
            first.iter().filter_map(pair).collect()
        }
        None => {
            ensure!(first.len() == second.len(), "{a} holds {} runs, {b} {}", first.len(), second.len());
            first.iter().zip(second).collect()
        }
    };
    ensure!(!pairs.is_empty(), "{a} and {b} have no id in common");
    for (number, (x, y)) in pairs.iter().enumerate() {
        let prompt = |record: &'a Record| record.canvas.get(..record.prompt_tokens);
        ensure!(prompt(x) == prompt(y), "run {} of {a} and of {b} have different prompts", number + 1);
    }
    Ok(pairs)
}

fn compare(id: Value, a: &Record, b: &Record) -> Result<Pair> {
    let changes =
        |step: &StepRecord| (step.unmasked.clone(), step.edited.clone(), step.remasked.clone(), step.resized.clone());
    let steps = a.steps.len().max(b.steps.len());
    let differs = |&step: &usize| a.steps.get(step).map(changes) != b.steps.get(step).map(changes);
    let traces = [a.trace()?, b.trace()?];
    let ends = [traces[0].replay(), traces[1].replay()];
    let gaps: Vec<usize> = ends[0].gaps().filter(|&position| position < ends[1].len()).collect();
    let same = gaps.iter().filter(|&&position| ends[0].tokens()[position] == ends[1].tokens()[position]).count();
    let most = ends[0].gaps().count().max(ends[1].gaps().count());
    let [first, second] = traces.each_ref().map(|trace| trace.decided(trace.deltas.len()));
    let both: Vec<(f64, f64)> =
        first.iter().zip(&second).filter_map(|(a, b)| Some(((*a)? as f64, (*b)? as f64))).collect();
    Ok(Pair {
        id,
        first_difference: (0..steps).find(differs),
        equal_tokens: same as f64 / most.max(1) as f64,
        order_agreement: rank_correlation(&both),
        nfe: [a.nfe, b.nfe],
        flipped: None,
        why: Vec::new(),
    })
}

/// Spearman's: the correlation of ranks, equals sharing the mean of theirs.
fn rank_correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let ranks = |values: Vec<f64>| -> Vec<f64> {
        let rank = |value: &f64| {
            let below = values.iter().filter(|other| *other < value).count();
            let equal = values.iter().filter(|other| *other == value).count();
            below as f64 + (equal as f64 - 1.0) / 2.0
        };
        values.iter().map(rank).collect()
    };
    let (x, y) = (ranks(pairs.iter().map(|pair| pair.0).collect()), ranks(pairs.iter().map(|pair| pair.1).collect()));
    let middle = (pairs.len() as f64 - 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - middle) * (b - middle)).sum::<f64>();
    let scale = (product(&x, &x) * product(&y, &y)).sqrt();
    (scale > 0.0).then(|| product(&x, &y) / scale)
}

/// The model's beliefs where the runs part. Before that step both canvases are the same, unless they began differently.
fn explain(a: &Record, b: &Record, step: usize, engine: &mut Engine) -> Result<Vec<Why>> {
    let before = |record: &Record| -> Result<Canvas> {
        Ok(record.trace()?.canvases().nth(step).expect("there is a canvas before every step, and one behind the last"))
    };
    let canvas = before(if a.steps.len() > step { a } else { b })?;
    if before(if b.steps.len() > step { b } else { a })? != canvas {
        return Ok(Vec::new());
    }
    let written = |record: &Record| -> BTreeMap<usize, Token> {
        record.steps.get(step).into_iter().flat_map(|step| step.unmasked.iter().chain(&step.edited)).copied().collect()
    };
    let (a, b) = (written(a), written(b));
    let mut positions: Vec<usize> = a.keys().chain(b.keys()).copied().filter(|p| a.get(p) != b.get(p)).collect();
    positions.sort_unstable();
    positions.dedup();
    let vocabulary = engine.predictor.description().vocabulary;
    let (sampling, allowed) = (Sampling::default(), TokenSet::all_but(vocabulary, &[canvas.mask()]));
    let row =
        |&position: &usize| Row::new(0, Target::Position(position), &sampling, &allowed, Draw::new(0, 0, position));
    engine.predictor.observe(&[View { tokens: canvas.tokens(), ..View::default() }])?;
    let beliefs = engine.predictor.read(&positions.iter().map(row).collect::<Vec<_>>())?;
    let why = |(position, belief): (usize, lacuna::Belief)| Why {
        position,
        tokens: [a.get(&position).copied(), b.get(&position).copied()],
        probability: belief.first,
        margin: belief.first - belief.second,
        entropy: belief.entropy,
    };
    Ok(positions.into_iter().zip(beliefs).map(why).collect())
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn show(pairs: &[Pair], format: Format) -> Result<()> {
    let average = |value: fn(&Pair) -> f64| mean(pairs.iter().map(value)).unwrap_or_default();
    let flips = |right: bool| pairs.iter().filter(|pair| pair.flipped == Some(right)).count();
    let summary = Summary {
        runs: pairs.len(),
        same: pairs.iter().filter(|pair| pair.first_difference.is_none()).count(),
        equal_tokens: average(|pair| pair.equal_tokens),
        order_agreement: mean(pairs.iter().filter_map(|pair| pair.order_agreement)),
        nfe: [average(|pair| pair.nfe[0] as f64), average(|pair| pair.nfe[1] as f64)],
        flipped_to_right: flips(true),
        flipped_to_wrong: flips(false),
    };
    if format == Format::Json {
        for pair in pairs {
            print(&serde_json::to_string(pair)?)?;
        }
        return print(&serde_json::to_string(&summary)?);
    }
    let order = |agreement: Option<f64>| agreement.map_or("·".into(), |agreement| format!("{agreement:.3}"));
    print(&format!(
        "{:<12} {:>12} {:>12} {:>9} {:>6} {:>6}",
        "run", "first differ", "equal tokens", "order", "nfe A", "B"
    ))?;
    for pair in pairs {
        let Pair { id, first_difference, equal_tokens, order_agreement, nfe, flipped, why } = pair;
        let step = first_difference.map_or("same".into(), |step| format!("step {step}"));
        let flip = match flipped {
            Some(true) => "  now right",
            Some(false) => "  now wrong",
            None => "",
        };
        let id = id.as_str().map_or_else(|| id.to_string(), str::to_string);
        let (share, order) = (format!("{:.1}%", 100.0 * equal_tokens), order(*order_agreement));
        print(&format!("{id:<12} {step:>12} {share:>12} {order:>9} {:>6} {:>6}{flip}", nfe[0], nfe[1]))?;
        for Why { position, tokens, probability, margin, entropy } in why {
            let token = |token: Option<Token>| token.map_or("nothing".into(), |token| token.to_string());
            let [a, b] = tokens.map(token);
            print(&format!(
                "  position {position}: A {a}, B {b}; p {probability:.4}, margin {margin:.4}, entropy {entropy:.4}"
            ))?;
        }
    }
    let Summary { runs, same, equal_tokens, order_agreement, nfe, flipped_to_right, flipped_to_wrong } = summary;
    let share = 100.0 * equal_tokens;
    let agreement = order(order_agreement);
    print(&format!(
        "{same} of {runs} runs are the same; {share:.1}% of the tokens are equal, the order agrees by {agreement}; forward passes \
         {:.1} and {:.1}; {flipped_to_right} answers flipped to right, {flipped_to_wrong} to wrong",
        nfe[0], nfe[1]
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_orders_agree_and_reversed_ones_disagree() {
        let rising = [(0.0, 1.0), (1.0, 3.0), (2.0, 9.0)];
        let falling = rising.map(|(x, y)| (x, -y));
        assert_eq!(rank_correlation(&rising), Some(1.0));
        assert_eq!(rank_correlation(&falling), Some(-1.0));
        assert_eq!(rank_correlation(&[(0.0, 1.0), (0.0, 2.0)]), None);
        let ties = rank_correlation(&[(0.0, 0.0), (0.0, 1.0), (1.0, 2.0)]).unwrap();
        assert!((ties - 0.75f64.sqrt()).abs() < 1e-12, "{ties}");
    }
}
