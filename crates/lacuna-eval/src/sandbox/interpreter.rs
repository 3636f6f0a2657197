//! The user's Python.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Error, Result};

/// A Python interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// The executable itself, not a script that starts it.
    pub path: PathBuf,
    /// Its version, such as `3.11.7`.
    pub version: String,
    /// The folders that it needs to read.
    pub(super) folders: Vec<PathBuf>,
}

/// Prints what is needed to start the interpreter without its launcher: version managers put a shell script in the path.
const DESCRIBE: &str = "import sys, sysconfig, platform\n\
    print(platform.python_version(), sys.executable, sys.prefix, sys.base_prefix, \
    sysconfig.get_path('stdlib'), sysconfig.get_path('purelib'), sep='\\n')";

impl Interpreter {
    /// The `python3` in the path, or the one that the variable LACUNA_PYTHON names.
    pub fn find() -> Result<Self> {
        let named = std::env::var_os("LACUNA_PYTHON");
        let candidates: Vec<PathBuf> = match named {
            Some(path) => vec![path.into()],
            None => vec!["python3".into(), "python".into()],
        };
        candidates.iter().find_map(|candidate| Self::describe(candidate)).ok_or_else(|| Error::NoPython {
            tried: candidates.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "),
        })
    }

    fn describe(path: &Path) -> Option<Self> {
        let output = Command::new(path).args(["-c", DESCRIBE]).stdin(Stdio::null()).output().ok()?;
        let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
        let mut lines = text.lines();
        let version = lines.next()?.to_string();
        if !version.starts_with("3.") {
            return None;
        }
        let executable = PathBuf::from(lines.next()?);
        let mut folders: Vec<PathBuf> = lines.map(PathBuf::from).collect();
        // The executable of a virtual environment is a link to another folder.
        let real = executable.canonicalize().unwrap_or_else(|_| executable.clone());
        folders.extend(real.parent().map(Path::to_path_buf));
        folders.retain(|folder| folder != Path::new("/") && folder.is_dir());
        folders.sort();
        folders.dedup();
        Some(Self { path: executable, version, folders })
    }

    /// Everything that a program may read: the interpreter, and the libraries of the system.
    pub(super) fn readable(&self) -> Vec<PathBuf> {
        const SYSTEM: [&str; 9] = [
            "/usr",
            "/lib",
            "/lib64",
            "/bin",
            "/etc/ld.so.cache",
            "/etc/localtime",
            "/dev/null",
            "/dev/zero",
            "/dev/urandom",
        ];
        SYSTEM.iter().map(PathBuf::from).chain(self.folders.iter().cloned()).filter(|path| path.exists()).collect()
    }
}
