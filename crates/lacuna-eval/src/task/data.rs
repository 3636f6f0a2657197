//! Problems from data files: one JSON object a line, or one array.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Task;
use crate::{Error, Result};

/// One problem of a benchmark. What a task has no use for stays empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Problem {
    /// Identifier that answers refer to: the task_id if there is one, else the row.
    pub id: String,
    /// Its row in the file, from 0.
    pub row: usize,
    /// The question, or the head of the function to write.
    pub request: String,
    /// The right answer.
    pub gold: String,
    /// A worked solution.
    pub solution: String,
    /// Statements that pass if a program is right.
    pub tests: Vec<String>,
    /// Statements that the tests need before them.
    pub setup: String,
    /// The function that the tests call.
    pub entry_point: String,
    /// The values of the solution and what they need, where that is known.
    pub values: Vec<super::Value>,
}

/// The fields of one line.
pub struct Fields<'a>(pub(super) &'a Value);

impl Fields<'_> {
    /// A text, under the first of these names that is there.
    pub(super) fn text(&self, names: &[&str]) -> std::result::Result<String, String> {
        match names.iter().find_map(|name| self.0.get(name)) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(Value::Number(number)) => Ok(number.to_string()),
            Some(_) => Err(format!("'{}' is not a text", names[0])),
            None => Err(format!("'{}' is missing", names.join("' or '"))),
        }
    }

    /// Whatever this name holds; nothing if it is not there.
    pub(super) fn parsed<T: serde::de::DeserializeOwned + Default>(
        &self,
        name: &str,
    ) -> std::result::Result<T, String> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(T::default()),
            Some(value) => T::deserialize(value).map_err(|error| format!("'{name}' has the wrong type ({error})")),
        }
    }

    /// A list of texts; empty if it is not there.
    pub(super) fn texts(&self, name: &str) -> std::result::Result<Vec<String>, String> {
        let text = |value: &Value| value.as_str().map(str::to_string);
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(values)) => {
                values.iter().map(text).collect::<Option<_>>().ok_or_else(|| format!("'{name}' is not a list of texts"))
            }
            Some(_) => Err(format!("'{name}' is not a list")),
        }
    }
}

/// The problems of a data file that is called `source` in messages.
pub fn parse_problems(task: &dyn Task, source: &str, text: &str) -> Result<Vec<Problem>> {
    let damaged = |line: usize, reason: String| Error::Line { path: source.into(), line, reason };
    let text = text.trim_start_matches('\u{feff}');
    let values: Vec<(usize, Value)> = if text.trim_start().starts_with('[') {
        let all: Vec<Value> = serde_json::from_str(text).map_err(|error| damaged(error.line(), error.to_string()))?;
        all.into_iter().map(|value| (1, value)).collect()
    } else {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let value = |(number, line): (usize, &str)| match serde_json::from_str(line) {
            Ok(value) => Ok((number + 1, value)),
            Err(error) => Err(damaged(number + 1, format!("it is not JSON ({error})"))),
        };
        lines.map(value).collect::<Result<_>>()?
    };
    let read = |(row, (line, value)): (usize, (usize, Value))| {
        task.read(row, &Fields(&value)).map_err(|reason| damaged(line, reason))
    };
    let problems: Vec<Problem> = values.into_iter().enumerate().map(read).collect::<Result<_>>()?;
    if problems.is_empty() {
        return Err(damaged(1, "the file is empty".into()));
    }
    Ok(problems)
}

/// The text of a data file; what benchmarks are also shipped as is named rather than taken for garbage.
pub(super) fn read_text(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).map_err(Error::file("read", path))?;
    let reason = match String::from_utf8(bytes) {
        Ok(text) => return Ok(text),
        Err(error) => match error.as_bytes() {
            [0x1f, 0x8b, ..] => "is compressed: unpack it with gunzip first",
            [b'P', b'A', b'R', b'1', ..] => "is Parquet: convert it to one JSON object a line first",
            _ => "is not a text: one JSON object a line is expected",
        },
    };
    Err(Error::Request(format!("{} {reason}", path.display())))
}

/// The first of `files` that is in the folder, or the file itself; else the names that were tried.
pub(super) fn locate(data: Option<&Path>, files: &[&str]) -> std::result::Result<PathBuf, String> {
    let Some(data) = data else { return Err("--data was not given".into()) };
    if !data.exists() {
        return Err(format!("{} does not exist", data.display()));
    }
    if data.is_file() {
        return Ok(data.into());
    }
    let found = files.iter().map(|file| data.join(file)).find(|path| path.is_file());
    found.ok_or_else(|| format!("{} has none of {}", data.display(), files.join(", ")))
}
