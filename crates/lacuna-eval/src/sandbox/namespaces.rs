//! Namespaces of the program's own: users, network, mounts.

use std::ffi::CString;
use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::process::{getgid, getuid};
use rustix::thread::UnshareFlags;

/// Empty files take the kernel's memory too.
const FILES: u32 = 1 << 15;

/// User id `nobody`, which owns no files.
const NOBODY: u32 = 65534;

/// Everything that entering needs, made before the fork: after it, nothing may be allocated.
#[derive(Debug)]
pub(super) struct Entry {
    users: Vec<u8>,
    groups: Vec<u8>,
    folder: CString,
    options: CString,
}

impl Entry {
    /// To work in `folder`, which will hold at most `bytes`.
    pub(super) fn new(folder: &Path, bytes: u64) -> io::Result<Self> {
        use std::os::unix::ffi::OsStrExt;
        Ok(Self {
            users: format!("{NOBODY} {} 1\n", getuid().as_raw()).into_bytes(),
            groups: format!("{NOBODY} {} 1\n", getgid().as_raw()).into_bytes(),
            folder: CString::new(folder.as_os_str().as_bytes())?,
            options: CString::new(format!("size={bytes},nr_inodes={FILES},mode=700"))?,
        })
    }

    /// Enters new namespaces, in the child between fork and exec.
    pub(super) fn enter(&self) -> io::Result<()> {
        #[allow(deprecated, reason = "its safety concern is sharing the file table, which no flag here asks for")]
        rustix::thread::unshare(
            UnshareFlags::NEWUSER
                | UnshareFlags::NEWNET
                | UnshareFlags::NEWNS
                | UnshareFlags::NEWIPC
                | UnshareFlags::NEWUTS,
        )?;
        write(c"/proc/self/setgroups", b"deny")?;
        write(c"/proc/self/uid_map", &self.users)?;
        write(c"/proc/self/gid_map", &self.groups)?;
        rustix::mount::mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        rustix::mount::mount(c"tmpfs", self.folder.as_c_str(), c"tmpfs", flags, self.options.as_c_str())?;
        rustix::process::chdir(self.folder.as_c_str())?;
        Ok(())
    }
}

fn write(path: &std::ffi::CStr, bytes: &[u8]) -> io::Result<()> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, bytes)?;
    Ok(())
}
