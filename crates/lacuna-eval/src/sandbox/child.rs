//! One program from start to end.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::folder::Folder;
use super::{Layer, Limits, Outcome, Sandbox, bubblewrap};
use crate::{Error, Result};

const HARNESS: &str = include_str!("harness.py");
/// Interval at which a running program is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Interval at which the size of its folder is checked.
const SIZE_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Grace period for the pipes of a dead program.
const PIPE_GRACE: Duration = Duration::from_secs(2);

pub(super) fn run(sandbox: &Sandbox, program: &str) -> Result<Outcome> {
    let failed = |source: std::io::Error| Error::Sandbox { layers: sandbox.layers.to_string(), source };
    let folder = Folder::new().map_err(failed)?;
    let mut child = start(sandbox, &folder).map_err(failed)?;

    let word = format!("{:016x}{:016x}", RandomState::new().build_hasher().finish(), std::process::id());
    let mut input = child.stdin.take().expect("standard input is piped");
    let source = format!("{:016}{program}{word}", program.len());
    // The program may end without reading its input.
    std::thread::spawn(move || drop(input.write_all(source.as_bytes())));
    let output = collect(child.stdout.take().expect("standard output is piped"), sandbox.limits.output);
    let errors = collect(child.stderr.take().expect("standard error is piped"), sandbox.limits.output);

    let ended = wait(&mut child, &sandbox.limits, &folder).map_err(failed)?;
    let output = output.recv_timeout(PIPE_GRACE).unwrap_or_default();
    let errors = errors.recv_timeout(PIPE_GRACE).unwrap_or_default();
    Ok(match ended {
        Ok(status) => judge(sandbox, status, &word, &output, &errors),
        Err(reason) => Outcome { passed: false, reason },
    })
}

fn start(sandbox: &Sandbox, folder: &Folder) -> std::io::Result<Child> {
    let mut command = prepare(sandbox, folder)?;
    command
        .args(["-s", "-B", "-c", HARNESS])
        .env_clear()
        .env("PYTHONHASHSEED", "0")
        .env("HOME", "/nonexistent")
        .current_dir(folder.work())
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn()
}

#[cfg(target_os = "linux")]
fn prepare(sandbox: &Sandbox, folder: &Folder) -> std::io::Result<Command> {
    use std::os::fd::AsRawFd;

    use super::{confine, filesystem, namespaces, syscalls};

    let mut confinement = confine::Confinement::default();
    let mut command = if sandbox.layers.contains(Layer::Bubblewrap) {
        if sandbox.layers.contains(Layer::Seccomp) {
            for (number, filter) in syscalls::filters().iter().enumerate() {
                let path = folder.beside(&format!("filter-{number}"));
                std::fs::write(&path, confine::bytes(filter))?;
                confinement.inherited.push(std::fs::File::open(path)?.into());
            }
        }
        let numbers: Vec<i32> = confinement.inherited.iter().map(AsRawFd::as_raw_fd).collect();
        bubblewrap::command(sandbox, &numbers)?
    } else {
        if sandbox.layers.contains(Layer::Namespaces) {
            confinement.entry = Some(namespaces::Entry::new(folder.work(), sandbox.limits.files)?);
        }
        if sandbox.layers.contains(Layer::Landlock) {
            let rules = filesystem::rules(&sandbox.interpreter.readable()).map_err(std::io::Error::other)?;
            confinement.files = Some(rules);
        }
        if sandbox.layers.contains(Layer::Seccomp) {
            confinement.filters = syscalls::filters();
        }
        confinement.powerless = true;
        Command::new(&sandbox.interpreter.path)
    };
    confinement.apply(&mut command, &sandbox.limits);
    Ok(command)
}

#[cfg(not(target_os = "linux"))]
fn prepare(sandbox: &Sandbox, _folder: &Folder) -> std::io::Result<Command> {
    if sandbox.layers.confine() {
        return Err(std::io::Error::from(std::io::ErrorKind::Unsupported));
    }
    Ok(Command::new(&sandbox.interpreter.path))
}

/// Reads a pipe to its end in the background, or until it has given too much; then it is closed.
fn collect(mut pipe: impl Read + Send + 'static, most: usize) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let (mut all, mut chunk) = (Vec::new(), vec![0; 1 << 16]);
        while let Ok(count @ 1..) = pipe.read(&mut chunk) {
            all.extend_from_slice(&chunk[..count]);
            if all.len() > most {
                break;
            }
        }
        // Nobody may be waiting any more.
        let _ = sender.send(all);
    });
    receiver
}

/// Waits for the end, or brings it about; then this says why.
fn wait(
    child: &mut Child,
    limits: &Limits,
    folder: &Folder,
) -> std::io::Result<std::result::Result<ExitStatus, String>> {
    let begun = Instant::now();
    let mut looked = begun;
    let ended = loop {
        if let Some(status) = child.try_wait()? {
            break Ok(status);
        }
        if begun.elapsed() >= limits.wall {
            break Err(format!("it did not end within {} s", limits.wall.as_secs_f64()));
        }
        if looked.elapsed() >= SIZE_CHECK_INTERVAL {
            if folder.holds_more_than(limits.files) {
                break Err(format!("it wrote more than {} bytes", limits.files));
            }
            looked = Instant::now();
        }
        std::thread::sleep(POLL_INTERVAL);
    };
    // What the program left behind must not outlive it.
    if let Some(group) = rustix::process::Pid::from_raw(child.id() as i32) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    if ended.is_err() {
        let _ = child.kill();
        child.wait()?;
    }
    Ok(ended)
}

fn judge(sandbox: &Sandbox, status: ExitStatus, word: &str, output: &[u8], errors: &[u8]) -> Outcome {
    let wrong = |reason: String| Outcome { passed: false, reason };
    if output.len().max(errors.len()) > sandbox.limits.output {
        return wrong(format!("it printed more than {} bytes", sandbox.limits.output));
    }
    let output = String::from_utf8_lossy(output);
    let verdict = output.lines().rev().find_map(|line| line.strip_prefix(word)).map(str::trim);
    match verdict {
        Some("passed") => Outcome { passed: true, reason: "passed".into() },
        Some(verdict) => wrong(verdict.trim_start_matches("failed: ").to_string()),
        None => {
            let errors = String::from_utf8_lossy(errors);
            let last = errors.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("").trim().to_string();
            wrong(if last.is_empty() { format!("it ended before its tests were done ({status})") } else { last })
        }
    }
}
