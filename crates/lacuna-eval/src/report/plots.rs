//! The plots of a report.

use std::collections::{BTreeMap, BTreeSet};

use super::chart::{Axis, Chart, Point, Series};
use super::{Measurement, Report, front, heatmap};

/// A picture of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plot {
    /// Title.
    pub title: String,
    /// File name.
    pub file: String,
    /// The picture.
    pub svg: String,
}

/// Every plot that the measurements allow: accuracy over NFE, of many strategies with their front, over block length, over layers and
/// over what was decided too early, and the order of decoding.
pub fn plots(report: &Report) -> Vec<Plot> {
    let mut plots = Vec::new();
    for task in report.tasks() {
        let all: Vec<&Measurement> = report.measurements.iter().filter(|m| m.trial.task == task).collect();
        plots.extend(if front::is_crowded(&all) { Some(pareto(task, &all)) } else { over_nfe(task, &all) });
        plots.extend(over_blocks(task, &all));
        plots.extend(over_layers(task, &all));
        plots.extend(over_early(task, &all));
        plots.extend(order(task, &all));
    }
    plots
}

/// The task, and that not all of it is there.
fn heading(task: &str, all: &[&Measurement]) -> String {
    let unfinished = all.iter().any(|measurement| measurement.entry.unfinished());
    if unfinished { format!("{task} (unfinished)") } else { task.into() }
}

fn point(x: f64, measurement: &Measurement) -> Point {
    let entry = &measurement.entry;
    Point { x, y: entry.accuracy * 100.0, low: entry.interval[0] * 100.0, high: entry.interval[1] * 100.0 }
}

/// One point for each strategy, with one block; of several layers the best. With blocks only, those.
fn over_nfe(task: &str, all: &[&Measurement]) -> Option<Plot> {
    let chosen = representatives(all);
    if chosen.len() < 2 {
        return None;
    }
    let series =
        chosen.iter().map(|m| Series { name: m.trial.title(), points: vec![point(m.entry.nfe, m)], joined: false });
    let block = block_name(chosen[0]);
    let chart = Chart {
        title: format!("{}: accuracy over forward passes, {block}", heading(task, all)),
        x: "forward passes for an answer (NFE)",
        y: "accuracy in percent",
        axis: Axis::Linear,
        series: series.collect(),
    };
    Some(Plot { title: chart.title.clone(), file: format!("{task}-nfe.svg"), svg: chart.svg() })
}

/// All measurements, one series for each order, and their front.
fn pareto(task: &str, all: &[&Measurement]) -> Plot {
    let mut orders: Vec<Series> = Vec::new();
    for measurement in all {
        let name = measurement.trial.order();
        if !orders.iter().any(|series| series.name == name) {
            orders.push(Series { name: name.clone(), points: Vec::new(), joined: false });
        }
        let series = orders.iter_mut().find(|series| series.name == name).expect("it was just made");
        let accuracy = measurement.entry.accuracy * 100.0;
        series.points.push(Point { x: measurement.entry.nfe, y: accuracy, low: accuracy, high: accuracy });
    }
    let points = front::front(all).into_iter().map(|m| point(m.entry.nfe, m)).collect();
    orders.push(Series { name: "the front".into(), points, joined: true });
    let chart = Chart {
        title: format!("{}: accuracy over forward passes, every order with every pace", heading(task, all)),
        x: "forward passes for an answer (NFE)",
        y: "accuracy in percent",
        axis: Axis::Linear,
        series: orders,
    };
    Plot { title: chart.title.clone(), file: format!("{task}-front.svg"), svg: chart.svg() }
}

fn block_name(measurement: &Measurement) -> String {
    match measurement.trial.block_length {
        length if length == measurement.trial.gen_length => "one block".into(),
        length => format!("blocks of {length}"),
    }
}

/// For each strategy the most accurate measurement with the longest block that was measured.
fn representatives<'a>(all: &[&'a Measurement]) -> Vec<&'a Measurement> {
    let Some(block) = all.iter().map(|m| m.trial.block_length).max() else { return Vec::new() };
    let mut best: Vec<&Measurement> = Vec::new();
    for measurement in all.iter().filter(|m| m.trial.block_length == block) {
        match best.iter_mut().find(|other| other.trial.method() == measurement.trial.method()) {
            Some(other) if other.entry.accuracy < measurement.entry.accuracy => *other = measurement,
            Some(_) => {}
            None => best.push(measurement),
        }
    }
    best
}

/// Lines over the values of `key`, one for each strategy that has as many of them as any; the rest is left to the tables.
fn lines(all: &[&Measurement], key: impl Fn(&Measurement) -> Option<usize>) -> (Vec<f64>, Vec<Series>) {
    let mut groups: Vec<(String, BTreeMap<usize, &Measurement>)> = Vec::new();
    for measurement in all {
        let Some(value) = key(measurement) else { continue };
        let name = measurement.trial.method();
        if !groups.iter().any(|(other, _)| *other == name) {
            groups.push((name.clone(), BTreeMap::new()));
        }
        let group = groups.iter_mut().find(|(other, _)| *other == name).map(|(_, group)| group);
        let slot = group.expect("the group was just made").entry(value).or_insert(measurement);
        if slot.entry.accuracy < measurement.entry.accuracy {
            *slot = measurement;
        }
    }
    let longest = groups.iter().map(|(_, group)| group.len()).max().unwrap_or(0);
    groups.retain(|(_, group)| group.len() > 1 && group.len() == longest);
    let steps: BTreeSet<usize> = groups.iter().flat_map(|(_, group)| group.keys().copied()).collect();
    let series = groups.into_iter().map(|(name, group)| Series {
        name,
        points: group.into_iter().map(|(value, m)| point(value as f64, m)).collect(),
        joined: true,
    });
    (steps.into_iter().map(|step| step as f64).collect(), series.collect())
}

fn over_blocks(task: &str, all: &[&Measurement]) -> Option<Plot> {
    let (steps, series) = lines(all, |m| Some(m.trial.block_length));
    if steps.len() < 2 {
        return None;
    }
    let chart = Chart {
        title: format!("{}: accuracy over block length", heading(task, all)),
        x: "block length in tokens",
        y: "accuracy in percent",
        axis: Axis::Steps(steps),
        series,
    };
    Some(Plot { title: chart.title.clone(), file: format!("{task}-blocks.svg"), svg: chart.svg() })
}

/// Over the layers with one block, or with the longest there is.
fn over_layers(task: &str, all: &[&Measurement]) -> Option<Plot> {
    let block = all.iter().map(|m| m.trial.block_length).max()?;
    let single = |m: &Measurement| match &m.trial.layers()[..] {
        [layer] if m.trial.block_length == block => Some(*layer),
        _ => None,
    };
    let (steps, series) = lines(all, single);
    if steps.len() < 3 {
        return None;
    }
    let chart = Chart {
        title: format!("{}: accuracy over the attention layer", heading(task, all)),
        x: "layer whose attention sets the order",
        y: "accuracy in percent",
        axis: Axis::Steps(steps),
        series,
    };
    Some(Plot { title: chart.title.clone(), file: format!("{task}-layers.svg"), svg: chart.svg() })
}

/// One point for each strategy: accuracy over the share of values decided before what they depend on.
fn over_early(task: &str, all: &[&Measurement]) -> Option<Plot> {
    let chosen = representatives(all);
    let series = chosen.iter().filter_map(|m| {
        let early = m.entry.early? * 100.0;
        Some(Series { name: m.trial.title(), points: vec![point(early, m)], joined: false })
    });
    let series: Vec<Series> = series.collect();
    if series.len() < 2 {
        return None;
    }
    let chart = Chart {
        title: format!("{}: accuracy over what was decided too early, {}", heading(task, all), block_name(chosen[0])),
        x: "values decided before what they depend on, in percent",
        y: "accuracy in percent",
        axis: Axis::Linear,
        series,
    };
    Some(Plot { title: chart.title.clone(), file: format!("{task}-early.svg"), svg: chart.svg() })
}

fn order(task: &str, all: &[&Measurement]) -> Option<Plot> {
    let rows = if front::is_crowded(all) { front::front(all) } else { representatives(all) };
    if rows.is_empty() {
        return None;
    }
    let title = format!("{}: when each position is decided, {}", heading(task, all), block_name(rows[0]));
    Some(Plot { svg: heatmap::svg(&title, &rows), title, file: format!("{task}-order.svg") })
}
