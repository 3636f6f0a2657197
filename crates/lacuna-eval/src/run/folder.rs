//! A folder of results: what was measured, the samples, and what they come to.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use lacuna::catalogue::Params;
use serde::{Deserialize, Serialize};

use super::ledger::parse;
use super::{Part, Sample, Shard, Trial, summarize};
use crate::{Error, Result};

const CONFIGURATION: &str = "configuration.json";
const RESULTS: &str = "results.json";
const SAMPLES: &str = "samples";

/// The model under test, as far as results depend on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// Name of the model.
    pub name: String,
    /// Its family, such as `LLaDA`.
    pub family: String,
    /// Parameter count.
    pub parameters: usize,
    /// The precision it runs in.
    pub precision: String,
    /// Device it runs on.
    pub device: String,
}

impl std::fmt::Display for Model {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, family, parameters, precision, device } = self;
        write!(formatter, "{name} ({family}, {parameters} parameters, {precision} on {device})")
    }
}

/// Everything that the results in a folder depend on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Configuration {
    /// The version of this program that began it.
    pub version: String,
    /// The model.
    pub model: Model,
    /// Maximum number of problems per task; all if absent.
    pub limit: Option<usize>,
    /// Part of the problems used.
    pub part: Part,
    /// Seed.
    pub seed: u64,
    /// Shard of this machine.
    pub shard: Shard,
    /// Parameters that are not part of a trial.
    #[serde(default)]
    pub options: Params,
    /// A fingerprint of the problems of each task and protocol.
    pub data: BTreeMap<String, String>,
    /// Number of problems per task and protocol over all shards; absent in older folders.
    #[serde(default)]
    pub problems: BTreeMap<String, usize>,
    /// Trials measured.
    pub trials: Vec<Trial>,
    /// Sandbox for generated code, if any is run, and the Python that runs it. It may change when a run
    /// resumes.
    #[serde(default)]
    pub sandbox: Option<String>,
}

impl Configuration {
    /// Number of problems of a trial in the finished run over all shards, if recorded.
    pub fn problems_of(&self, trial: &Trial) -> Option<usize> {
        self.problems.get(&trial.benchmark()).copied()
    }

    /// First difference between two configurations, in the user's words; `None` if they are compatible.
    pub fn difference(&self, other: &Self, shards: bool) -> Option<String> {
        let differ = |what: &str, a: String, b: String| (a != b).then(|| format!("{what} is {a}, not {b}"));
        let limit = |limit: Option<usize>| limit.map_or("not given".to_string(), |limit| limit.to_string());
        let part = |part: Part| format!("{part:?}").to_lowercase();
        let plain = differ("the model", self.model.to_string(), other.model.to_string())
            .or_else(|| differ("--limit", limit(self.limit), limit(other.limit)))
            .or_else(|| differ("--part", part(self.part), part(other.part)))
            .or_else(|| differ("--seed", self.seed.to_string(), other.seed.to_string()));
        if plain.is_some() {
            return plain;
        }
        if shards && self.shard != other.shard {
            return Some(format!("--shard is {}, not {}", self.shard, other.shard));
        }
        if self.shard.count != other.shard.count {
            return Some(format!("the run is split in {}, not in {}", self.shard.count, other.shard.count));
        }
        if self.options != other.options {
            let list = |params: &Params| match params
                .iter()
                .map(|(name, value)| format!("{name} {value}"))
                .collect::<Vec<_>>()
            {
                none if none.is_empty() => "no options".to_string(),
                some => some.join(", "),
            };
            return Some(format!("it has {}, not {}", list(&self.options), list(&other.options)));
        }
        if self.data != other.data {
            return Some("the data files are different".into());
        }
        let missing = |a: &Self, b: &Self| {
            a.trials
                .iter()
                .find(|trial| !b.trials.contains(trial))
                .map(|trial| format!("{} on {} with blocks of {}", trial.title(), trial.task, trial.block_length))
        };
        if let Some(trial) = missing(self, other) {
            return Some(format!("it also measures {trial}, or measures it otherwise"));
        }
        missing(other, self).map(|trial| format!("it does not measure {trial}, or measures it otherwise"))
    }
}

/// A results folder.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Configuration of the run.
    pub configuration: Configuration,
    /// Held while a run writes here.
    _lock: Option<File>,
}

impl Folder {
    /// Opens a folder to write results of this configuration to, or makes one. A folder of another configuration is refused.
    pub fn create(path: &Path, configuration: Configuration) -> Result<Self> {
        let samples = path.join(SAMPLES);
        std::fs::create_dir_all(&samples).map_err(Error::file("create the folder", &samples))?;
        let lock_path = path.join("lock");
        let lock = File::create(&lock_path).map_err(Error::file("write", &lock_path))?;
        if lock.try_lock().is_err() {
            return Err(Error::Busy { path: path.into() });
        }
        let file = path.join(CONFIGURATION);
        match std::fs::read_to_string(&file) {
            Ok(text) => {
                let found: Configuration = decode(&file, &text)?;
                if let Some(difference) = found.difference(&configuration, true) {
                    return Err(Error::OtherConfiguration { path: path.into(), difference });
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if holds_samples(&samples)? {
                    return Err(Error::Request(format!(
                        "{} holds samples, but no {CONFIGURATION} says of what: put it back, or use another --out",
                        path.display()
                    )));
                }
                replace(&file, &configuration)?;
            }
            Err(error) => return Err(Error::file("read", &file)(error)),
        }
        Ok(Self { path: path.into(), configuration, _lock: Some(lock) })
    }

    /// Opens a folder to read.
    pub fn open(path: &Path) -> Result<Self> {
        let file = path.join(CONFIGURATION);
        let text = std::fs::read_to_string(&file).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => Error::NoResults { path: path.into() },
            _ => Error::File { action: "read", path: file.clone(), source },
        })?;
        Ok(Self { path: path.into(), configuration: decode(&file, &text)?, _lock: None })
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn samples_path(&self) -> PathBuf {
        self.path.join(SAMPLES)
    }

    /// The samples of a trial that are there, by row.
    pub fn samples(&self, trial: &Trial) -> Result<Vec<Sample>> {
        let path = self.samples_path().join(trial.file_name());
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::file("read", &path)(error)),
        };
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        Ok(parse(&path, &text[..whole])?.into_values().collect())
    }

    /// Writes `results.json` from the samples.
    pub fn write_results(&self) -> Result<Vec<super::Entry>> {
        let mut entries = Vec::new();
        for trial in &self.configuration.trials {
            let samples = self.samples(trial)?;
            if !samples.is_empty() {
                entries.push(summarize(&self.configuration, trial, &samples));
            }
        }
        replace(&self.path.join(RESULTS), &entries)?;
        Ok(entries)
    }
}

fn holds_samples(folder: &Path) -> Result<bool> {
    for entry in std::fs::read_dir(folder).map_err(Error::file("read", folder))? {
        let entry = entry.map_err(Error::file("read", folder))?;
        if entry.metadata().map_err(Error::file("read", entry.path()))?.len() > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

fn decode<T: serde::de::DeserializeOwned>(path: &Path, text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| Error::Line {
        path: path.into(),
        line: error.line(),
        reason: format!("it was not written by this program ({error})"),
    })
}

/// Writes a JSON file whole or not at all.
pub(crate) fn replace(path: &Path, value: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_string_pretty(value).expect("results have no value that JSON lacks");
    text.push('\n');
    replace_text(path, &text)
}

/// Writes a file whole or not at all.
pub(crate) fn replace_text(path: &Path, text: &str) -> Result<()> {
    let failed = |source: std::io::Error| Error::Unwritable { path: path.into(), source };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644)).map_err(failed)?;
    }
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}
