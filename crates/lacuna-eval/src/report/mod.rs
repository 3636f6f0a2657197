//! Reports: what the samples in one or more results folders come to.

mod chart;
mod compare;
mod export;
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

use std::path::Path;

use crate::Result;
use crate::run::{Configuration, Entry, Sample, Trial};
use crate::statistics::accuracy_under_parallelism;

/// One trial, its samples and what they come to.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// What was measured.
    pub trial: Trial,
    /// The samples by row.
    pub samples: Vec<Sample>,
    /// What they come to.
    pub entry: Entry,
}

/// Everything that was measured together.
#[derive(Clone, Debug)]
pub struct Report {
    /// What it depends on.
    pub configuration: Configuration,
    /// The trials that have samples.
    pub measurements: Vec<Measurement>,
}

impl Report {
    /// Accuracy under parallelism of a measurement: of the curve from its order's slowest measurement on the same task and
    /// blocks to this one.
    pub fn aup(&self, measurement: &Measurement) -> f64 {
        let order = |trial: &Trial| {
            let parts = lacuna::PRESETS.iter().find(|(preset, _)| *preset == trial.strategy);
            parts.map_or(trial.strategy.as_str(), |(_, parts)| parts).split('+').next().unwrap_or_default().to_string()
        };
        let rate = |entry: &Entry| if entry.nfe > 0.0 { entry.tokens / entry.nfe } else { 0.0 };
        let alike = |other: &&Measurement| {
            let (a, b) = (&measurement.trial, &other.trial);
            a.task == b.task && a.gen_length == b.gen_length && a.block_length == b.block_length && order(a) == order(b)
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

    /// Writes `report.md`, `report.json`, `report.csv` and the plots to a folder.
    pub fn write(&self, folder: &Path) -> Result<Vec<std::path::PathBuf>> {
        use crate::run::replace_text;
        std::fs::create_dir_all(folder).map_err(crate::Error::file("create the folder", folder))?;
        let plots = plots(self);
        let json = serde_json::to_string_pretty(&self.json()).expect("a report has no value that JSON lacks");
        let mut files = vec![
            ("report.md".to_string(), self.markdown(&plots)),
            ("report.json".to_string(), json + "\n"),
            ("report.csv".to_string(), self.csv()),
        ];
        files.extend(plots.into_iter().map(|plot| (plot.file, plot.svg)));
        let mut written = Vec::new();
        for (name, text) in files {
            let path = folder.join(name);
            replace_text(&path, &text)?;
            written.push(path);
        }
        Ok(written)
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
