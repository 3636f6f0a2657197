//! Reports: what the samples in one or more results folders come to.

mod chart;
mod compare;
mod export;
mod front;
mod heads;
mod heatmap;
mod markdown;
mod merge;
mod paper;
mod plots;
mod table;

pub use compare::{Comparison, compare};
pub use merge::merge;
pub use paper::Number;
pub use plots::{Plot, plots};

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::run::{Configuration, Entry, Sample, Trial, replace_text};
use crate::statistics::accuracy_under_parallelism;
use crate::{Error, Result};

/// One trial, its samples and what they come to.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// The trial measured.
    pub trial: Trial,
    /// The samples by row.
    pub samples: Vec<Sample>,
    /// Summary of the samples.
    pub entry: Entry,
}

/// Everything that was measured together.
#[derive(Clone, Debug)]
pub struct Report {
    /// Configuration of the run.
    pub configuration: Configuration,
    /// The trials that have samples.
    pub measurements: Vec<Measurement>,
    /// Title of the measurement that the others of a table are compared with; otherwise the best.
    beside: Option<String>,
}

/// Progress of a run that was stopped or is still going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Unfinished {
    /// Answers that are there.
    pub answers: usize,
    /// Answers once it is finished.
    pub of: usize,
    /// Measurements that have all their problems.
    pub whole: usize,
    /// Measurements that have some of them.
    pub partial: usize,
    /// Measurements that have none.
    pub missing: usize,
}

impl Report {
    /// Compares the measurements of a table with the one of this title and the same blocks, instead of with the best.
    pub fn set_beside(&mut self, title: &str) -> Result<()> {
        if !self.measurements.iter().any(|measurement| self.title(measurement) == title) {
            return Err(Error::Request(format!(
                "nothing was measured under the name '{title}': take one from the tables, such as '{}'",
                self.title(&self.measurements[0])
            )));
        }
        self.beside = Some(title.into());
        Ok(())
    }

    /// Progress, if known to be less than the whole run.
    pub fn unfinished(&self) -> Option<Unfinished> {
        let trials = &self.configuration.trials;
        let of = trials.iter().map(|trial| self.configuration.problems_of(trial)).sum::<Option<usize>>()?;
        let answers = self.measurements.iter().map(|measurement| measurement.entry.n).sum();
        let partial = self.measurements.iter().filter(|measurement| measurement.entry.unfinished()).count();
        let missing = trials.len() - self.measurements.len();
        let whole = self.measurements.len() - partial;
        (partial + missing > 0).then_some(Unfinished { answers, of, whole, partial, missing })
    }

    /// Accuracy under parallelism of a measurement: of the curve from its order's slowest measurement on the same task and
    /// blocks to this one.
    pub fn aup(&self, measurement: &Measurement) -> f64 {
        let rate = |entry: &Entry| if entry.nfe > 0.0 { entry.tokens / entry.nfe } else { 0.0 };
        let alike = |other: &&Measurement| {
            let (a, b) = (&measurement.trial, &other.trial);
            a.task == b.task
                && a.gen_length == b.gen_length
                && a.block_length == b.block_length
                && a.order() == b.order()
        };
        let slowest = self
            .measurements
            .iter()
            .filter(alike)
            .min_by(|a, b| rate(&a.entry).total_cmp(&rate(&b.entry)))
            .unwrap_or(measurement);
        let best = self.measurements.iter().filter(|other| other.trial.task == measurement.trial.task);
        let best = best.map(|other| other.entry.accuracy * 100.0).fold(0.0, f64::max);
        let point = |measurement: &Measurement| (rate(&measurement.entry), measurement.entry.accuracy * 100.0);
        accuracy_under_parallelism(&[point(slowest), point(measurement)], best)
    }

    /// The strategy of a measurement with what distinguishes it from the others of the same name, task and blocks.
    pub fn title(&self, measurement: &Measurement) -> String {
        let trial = &measurement.trial;
        let alike = |other: &&Measurement| {
            let other = &other.trial;
            other.title() == trial.title() && other.task == trial.task && other.block_length == trial.block_length
        };
        let others: Vec<&Measurement> = self.measurements.iter().filter(alike).collect();
        let differs =
            |name: &str| others.iter().any(|other| other.trial.settings.get(name) != trial.settings.get(name));
        let own = trial.settings.iter().filter(|(name, _)| differs(name));
        let own: Vec<String> = own.map(|(name, value)| format!("{name} {value}")).collect();
        if own.is_empty() { trial.title() } else { format!("{}, {}", trial.title(), own.join(", ")) }
    }

    /// The tasks in the order they were first measured.
    pub fn tasks(&self) -> Vec<&str> {
        let mut tasks: Vec<&str> = Vec::new();
        for measurement in &self.measurements {
            if !tasks.contains(&measurement.trial.task.as_str()) {
                tasks.push(&measurement.trial.task);
            }
        }
        tasks
    }

    /// The tables and figures that were measured for: tables by number, figures by number, then others as they appear.
    pub fn labels(&self) -> Vec<&str> {
        let mut labels: Vec<&str> = Vec::new();
        for label in self.measurements.iter().flat_map(|measurement| &measurement.trial.labels) {
            if !labels.contains(&label.as_str()) {
                labels.push(label);
            }
        }
        labels.sort_by_key(|label| rank(label));
        labels
    }

    /// The report as markdown; `plots` are the names of the files to show.
    pub fn markdown(&self, plots: &[Plot]) -> String {
        markdown::write(self, plots)
    }

    /// The report as JSON.
    pub fn json(&self) -> serde_json::Value {
        export::json(self)
    }

    /// One line for each measurement, separated by commas.
    pub fn csv(&self) -> String {
        export::csv(self)
    }

    /// Writes `report.md`, `report.json`, `report.csv` and the plots to a folder. If `out` is a markdown file instead, the
    /// report goes there and all else into the folder of the same name; the text above [`MEASURED_MARK`] in such a file is kept.
    pub fn write(&self, out: &Path) -> Result<Vec<PathBuf>> {
        let own_page = out.extension().is_some_and(|extension| extension == "md");
        let folder = if own_page { out.with_extension("") } else { out.to_path_buf() };
        let page = if own_page { out.to_path_buf() } else { folder.join("report.md") };
        std::fs::create_dir_all(&folder).map_err(Error::file("create the folder", &folder))?;
        let mut plots = plots(self);
        let mut files = vec![
            (folder.join("report.json"), serde_json::to_string_pretty(&self.json()).expect("a report is plain") + "\n"),
            (folder.join("report.csv"), self.csv()),
        ];
        files.extend(plots.iter_mut().map(|plot| (folder.join(&plot.file), std::mem::take(&mut plot.svg))));
        let mut text = String::new();
        if own_page {
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            plots.iter_mut().for_each(|plot| plot.file = format!("{name}/{}", plot.file));
            text = above_mark(&page)?;
        }
        files.push((page, text + &self.markdown(&plots)));
        for (path, text) in &files {
            replace_text(path, text)?;
        }
        Ok(files.into_iter().map(|(path, _)| path).collect())
    }
}

/// The line in a page below which a report is written. The text above it is kept.
pub const MEASURED_MARK: &str = "<!-- measured -->";

/// Contents of a page above the mark at which a report is inserted.
fn above_mark(page: &Path) -> Result<String> {
    let text = match std::fs::read_to_string(page) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(format!("{MEASURED_MARK}\n\n")),
        text => text.map_err(Error::file("read", page))?,
    };
    match text.split_once(MEASURED_MARK) {
        Some((own, _)) => Ok(format!("{own}{MEASURED_MARK}\n\n")),
        None => Err(Error::Request(format!(
            "{} exists and has no line {MEASURED_MARK} below which a report could go: add it, or choose another file",
            page.display()
        ))),
    }
}

/// Tables come first, then figures, then what is neither.
fn rank(label: &str) -> (u8, u32) {
    let number = |kind: &str| {
        let digits: String = label.strip_prefix(kind)?.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    };
    match (number("Table "), number("Figure ")) {
        (Some(number), _) => (0, number),
        (_, Some(number)) => (1, number),
        _ => (2, 0),
    }
}
