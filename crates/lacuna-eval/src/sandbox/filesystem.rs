//! Landlock: which files can be reached.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, Scope, path_beneath_rules,
};

const KNOWN: ABI = ABI::V6;

/// A rule set under which only `readable` can be read and nothing be written. Where the kernel knows no Landlock it allows
/// everything; [`super::Sandbox::detect`] notices.
pub(super) fn rules(readable: &[PathBuf]) -> Result<RulesetCreated, RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(KNOWN))?
        .handle_access(AccessNet::from_all(KNOWN))?
        .scope(Scope::from_all(KNOWN))?
        .create()?
        .add_rules(path_beneath_rules(readable, AccessFs::from_read(KNOWN)))?
        .add_rules(path_beneath_rules(["/dev/null"], AccessFs::from_all(KNOWN)))
}

/// Puts the rules in force, with `folder` the one place to write to. It is opened only now: a rule for what lies below a
/// mount does not hold for what is mounted, and one for the folder above would let more be written than this one holds.
pub(super) fn restrict(rules: RulesetCreated, folder: OwnedFd) -> io::Result<()> {
    let restricted =
        rules.add_rule(PathBeneath::new(folder, AccessFs::from_all(KNOWN))).and_then(RulesetCreated::restrict_self);
    restricted.map(drop).map_err(|_| io::Error::from(io::ErrorKind::PermissionDenied))
}
