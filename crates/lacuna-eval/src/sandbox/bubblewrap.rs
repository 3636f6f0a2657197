//! The `bwrap` command, where it is installed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Sandbox;

/// The working folder inside.
const FOLDER: &str = "/work";

/// A command that starts the interpreter inside bubblewrap; `filters` are the file descriptors of seccomp programs.
pub(super) fn command(sandbox: &Sandbox, filters: &[i32]) -> std::io::Result<Command> {
    let mut command = Command::new(find().ok_or(std::io::ErrorKind::NotFound)?);
    command.args(["--unshare-all", "--die-with-parent", "--cap-drop", "ALL"]);
    for path in sandbox.interpreter.readable().iter().filter(|path| !path.starts_with("/dev")) {
        let bind = if path.is_symlink() { link(path) } else { None };
        command.args(bind.unwrap_or_else(|| ["--ro-bind".into(), path.into(), path.into()]));
    }
    command.args(["--dev", "/dev", "--size", &sandbox.limits.files.to_string(), "--tmpfs", FOLDER, "--chdir", FOLDER]);
    command.args(["--remount-ro", "/"]);
    for filter in filters {
        command.args(["--add-seccomp-fd", &filter.to_string()]);
    }
    command.arg("--").arg(&sandbox.interpreter.path);
    Ok(command)
}

/// The command is looked up here, since the child has no PATH.
fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("bwrap")).find(|file| file.is_file())
}

/// `/lib` is a link to `/usr/lib` on most systems, and stays one.
fn link(path: &Path) -> Option<[OsString; 3]> {
    Some(["--symlink".into(), std::fs::read_link(path).ok()?.into(), path.into()])
}
