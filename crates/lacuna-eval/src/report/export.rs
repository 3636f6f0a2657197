//! The report for other programs.

use serde_json::{Value, json};

use super::{Measurement, Report, compare};

pub(super) fn json(report: &Report) -> Value {
    let measurements: Vec<Value> = report
        .measurements
        .iter()
        .map(|measurement| {
            let mut value = serde_json::to_value(&measurement.entry).expect("an entry has no value that JSON lacks");
            value["aup"] = report.aup(measurement).into();
            value["settings"] = serde_json::to_value(&measurement.trial.settings).expect("settings are plain");
            value
        })
        .collect();
    let comparisons: Vec<Value> = pairs(report)
        .map(|(a, b)| {
            json!({
                "task": a.trial.task,
                "this": { "strategy": a.trial.title(), "block_length": a.trial.block_length },
                "that": { "strategy": b.trial.title(), "block_length": b.trial.block_length },
                "comparison": compare(a, b),
            })
        })
        .collect();
    json!({
        "configuration": report.configuration,
        "unfinished": report.unfinished(),
        "measurements": measurements,
        "comparisons": comparisons,
    })
}

/// Every two measurements of a task that belong to the same table, or to none.
fn pairs(report: &Report) -> impl Iterator<Item = (&Measurement, &Measurement)> {
    let together = |a: &Measurement, b: &Measurement| {
        let shared = a.trial.labels.iter().any(|label| b.trial.labels.contains(label));
        a.trial.task == b.trial.task && (shared || (a.trial.labels.is_empty() && b.trial.labels.is_empty()))
    };
    let all = report.measurements.iter().enumerate();
    all.flat_map(move |(at, a)| {
        report.measurements[at + 1..].iter().filter(move |b| together(a, b)).map(move |b| (a, b))
    })
}

pub(super) fn csv(report: &Report) -> String {
    let mut text = String::from(
        "task,protocol,model,strategy,layer,heads,gen_length,block_length,n,problems,correct,accuracy,low,high,nfe,\
         tokens_per_second,seconds_per_sample,rows_read,tokens,aup,ends,early,agreement,place_correlation,early_ends,labels\n",
    );
    for measurement in &report.measurements {
        let entry = &measurement.entry;
        let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.6}"));
        let list = |numbers: &[usize]| numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
        let cells = [
            entry.task.clone(),
            entry.protocol.clone(),
            entry.model.clone(),
            entry.strategy.clone(),
            list(&measurement.trial.layers()),
            list(&measurement.trial.settings.integers("heads").unwrap_or_default()),
            entry.gen_length.to_string(),
            entry.block_length.to_string(),
            entry.n.to_string(),
            entry.problems.map_or(String::new(), |problems| problems.to_string()),
            entry.correct.to_string(),
            format!("{:.6}", entry.accuracy),
            format!("{:.6}", entry.interval[0]),
            format!("{:.6}", entry.interval[1]),
            format!("{:.4}", entry.nfe),
            format!("{:.3}", entry.tokens_per_second),
            format!("{:.6}", entry.seconds_per_sample),
            format!("{:.2}", entry.rows_read),
            format!("{:.2}", entry.tokens),
            format!("{:.3}", report.aup(measurement)),
            match (measurement.trial.defers_ends(), measurement.trial.suppresses_ends()) {
                (true, _) => "last".into(),
                (_, true) => "none".into(),
                _ => String::new(),
            },
            number(entry.early),
            number(entry.agreement),
            number(entry.place_correlation),
            number(entry.early_ends),
            entry.labels.join("; "),
        ];
        text += &cells.map(|cell| quoted(&cell)).join(",");
        text.push('\n');
    }
    text
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.into() }
}
