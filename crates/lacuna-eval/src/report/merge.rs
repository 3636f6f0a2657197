//! Bringing the shards of a run together.

use std::collections::BTreeMap;

use super::{Measurement, Report};
use crate::run::{Folder, Sample, Shard, summarize};
use crate::{Error, Result};

/// One report from one folder, or from all shards of a run. Folders of different configurations are refused, and so are
/// shards that are missing, there twice, or hold the same rows.
pub fn merge(folders: &[Folder]) -> Result<Report> {
    let Some(first) = folders.first() else {
        return Err(Error::Request("there is nothing to report: name a results folder".into()));
    };
    for folder in folders {
        if let Some(difference) = folder.configuration.difference(&first.configuration, false) {
            return Err(Error::Mismatch { path: folder.path().into(), first: first.path().into(), difference });
        }
    }
    let count = first.configuration.shard.count;
    let mut seen: BTreeMap<usize, &Folder> = BTreeMap::new();
    for folder in folders {
        let index = folder.configuration.shard.index;
        if let Some(other) = seen.insert(index, folder) {
            return Err(Error::Mismatch {
                path: folder.path().into(),
                first: other.path().into(),
                difference: format!("it is shard {index} as well"),
            });
        }
    }
    if let Some(missing) = (1..=count).find(|index| !seen.contains_key(index)) {
        return Err(Error::Request(format!(
            "shard {} is missing: give all {count} folders of the run, or the results would be of another sample",
            Shard { index: missing, count }
        )));
    }
    let mut configuration = first.configuration.clone();
    configuration.shard = Shard::default();
    let mut measurements = Vec::new();
    for trial in &configuration.trials {
        let mut samples: BTreeMap<usize, (Sample, &Folder)> = BTreeMap::new();
        for folder in folders {
            for sample in folder.samples(trial)? {
                let row = sample.row;
                if let Some((_, other)) = samples.insert(row, (sample, folder)) {
                    return Err(Error::Mismatch {
                        path: folder.path().into(),
                        first: other.path().into(),
                        difference: format!("both hold row {row} of {}, which belongs to one shard", trial.task),
                    });
                }
            }
        }
        if !samples.is_empty() {
            let samples: Vec<Sample> = samples.into_values().map(|(sample, _)| sample).collect();
            let entry = summarize(&configuration, trial, &samples);
            measurements.push(Measurement { trial: trial.clone(), samples, entry });
        }
    }
    if measurements.is_empty() {
        return Err(Error::NoResults { path: first.path().into() });
    }
    Ok(Report { configuration, measurements, beside: None })
}
