//! The Hugging Face cache: checkpoints that were downloaded by name.

use std::env::var_os;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// The folder of a checkpoint such as `GSAI-ML/LLaDA-8B-Instruct`, if the cache has it.
pub(super) fn cached(name: &Path) -> Option<PathBuf> {
    let (owner, model) = name.to_str()?.split_once('/')?;
    let plain = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.contains(['/', '\\']);
    if !plain(owner) || !plain(model) {
        return None;
    }
    let repository = cache()?.join(format!("models--{owner}--{model}"));
    let revision = read_to_string(repository.join("refs").join("main")).ok()?;
    Some(repository.join("snapshots").join(revision.trim())).filter(|snapshot| snapshot.is_dir())
}

/// Directory of the cache, by the variables that `huggingface_hub` reads.
fn cache() -> Option<PathBuf> {
    let folder = |variable: &str| var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
    let home = || Some(folder("HOME")?.join(".cache"));
    let hugging_face =
        || folder("HF_HOME").or_else(|| Some(folder("XDG_CACHE_HOME").or_else(home)?.join("huggingface")));
    folder("HF_HUB_CACHE").or_else(|| Some(hugging_face()?.join("hub")))
}
