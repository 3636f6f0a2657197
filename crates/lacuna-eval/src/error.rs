//! Everything that can go wrong in an evaluation, said so that the user can mend it.

use std::path::PathBuf;

/// Result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// An error that keeps an evaluation from starting or going on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no interpreter to run programs with.
    #[error(
        "cannot run programs: no Python 3 was found (tried {tried}); install python3, or name one in LACUNA_PYTHON"
    )]
    NoPython {
        /// Paths tried.
        tried: String,
    },
    /// Nothing would keep a program from the machine.
    #[error(
        "refusing to run generated code: this machine offers neither Landlock, seccomp, namespaces nor bubblewrap; \
         install bubblewrap, or accept the risk with --unconfined"
    )]
    NoSandbox,
    /// The sandbox could not be set up.
    #[error("cannot start Python in the sandbox ({layers}): {source}")]
    Sandbox {
        /// The layers that were to be used.
        layers: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// There is no task of that name.
    #[error("unknown task '{name}'; the tasks are {known}")]
    UnknownTask {
        /// Requested name.
        name: String,
        /// All names.
        known: String,
    },
    /// The task has no protocol of that name.
    #[error("{task} has no protocol '{name}'; it has {known}")]
    UnknownProtocol {
        /// The task.
        task: &'static str,
        /// Requested name.
        name: String,
        /// Its protocols.
        known: String,
    },
    /// The data of a task is not where it should be.
    #[error("no data for {task}: {tried}; give --data a folder that has it, or the file itself")]
    NoData {
        /// The task.
        task: &'static str,
        /// Paths tried.
        tried: String,
    },
    /// A file without a problem for this protocol.
    #[error("{} has no problem that {protocol} of {task} would use: is it the right file?", path.display())]
    NoProblems {
        /// The file.
        path: PathBuf,
        /// The task.
        task: &'static str,
        /// The protocol.
        protocol: &'static str,
    },
    /// A line that cannot be used.
    #[error("{}, line {line}: {reason}; repair the file and run again, nothing is lost", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// Reason in one sentence.
        reason: String,
    },
    /// A request that makes no sense.
    #[error("{0}")]
    Request(String),
    /// Results that cannot be written.
    #[error(
        "cannot write {} (what was done before is kept: make room or mend it, then run the same command again): {source}",
        path.display()
    )]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A folder that holds other results.
    #[error("{} holds results of another configuration: there, {difference}; use another --out, or the command it was made with", path.display())]
    OtherConfiguration {
        /// The folder.
        path: PathBuf,
        /// The first difference.
        difference: String,
    },
    /// A folder in which another run is writing.
    #[error("another run is writing to {}: wait for it, or use another --out", path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
    },
    /// A folder without results.
    #[error("{} holds no results of `lacuna eval`", path.display())]
    NoResults {
        /// The folder.
        path: PathBuf,
    },
    /// Folders that do not belong together.
    #[error("{} does not go with {}: {difference}", path.display(), first.display())]
    Mismatch {
        /// The folder.
        path: PathBuf,
        /// The one before it.
        first: PathBuf,
        /// The first difference.
        difference: String,
    },
    /// Decoding failed.
    #[error(transparent)]
    Decoding(#[from] lacuna::Error),
    /// The model's text side failed.
    #[error("{0}")]
    Model(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A file that cannot be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// Attempted action.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
}

impl Error {
    /// For `map_err` on an operation on a file.
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }
}
