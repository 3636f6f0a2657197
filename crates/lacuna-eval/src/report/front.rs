//! The front of a task: what no other measurement beats in both accuracy and forward passes, and the best of each speed class.

use std::collections::BTreeSet;

use super::table::{Table, percent};
use super::{Measurement, Report};

/// Number of strategies from which on the front of a task is shown.
const MIN_STRATEGIES: usize = 24;
/// Forward passes for an answer at which speed classes end; the last has no end.
const CLASSES: [usize; 4] = [8, 16, 32, 64];

/// True if so many strategies were measured that single ones are hard to see.
pub(super) fn is_crowded(all: &[&Measurement]) -> bool {
    all.iter().map(|m| &m.trial.strategy).collect::<BTreeSet<_>>().len() >= MIN_STRATEGIES
}

/// The measurements that no other one is better than in accuracy with as few forward passes, from the fastest on.
pub(super) fn front<'a>(all: &[&'a Measurement]) -> Vec<&'a Measurement> {
    let mut sorted: Vec<&Measurement> = all.iter().copied().filter(|m| !m.entry.unfinished()).collect();
    sorted.sort_by(|a, b| a.entry.nfe.total_cmp(&b.entry.nfe).then(b.entry.accuracy.total_cmp(&a.entry.accuracy)));
    let mut best = -1.0;
    sorted.retain(|m| {
        let better = m.entry.accuracy > best;
        best = f64::max(best, m.entry.accuracy);
        better
    });
    sorted
}

/// The most accurate measurement of each speed class, of equals the fastest.
fn classes<'a>(all: &[&'a Measurement]) -> Vec<(String, &'a Measurement)> {
    let starts = [0].into_iter().chain(CLASSES);
    let ends = CLASSES.into_iter().map(Some).chain([None]);
    let best = |(start, end): (usize, Option<usize>)| {
        let inside = |m: &&&Measurement| {
            m.entry.nfe > start as f64 && end.is_none_or(|end| m.entry.nfe <= end as f64) && !m.entry.unfinished()
        };
        let better = |a: &&&Measurement, b: &&&Measurement| {
            a.entry.accuracy.total_cmp(&b.entry.accuracy).then(b.entry.nfe.total_cmp(&a.entry.nfe))
        };
        let name = end.map_or(format!("more than {start}"), |end| format!("at most {end}"));
        all.iter().filter(inside).max_by(better).map(|best| (name, *best))
    };
    starts.zip(ends).filter_map(best).collect()
}

/// The best of each speed class and the front of every task with many measurements, in tables.
pub(super) fn markdown(report: &Report) -> String {
    let mut text = String::new();
    for task in report.tasks() {
        let all: Vec<&Measurement> = report.measurements.iter().filter(|m| m.trial.task == task).collect();
        if !is_crowded(&all) {
            continue;
        }
        let cells = |m: &Measurement| {
            let entry = &m.entry;
            vec![
                report.title(m),
                percent(entry.accuracy),
                format!("{}–{}", percent(entry.interval[0]), percent(entry.interval[1])),
                format!("{:.1}", entry.nfe),
                format!("{:.0}", entry.rows_read),
            ]
        };
        let mut classes_table = Table::new(&["Forward passes", "Best", "Accuracy", "95%", "NFE", "Rows"]);
        for (class, best) in classes(&all) {
            classes_table.row([vec![class], cells(best)].concat());
        }
        let mut front_table = Table::new(&["Strategy", "Accuracy", "95%", "NFE", "Rows"]);
        front(&all).into_iter().for_each(|m| front_table.row(cells(m)));
        text += &format!(
            "## The best of each speed class: {task}\n\n{}\n## The front: {task}\n\nNo other measurement has as few forward passes and \
             is as accurate.\n\n{}\n",
            classes_table.write(),
            front_table.write()
        );
    }
    text
}
