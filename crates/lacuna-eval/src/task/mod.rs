//! Tasks: what is asked, how it is asked, and when an answer is right. One file each.

mod code;
mod data;
mod dependencies;
mod gsm8k;
mod humaneval;
mod math500;
mod mbpp;
mod orders;
mod protocol;
mod shots;
mod words;

pub use data::{Fields, Problem, parse_problems};
pub use dependencies::{Dependencies, Respect, Value};
pub use protocol::{Check, Prompt, Protocol, Shots, Turn};

use std::path::{Path, PathBuf};

use crate::{Error, Result};
use data::{locate, read_text};

/// A benchmark.
pub trait Task: Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// Default number of generated tokens.
    fn gen_length(&self) -> usize;

    /// The protocols it can be asked in, the default first.
    fn protocols(&self) -> &'static [Protocol];

    /// A problem from one line of a data file; an error says what is missing.
    fn read(&self, row: usize, fields: &Fields<'_>) -> std::result::Result<Problem, String>;

    /// Grades an answer that was recorded elsewhere, in whatever form such answers come.
    fn check(&self, problem: &Problem, answer: &str) -> Check;

    /// The problem's own solution, as an answer.
    fn reference(&self, problem: &Problem) -> String {
        problem.solution.clone()
    }

    /// Dependencies inside the solution, if known.
    fn dependencies(&self, _problem: &Problem) -> Option<Dependencies> {
        None
    }

    /// The data, if it is part of this program.
    fn embedded(&self) -> Option<&'static str> {
        None
    }
}

/// All tasks.
pub static TASKS: [&dyn Task; 18] = [
    &gsm8k::Gsm8k,
    &math500::Math500,
    &humaneval::HumanEval,
    &mbpp::Mbpp,
    &words::Words,
    &code::Code,
    &orders::LAST,
    &orders::FIRST,
    &orders::FORWARD,
    &orders::BACKWARD,
    &orders::SHUFFLED,
    &orders::SUDOKU,
    &orders::SUDOKU9,
    &orders::LATIN,
    &orders::COPY,
    &orders::REVERSE,
    &orders::SORT,
    &orders::SHUFFLE,
];

/// The task of this name.
pub fn find(name: &str) -> Result<&'static dyn Task> {
    TASKS
        .into_iter()
        .find(|task| task.name() == name)
        .ok_or_else(|| Error::UnknownTask { name: name.into(), known: TASKS.map(|task| task.name()).join(", ") })
}

impl dyn Task {
    /// The protocol of this name, or the default.
    pub fn protocol(&self, name: Option<&str>) -> Result<&'static Protocol> {
        let protocols = self.protocols();
        let Some(name) = name else { return Ok(&protocols[0]) };
        protocols.iter().find(|protocol| protocol.name == name).ok_or_else(|| Error::UnknownProtocol {
            task: self.name(),
            name: name.into(),
            known: protocols.iter().map(|protocol| protocol.name).collect::<Vec<_>>().join(", "),
        })
    }
}

/// A task with its data, asked in one protocol.
pub struct Benchmark {
    /// The task.
    pub task: &'static dyn Task,
    /// Protocol in use.
    pub protocol: &'static Protocol,
    /// Its problems, in the order of the file.
    pub problems: Vec<Problem>,
    /// Data files that the problems come from.
    pub source: String,
    train: Vec<Problem>,
    drawn: Vec<Vec<usize>>,
}

impl Benchmark {
    /// Loads a task. `data` is a folder or a file; the embedded tasks need none.
    pub fn load(task: &'static dyn Task, protocol: &'static Protocol, data: Option<&Path>) -> Result<Self> {
        let (source, text) = source(task, protocol.files, data)?;
        let mut problems = parse_problems(task, &source, &text)?;
        problems.retain(protocol.selects);
        if problems.is_empty() {
            return Err(Error::NoProblems { path: source.into(), task: task.name(), protocol: protocol.name });
        }
        let (mut train, mut drawn) = (Vec::new(), Vec::new());
        if let Shots::Drawn { count, files } = protocol.shots {
            let folder = data.map(|data| if data.is_dir() { data } else { data.parent().unwrap_or(data) });
            let path = locate(folder, files).map_err(|tried| Error::NoData { task: task.name(), tried })?;
            let text = read_text(&path)?;
            train = parse_problems(task, &path.display().to_string(), &text)?;
            let last = problems.iter().map(|problem| problem.row).max().unwrap_or(0);
            drawn = shots::draw(train.len(), count, last + 1);
        }
        Ok(Self { task, protocol, problems, source, train, drawn })
    }

    /// The prompt for this problem.
    pub fn prompt(&self, problem: &Problem) -> Prompt {
        let drawn = self.drawn.get(problem.row).map_or(&[][..], Vec::as_slice);
        let shots: Vec<&Problem> = drawn.iter().map(|&row| &self.train[row]).collect();
        (self.protocol.prompt)(problem, &shots)
    }

    /// Check of a generated text: the protocol cuts, extracts and compares.
    pub fn check(&self, problem: &Problem, text: &str) -> Check {
        (self.protocol.check)(problem, self.protocol.cut(text))
    }
}

/// The name and the text of the data file.
fn source(task: &dyn Task, files: &[&str], data: Option<&Path>) -> Result<(String, String)> {
    let path = match (data, task.embedded()) {
        (Some(data), embedded) => match locate(Some(data), files) {
            Ok(path) => path,
            Err(tried) => match embedded {
                Some(text) if data.is_dir() => return Ok((format!("the embedded {}", task.name()), text.into())),
                _ => return Err(Error::NoData { task: task.name(), tried }),
            },
        },
        (None, Some(text)) => return Ok((format!("the embedded {}", task.name()), text.into())),
        (None, None) => return Err(Error::NoData { task: task.name(), tried: "--data was not given".into() }),
    };
    let text = read_text(&path)?;
    Ok((path.display().to_string(), text))
}

/// All problems of a task, for grading recorded answers, with the file they come from.
pub fn load_all(task: &'static dyn Task, data: Option<&Path>) -> Result<(PathBuf, Vec<Problem>)> {
    let (source, text) = source(task, task.protocols()[0].files, data)?;
    let problems = parse_problems(task, &source, &text)?;
    Ok((source.into(), problems))
}
