//! Finite automata over bytes, and the grammars they are made from.

mod determinize;
mod dfa;
mod grammar;
mod minimize;
mod product;

pub(crate) use determinize::determinize;
pub(crate) use dfa::{DEAD, Dfa, DfaBuilder};
pub(crate) use grammar::{Expr, Grammar};
pub(crate) use minimize::group;
pub(crate) use product::{intersect, subtract};

use crate::Refused;

/// States of a deterministic automaton before it is made minimal.
const RAW_STATES: usize = 1 << 16;
/// Nodes of a grammar's graph, and places in its unrolled form.
const NODES: usize = 1 << 20;
/// Elementary steps of a determinization: bounds its time (about a second).
const WORK: usize = 60_000_000;

fn too_large(what: &str, limit: usize) -> Refused {
    Refused::new(format!("the constraint is too large: {what} exceed the limit of {limit}; simplify it"))
}
