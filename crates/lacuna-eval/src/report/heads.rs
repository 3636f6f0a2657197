//! Single attention heads in a grid: layers down, heads across.

use std::collections::{BTreeMap, BTreeSet};

use super::table::{Table, percent};
use super::{Measurement, Report};

/// Measurements by layer and head.
type Grid<'a> = BTreeMap<(usize, usize), &'a Measurement>;

/// Accuracies of single heads by layer, with the share of values that they decide too early.
pub(super) fn markdown(report: &Report) -> String {
    let place = |m: &Measurement| match (&m.trial.layers()[..], m.trial.settings.integers("heads").as_deref()) {
        ([layer], Some([head])) => Some((*layer, *head)),
        _ => None,
    };
    let mut grids: BTreeMap<(usize, String, usize), Grid<'_>> = BTreeMap::new();
    let tasks = report.tasks();
    for measurement in &report.measurements {
        let Some(place) = place(measurement) else { continue };
        let Measurement { trial, .. } = measurement;
        let task = tasks.iter().position(|task| *task == trial.task).expect("it is measured");
        grids.entry((task, trial.method(), trial.block_length)).or_default().insert(place, measurement);
    }
    let mut text = String::new();
    for ((task, method, block), grid) in grids {
        let last = grid.keys().map(|(_, head)| *head).max().expect("a grid has cells");
        let names: Vec<String> = (0..=last).map(|head| format!("head {head}")).collect();
        let mut table = Table::new(&[vec!["Layer"], names.iter().map(String::as_str).collect()].concat());
        let layers: BTreeSet<usize> = grid.keys().map(|(layer, _)| *layer).collect();
        for layer in layers {
            let cell = |head| match grid.get(&(layer, head)).map(|m| &m.entry) {
                None => "–".into(),
                Some(entry) => {
                    let early = entry.early.map_or(String::new(), |early| format!(" ({:.0})", early * 100.0));
                    percent(entry.accuracy) + &early
                }
            };
            table.row([vec![layer.to_string()], (0..=last).map(cell).collect()].concat());
        }
        let task = tasks[task];
        text += &format!("### {task}, {method}, blocks of {block}\n\n{}\n", table.write());
    }
    if text.is_empty() {
        text
    } else {
        format!("## Heads\n\nAccuracy, and in brackets what is decided too early.\n\n{text}")
    }
}
