//! The report as a text to read.

use std::collections::HashMap;

use super::table::{Table, percent};
use super::{Comparison, Measurement, Plot, Report, Unfinished, compare, front, heads, paper};
use crate::statistics::holm;

/// A section of a table.
struct Section<'a> {
    label: Option<&'a str>,
    task: &'a str,
    rows: Vec<&'a Measurement>,
}

pub(super) fn write(report: &Report, plots: &[Plot]) -> String {
    let mut text = head(report) + &summary(report) + &front::markdown(report);
    let sections: Vec<Section<'_>> =
        report.labels().into_iter().map(Some).chain([None]).flat_map(|label| sections(report, label)).collect();
    let comparisons = Comparisons::of(report, &sections);
    for same_label in sections.chunk_by(|a, b| a.label == b.label) {
        if let Some(label) = same_label[0].label {
            text += &format!("## {label}\n\n");
        } else if !report.labels().is_empty() {
            text += "## Others\n\n";
        }
        for section in same_label {
            text += &format!("### {}\n\n{}\n", section.task, table(report, section, &comparisons));
        }
    }
    text += &orders(report);
    text += &heads::markdown(report);
    if !plots.is_empty() {
        text += "## Plots\n\n";
        for plot in plots {
            text += &format!("![{}]({})\n\n", plot.title, plot.file);
        }
    }
    text + NOTES
}

const NOTES: &str = "\
## How to read this

- *Accuracy* is in percent, with the 95% interval of Wilson. *NFE* is the number of forward passes for a sample.
- *tokens/s* counts the tokens of the answer, not what comes behind its end. *ms/sample* is the time of an answer's steps; of a
  step that several answers share, each has an equal part. *Rows* are the rows of the model's output that
  were read for a sample.
- *AUP* is accuracy under parallelism as the d3LLM leaderboard defines it, of the curve from the slowest measurement of the
  same order on the same task and blocks to this one.
- *Paper* is the accuracy (and NFE) that the DOS paper reports in this table for its model. Where the task is one of the
  embedded model's own, the number is that of the benchmark it stands for: GSM8K for `words`, HumanEval for `code`.
- *Beside the best* compares with the most accurate finished measurement of the table (of equals the one with fewest forwards)
  on the same problems: + those that only this one gets right, − those that only the best one does. `--beside` names another
  measurement to compare with, that of the same blocks. *p* is McNemar's exact test; *Holm* is *p* corrected for the number of
  all comparisons in these tables.
- *Too early* is the share, in percent, of the values that were decided before, or in the same step as, something they depend on;
  in a Sudoku, of the cells that no single forced. *Agreement* is Kendall's tau with an order that decides everything after what it
  depends on, over the pairs that such an order fixes. *Place* is the rank correlation of when the tokens of an answer were decided
  with where they stand (1 is left to right). *Ends first* is the share of the first twelve decisions that lie behind the answer.
";

fn head(report: &Report) -> String {
    let configuration = &report.configuration;
    let model = &configuration.model;
    let mut text = format!("# Results of {}\n\n", model.name);
    let size = model.parameters as f64 / 1e6;
    text += &format!(
        "{} · {:.1}M parameters · {} · {} · seed {} · lacuna {}",
        model.family, size, model.precision, model.device, configuration.seed, configuration.version
    );
    for (name, value) in configuration.options.iter() {
        text += &format!(" · {name} {value}");
    }
    if let Some(limit) = configuration.limit {
        text += &format!(" · the first {limit} problems of each task");
    }
    match configuration.part {
        crate::run::Part::All => {}
        crate::run::Part::Tune => text += " · the part for tuning",
        crate::run::Part::Test => text += " · without the part for tuning",
    }
    text += "\n\n";
    if let Some(Unfinished { answers, of, whole, partial, missing }) = report.unfinished() {
        text += &format!(
            "**Unfinished: {answers} of {of} answers are there.** Measurements: {whole} whole, {partial} in part (*n* says \
             how many problems of how many), {missing} not begun. The command that began the run goes on with it.\n\n"
        );
    }
    if let Some(sandbox) = &configuration.sandbox {
        text += &format!("Generated code ran behind: {sandbox}.\n\n");
    }
    text
}

/// The measurements of a label by task; without a label, those that have none.
fn sections<'a>(report: &'a Report, label: Option<&'a str>) -> Vec<Section<'a>> {
    let belongs = |measurement: &&Measurement| match label {
        Some(label) => measurement.trial.labels.iter().any(|other| other == label),
        None => measurement.trial.labels.is_empty(),
    };
    let section = |task: &'a str| {
        let mut rows: Vec<&Measurement> =
            report.measurements.iter().filter(|m| m.trial.task == task).filter(belongs).collect();
        // Tables go by blocks, figures by what they draw a line for; otherwise as the suite names them.
        let figure = label.is_some_and(|label| label.starts_with("Figure"));
        let first = |row: &Measurement| report.measurements.iter().position(|m| m.trial.strategy == row.trial.strategy);
        match figure {
            true => rows.sort_by_key(|row| (first(row), row.trial.block_length)),
            false => rows.sort_by_key(|row| row.trial.block_length),
        }
        Section { label, task, rows }
    };
    report.tasks().into_iter().map(section).filter(|section| !section.rows.is_empty()).collect()
}

/// The measurement that a row is compared with, if it is another one.
fn base<'a>(report: &Report, section: &Section<'a>, row: &Measurement) -> Option<&'a Measurement> {
    let base = match &report.beside {
        Some(title) => section
            .rows
            .iter()
            .find(|other| other.trial.block_length == row.trial.block_length && report.title(other) == *title),
        None => Some(best(section)),
    };
    base.copied().filter(|base| !std::ptr::eq(*base, row))
}

/// The most accurate finished measurement of a section, of equals the one with fewest forward passes.
fn best<'s, 'a>(section: &'s Section<'a>) -> &'s &'a Measurement {
    let most = |a: &&&Measurement, b: &&&Measurement| {
        let (a, b) = (&a.entry, &b.entry);
        let whole = b.unfinished().cmp(&a.unfinished());
        whole.then(a.accuracy.total_cmp(&b.accuracy)).then(b.nfe.total_cmp(&a.nfe))
    };
    section.rows.iter().max_by(most).expect("a section has rows")
}

/// Every comparison of the tables once, with its p-value corrected for their number.
struct Comparisons(HashMap<[*const Measurement; 2], (Comparison, f64)>);

impl Comparisons {
    fn of(report: &Report, sections: &[Section<'_>]) -> Self {
        let mut made = HashMap::new();
        for section in sections {
            for row in &section.rows {
                if let Some(base) = base(report, section, row) {
                    made.entry([std::ptr::from_ref(*row), std::ptr::from_ref(base)])
                        .or_insert_with(|| compare(row, base));
                }
            }
        }
        let (pairs, made): (Vec<_>, Vec<Comparison>) = made.into_iter().unzip();
        let corrected = holm(&made.iter().map(|comparison| comparison.p).collect::<Vec<_>>());
        Self(pairs.into_iter().zip(made.into_iter().zip(corrected)).collect())
    }

    /// Problems that a row gains and loses against its base, the p-value and the corrected one.
    fn cells(&self, row: &Measurement, base: Option<&Measurement>) -> [String; 3] {
        let found = base.and_then(|base| self.0.get(&[std::ptr::from_ref(row), std::ptr::from_ref(base)]));
        let Some((Comparison { gained, lost, p, .. }, corrected)) = found else {
            return ["–", "–", "–"].map(Into::into);
        };
        let write = |p: f64| if p < 0.001 { "<0.001".into() } else { format!("{p:.3}") };
        [format!("+{} −{}", gained.len(), lost.len()), write(*p), write(*corrected)]
    }
}

fn table(report: &Report, section: &Section<'_>, comparisons: &Comparisons) -> String {
    let family = &report.configuration.model.family;
    let published: Vec<_> =
        section.rows.iter().map(|row| section.label.and_then(|label| paper::find(label, family, &row.trial))).collect();
    let any_published = published.iter().any(Option::is_some);
    let beside = format!("Beside {}", report.beside.as_deref().unwrap_or("the best"));
    let mut head = vec!["Strategy", "Length", "Block", "n", "Accuracy", "95%", &beside, "p", "Holm"];
    head.extend(["NFE", "tokens/s", "ms/sample", "Rows", "AUP"]);
    if any_published {
        head.extend(["Paper", "Paper's NFE"]);
    }
    let most = best(section).entry.accuracy;
    let mut table = Table::new(&head);
    for (row, published) in section.rows.iter().zip(published) {
        let Measurement { entry, trial, .. } = row;
        let accuracy = percent(entry.accuracy);
        let whole = trial.block_length == trial.gen_length;
        let [beside, p, corrected] = comparisons.cells(row, base(report, section, row));
        let mut cells = vec![
            report.title(row),
            trial.gen_length.to_string(),
            if whole { "one".into() } else { trial.block_length.to_string() },
            match entry.problems {
                Some(problems) if entry.unfinished() => format!("{} of {problems}", entry.n),
                _ => entry.n.to_string(),
            },
            if entry.accuracy == most { format!("**{accuracy}**") } else { accuracy },
            format!("{}–{}", percent(entry.interval[0]), percent(entry.interval[1])),
            beside,
            p,
            corrected,
            format!("{:.1}", entry.nfe),
            format!("{:.1}", entry.tokens_per_second),
            format!("{:.1}", entry.seconds_per_sample * 1e3),
            format!("{:.0}", entry.rows_read),
            format!("{:.0}", report.aup(row)),
        ];
        if any_published {
            let number = |value: Option<f64>| value.map_or("–".to_string(), |value| format!("{value:.2}"));
            cells.extend([number(published.map(|p| p.accuracy)), number(published.and_then(|p| p.nfe))]);
        }
        table.row(cells);
    }
    table.write()
}

/// Accuracies of all strategies on all tasks, if there are three tasks or more.
fn summary(report: &Report) -> String {
    let tasks = report.tasks();
    if tasks.len() < 3 {
        return String::new();
    }
    let name = |m: &Measurement| match m.trial.block_length {
        length if length == m.trial.gen_length => m.trial.title(),
        length => format!("{}, blocks of {length}", m.trial.title()),
    };
    let mut rows: Vec<String> = Vec::new();
    for measurement in &report.measurements {
        if !rows.contains(&name(measurement)) {
            rows.push(name(measurement));
        }
    }
    let best = |task: &str| {
        let of_task = report.measurements.iter().filter(|m| m.trial.task == task);
        of_task.map(|m| m.entry.accuracy).fold(0.0, f64::max)
    };
    let mut table = Table::new(&[&["Strategy"], &tasks[..]].concat());
    for row in rows {
        let cell = |task: &&str| {
            let found = report.measurements.iter().find(|m| m.trial.task == *task && name(m) == row);
            found.map_or("–".into(), |m| match percent(m.entry.accuracy) {
                accuracy if m.entry.accuracy == best(task) => format!("**{accuracy}**"),
                accuracy => accuracy,
            })
        };
        let cells: Vec<String> = tasks.iter().map(cell).collect();
        table.row([vec![row], cells].concat());
    }
    format!("## Accuracy by task\n\n{}\n", table.write())
}

/// The measures of orders, by task.
fn orders(report: &Report) -> String {
    let mut text = String::from("## Orders\n\n");
    for task in report.tasks() {
        let rows: Vec<&Measurement> = report.measurements.iter().filter(|m| m.trial.task == task).collect();
        let known = rows.iter().any(|row| row.entry.early.is_some());
        let mut head = vec!["Strategy", "Block", "Accuracy"];
        if known {
            head.extend(["Too early", "Agreement"]);
        }
        head.extend(["Place", "Ends first"]);
        let mut table = Table::new(&head);
        for Measurement { trial, entry, .. } in rows {
            let share = |value: Option<f64>| value.map_or("–".into(), percent);
            let correlation =
                |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.2}").replace('-', "−"));
            let whole = trial.block_length == trial.gen_length;
            let block = if whole { "one".into() } else { trial.block_length.to_string() };
            let mut cells = vec![trial.title(), block, percent(entry.accuracy)];
            if known {
                cells.extend([share(entry.early), correlation(entry.agreement)]);
            }
            cells.extend([correlation(entry.place_correlation), share(entry.early_ends)]);
            table.row(cells);
        }
        text += &format!("### {task}\n\n{}\n", table.write());
    }
    text
}
