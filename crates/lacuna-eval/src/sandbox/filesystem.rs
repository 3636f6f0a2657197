//! Landlock: which files can be reached.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, Scope, path_beneath_rules,
};

/// A rule set under which only `readable` can be read and only `folder` be written. Where the kernel knows no Landlock it
/// allows everything; [`super::Sandbox::detect`] notices.
pub(super) fn rules(readable: &[PathBuf], folder: &Path) -> Result<RulesetCreated, RulesetError> {
    let abi = ABI::V6;
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .scope(Scope::from_all(abi))?
        .create()?
        .add_rules(path_beneath_rules(readable, AccessFs::from_read(abi)))?
        .add_rules(path_beneath_rules([folder, Path::new("/dev/null")], AccessFs::from_all(abi)))
}
