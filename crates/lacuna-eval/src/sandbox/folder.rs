//! The folder that a program works in: fresh, watched, and removed whatever the program made of it.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A file takes this much even if it is empty.
const ENTRY: u64 = 512;

pub(super) struct Folder {
    root: TempDir,
    work: PathBuf,
}

impl Folder {
    pub(super) fn new() -> io::Result<Self> {
        let root = tempfile::Builder::new().prefix("lacuna-").tempdir()?;
        let work = root.path().join("work");
        fs::create_dir(&work)?;
        Ok(Self { root, work })
    }

    /// The program's working directory.
    pub(super) fn work(&self) -> &Path {
        &self.work
    }

    /// A place beside it, out of the program's reach.
    pub(super) fn beside(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// True if the program has written more than this.
    pub(super) fn holds_more_than(&self, bytes: u64) -> bool {
        let mut size = 0;
        let mut waiting = vec![self.work.clone()];
        while let Some(folder) = waiting.pop() {
            // What the running program removes meanwhile, or hides, is not counted.
            let Ok(entries) = fs::read_dir(folder) else { continue };
            for entry in entries.flatten() {
                let Ok(metadata) = entry.metadata() else { continue };
                size += ENTRY + metadata.blocks() * 512;
                if size > bytes {
                    return true;
                }
                if metadata.is_dir() {
                    waiting.push(entry.path());
                }
            }
        }
        false
    }

    /// Brings every folder to the top and opens it. To remove a tree takes a descriptor for each level, and a program can
    /// nest folders deeper than there are descriptors, or close them to us.
    fn flatten(&self) -> io::Result<()> {
        let mut waiting = vec![self.work.clone()];
        let mut count = 0;
        while let Some(folder) = waiting.pop() {
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    let top = self.beside(&format!("folder-{count}"));
                    count += 1;
                    fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o700))?;
                    fs::rename(entry.path(), &top)?;
                    waiting.push(top);
                }
            }
        }
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Then as much is removed as can be.
        let _ = self.flatten();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_counted() {
        let folder = Folder::new().unwrap();
        assert!(!folder.holds_more_than(0));
        fs::create_dir(folder.work().join("a")).unwrap();
        fs::write(folder.work().join("a/b"), vec![1; 100_000]).unwrap();
        assert!(folder.holds_more_than(100_000) && !folder.holds_more_than(300_000));
    }

    #[test]
    fn nothing_is_left_of_a_deep_or_closed_folder() {
        let folder = Folder::new().unwrap();
        let root = folder.root.path().to_path_buf();
        let closed = folder.work().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::write(closed.join("file"), "x").unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o300)).unwrap();
        // Deeper than a path can say.
        let mut deep = folder.work().join("deep");
        fs::create_dir(&deep).unwrap();
        for level in 0..3000 {
            let outer = folder.work().join(format!("outer-{level}"));
            fs::create_dir(&outer).unwrap();
            fs::rename(&deep, outer.join("inner")).unwrap();
            deep = outer;
        }
        drop(folder);
        assert!(!root.exists());
    }
}
