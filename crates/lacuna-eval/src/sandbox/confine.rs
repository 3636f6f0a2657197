//! Confinement that the child applies to itself between fork and exec.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use landlock::RulesetCreated;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, Rlimit, Signal};
use rustix::thread::{CapabilitySet, CapabilitySets};
use seccompiler::BpfProgram;

use super::namespaces::Entry;
use super::{Limits, filesystem};

const NO_CAPABILITIES: CapabilitySets = CapabilitySets {
    effective: CapabilitySet::empty(),
    permitted: CapabilitySet::empty(),
    inheritable: CapabilitySet::empty(),
};

/// The layers that a child puts on by itself, made ready before the fork.
#[derive(Default)]
pub(super) struct Confinement {
    pub(super) entry: Option<Entry>,
    pub(super) files: Option<RulesetCreated>,
    pub(super) filters: Vec<BpfProgram>,
    /// Gives up what root may do beyond others. The command must not need it to set up more layers.
    pub(super) powerless: bool,
    /// Descriptors that the command is to inherit.
    pub(super) inherited: Vec<OwnedFd>,
}

impl Confinement {
    /// Makes `command` confine itself before it starts.
    pub(super) fn apply(mut self, command: &mut Command, limits: &Limits) {
        let resources = resources(limits);
        let enter = move || -> io::Result<()> {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            if let Some(entry) = &self.entry {
                entry.enter()?;
            }
            // The command has changed to the working folder, and so has what entered the namespaces. It is opened before the
            // limits hold: what the evaluation has open counts until the command starts.
            let folder = rustix::fs::open(c".", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
            for (resource, limit) in resources {
                lower(resource, limit)?;
            }
            for descriptor in &self.inherited {
                rustix::io::fcntl_setfd(descriptor.as_fd(), rustix::io::FdFlags::empty())?;
            }
            rustix::thread::set_no_new_privs(true)?;
            if let Some(rules) = self.files.take() {
                filesystem::restrict(rules, folder)?;
            }
            if self.powerless {
                rustix::thread::set_capabilities(None, NO_CAPABILITIES)?;
            }
            for filter in &self.filters {
                seccompiler::apply_filter(filter).map_err(|_| io::Error::from(io::ErrorKind::PermissionDenied))?;
            }
            Ok(())
        };
        // SAFETY: the closure runs in the forked child, where only the calling thread exists. It makes system calls on
        // values that were prepared before the fork; on success it neither allocates nor takes a lock.
        #[allow(unsafe_code, reason = "there is no safe way to run code between fork and exec")]
        unsafe {
            command.pre_exec(enter);
        }
    }
}

fn resources(limits: &Limits) -> [(Resource, u64); 7] {
    [
        // A second more than the wall clock, which should strike first.
        (Resource::Cpu, limits.wall.as_secs() + 2),
        (Resource::As, limits.memory),
        (Resource::Fsize, limits.files),
        (Resource::Nofile, 64),
        (Resource::Core, 0),
        // Counted over all processes of the user, so it can only stop the worst; seccomp refuses the first.
        (Resource::Nproc, 2048),
        (Resource::Memlock, 0),
    ]
}

fn lower(resource: Resource, limit: u64) -> io::Result<()> {
    let most = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let limit = Some(limit.min(most));
    Ok(rustix::process::setrlimit(resource, Rlimit { current: limit, maximum: limit })?)
}

/// A filter as bwrap reads it.
pub(super) fn bytes(filter: &BpfProgram) -> Vec<u8> {
    let instruction = |filter: &seccompiler::sock_filter| {
        let [code_low, code_high] = filter.code.to_ne_bytes();
        let [a, b, c, d] = filter.k.to_ne_bytes();
        [code_low, code_high, filter.jt, filter.jf, a, b, c, d]
    };
    filter.iter().flat_map(instruction).collect()
}
