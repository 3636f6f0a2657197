//! Crates as the registry gets them.

use crate::{run, step, target};

/// The registry's limit on a packed crate, in bytes.
const LIMIT: u64 = 10 << 20;

/// Packs every crate, and refuses one that is too large.
pub(crate) fn run_all() -> Result<(), String> {
    let folder = target().join("package");
    // Crates of earlier versions are not of interest.
    let _ = std::fs::remove_dir_all(&folder);
    run(&step("cargo package --workspace --no-verify --allow-dirty --locked --quiet"))?;
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for path in
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.extension() == Some("crate".as_ref()))
    {
        let size = path.metadata().map_err(|error| format!("{}: {error}", path.display()))?.len();
        let name = path.file_name().unwrap_or_default().display().to_string();
        println!("{name}: {size} bytes");
        if size > LIMIT {
            return Err(format!("{name} has more than the {LIMIT} bytes that the registry takes"));
        }
    }
    Ok(())
}
