//! The samples of one trial in a file, one JSON line each, written as they are done.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::{Sample, Trial};
use crate::{Error, Result};

/// A file of samples that can be added to.
#[derive(Debug)]
pub(super) struct Ledger {
    path: PathBuf,
    file: File,
    samples: BTreeMap<usize, Sample>,
}

impl Ledger {
    /// Opens the file of a trial, or begins one. A line that was cut short when a run was killed is dropped.
    pub(super) fn open(folder: &Path, trial: &Trial) -> Result<Self> {
        let path = folder.join(trial.file_name());
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(Error::file("open", &path))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(Error::file("read", &path))?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        file.set_len(whole as u64).map_err(Error::file("write", &path))?;
        file.seek(SeekFrom::End(0)).map_err(Error::file("write", &path))?;
        let samples = parse(&path, &text[..whole])?;
        Ok(Self { path, file, samples })
    }

    /// Writes a sample. When this returns, a killed run has it.
    pub(super) fn add(&mut self, sample: Sample) -> Result<()> {
        let mut line = serde_json::to_string(&sample).expect("a sample has no value that JSON lacks");
        line.push('\n');
        self.file.write_all(line.as_bytes()).map_err(|source| self.unwritable(source))?;
        self.file.flush().map_err(|source| self.unwritable(source))?;
        self.samples.insert(sample.row, sample);
        Ok(())
    }

    fn unwritable(&self, source: std::io::Error) -> Error {
        Error::Unwritable { path: self.path.clone(), source }
    }

    /// True if this row is done.
    pub(super) fn has(&self, row: usize) -> bool {
        self.samples.contains_key(&row)
    }

    /// All samples by row.
    pub(super) fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.samples.values()
    }
}

/// The samples in a file by row. A row that is there twice counts once.
pub(super) fn parse(path: &Path, text: &[u8]) -> Result<BTreeMap<usize, Sample>> {
    let text = String::from_utf8_lossy(text);
    let read = |(number, line): (usize, &str)| match serde_json::from_str::<Sample>(line) {
        Ok(sample) => Ok((sample.row, sample)),
        Err(error) => {
            Err(Error::Line { path: path.into(), line: number + 1, reason: format!("not a sample ({error})") })
        }
    };
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(row: usize) -> Sample {
        Sample {
            id: row.to_string(),
            row,
            correct: true,
            reason: String::new(),
            answer: "42".into(),
            nfe: 1,
            rows_read: 1,
            tokens: 1,
            seconds: 0.5,
            order: vec![0],
            respect: None,
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_is_one_clear_line() {
        // /dev/full takes no byte, as a full disk does.
        let path = PathBuf::from("/dev/full");
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        let mut ledger = Ledger { path, file, samples: BTreeMap::new() };
        let error = ledger.add(sample(0)).unwrap_err().to_string();
        assert!(error.contains("No space left on device") && error.contains("run the same command again"), "{error}");
        assert_eq!(error.lines().count(), 1);
        assert!(!ledger.has(0));
    }

    #[test]
    fn a_damaged_line_in_the_middle_is_named() {
        let line = serde_json::to_string(&sample(3)).unwrap();
        let error =
            parse(Path::new("x.jsonl"), format!("{line}\n{{\"row\n{line}\n").as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("x.jsonl, line 2: not a sample"), "{error}");
        assert_eq!(parse(Path::new("x.jsonl"), format!("{line}\n{line}\n").as_bytes()).unwrap().len(), 1);
    }
}
