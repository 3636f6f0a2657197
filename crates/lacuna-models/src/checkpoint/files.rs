//! Sources of a checkpoint's files: a directory, a GGUF file, or the program itself.
#![allow(unsafe_code, reason = "mapping files and giving their pages back")]

use std::borrow::Cow;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::Mmap;

use super::gguf::Gguf;
use super::hub::cached;
use crate::{Error, Result};

/// Names and contents of files that are part of the program.
pub(crate) type EmbeddedFiles = &'static [(&'static str, &'static [u8])];

/// A place that holds the files of a checkpoint.
#[derive(Clone, Debug)]
pub(crate) enum Files {
    Directory(PathBuf),
    Gguf(Arc<Gguf>),
    Embedded(EmbeddedFiles),
}

impl Files {
    /// A directory, a GGUF file, or a checkpoint in the Hugging Face cache.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        if path.is_dir() {
            return Ok(Self::Directory(path.to_path_buf()));
        }
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf")) {
            return Gguf::open(path).map(|gguf| Self::Gguf(Arc::new(gguf)));
        }
        cached(path).map(Self::Directory).ok_or_else(|| Error::NotADirectory { path: path.display().to_string() })
    }

    /// The name of this place in messages.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Directory(path) => path.display().to_string(),
            Self::Gguf(gguf) => gguf.parts[0].label.clone(),
            Self::Embedded(_) => "the embedded model".to_string(),
        }
    }

    /// The name of one of its files in messages.
    pub(crate) fn label(&self, name: &str) -> String {
        match self {
            Self::Directory(path) => path.join(name).display().to_string(),
            Self::Gguf(gguf) => gguf.parts[0].label.clone(),
            Self::Embedded(_) => format!("{name} of the embedded model"),
        }
    }

    /// The content of a small file, if there is one of that name.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Cow<'static, [u8]>>> {
        match self {
            Self::Directory(path) => {
                let Some(mut file) = open(&path.join(name), &self.label(name))? else { return Ok(None) };
                let mut content = Vec::new();
                file.read_to_end(&mut content).map_err(|source| Error::Io { file: self.label(name), source })?;
                Ok(Some(Cow::Owned(content)))
            }
            Self::Gguf(gguf) => Ok(gguf.file(name)?.map(Cow::Owned)),
            Self::Embedded(files) => Ok(find(files, name).map(Cow::Borrowed)),
        }
    }

    /// The content of a large file, mapped where possible, if there is one of that name.
    pub(crate) fn map(&self, name: &str) -> Result<Option<Content>> {
        match self {
            Self::Directory(path) => map(&path.join(name), &self.label(name)),
            Self::Gguf(_) => Ok(None),
            Self::Embedded(files) => Ok(find(files, name).map(Content::Embedded)),
        }
    }
}

/// Maps a file, if there is one. `label` is its name in messages.
pub(super) fn map(path: &Path, label: &str) -> Result<Option<Content>> {
    let Some(file) = open(path, label)? else { return Ok(None) };
    // SAFETY: a checkpoint is not written while it is loaded; afterwards the mapping is not read any more.
    let map = unsafe { Mmap::map(&file) };
    map.map(|map| Some(Content::Mapped(map))).map_err(|source| Error::Io { file: label.to_string(), source })
}

/// Opens a regular file, if there is one. Opening anything else, such as a pipe, could wait for ever.
fn open(path: &Path, label: &str) -> Result<Option<File>> {
    let failed = |source| Error::Io { file: label.to_string(), source };
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() => File::open(path).map(Some).map_err(failed),
        Ok(_) => Err(Error::NotAFile { file: label.to_string() }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(failed(source)),
    }
}

fn find(files: EmbeddedFiles, name: &str) -> Option<&'static [u8]> {
    files.iter().find(|(file, _)| *file == name).map(|(_, content)| *content)
}

/// The content of a file that is not copied into memory.
#[derive(Debug)]
pub(crate) enum Content {
    Mapped(Mmap),
    Embedded(&'static [u8]),
}

impl Content {
    /// Gives the pages of a part back to the system. It is read from the file again if it is needed again.
    pub(crate) fn release(&self, range: Range<usize>) {
        #[cfg(unix)]
        if let Self::Mapped(map) = self {
            // SAFETY: the mapping is of a file and never written, so the same bytes come back. Failure costs only memory.
            let _ = unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, range.start, range.len()) };
        }
        #[cfg(not(unix))]
        let _ = range;
    }
}

impl Deref for Content {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Embedded(content) => content,
        }
    }
}
