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

use std::cell::Cell;

use crate::Refused;

/// States of a deterministic automaton before it is made minimal.
const RAW_STATES: usize = 1 << 16;
/// Nodes of a grammar's graph, and places in its unrolled form.
const NODES: usize = 1 << 20;
/// Elementary steps that compiling a constraint may take: bounds its time to about a second.
const WORK: usize = 16_000_000;

/// The work that may still be done for a constraint.
#[derive(Debug)]
pub(crate) struct Budget(Cell<usize>);

impl Budget {
    pub(crate) fn new() -> Self {
        Self(Cell::new(WORK))
    }

    pub(crate) fn spend(&self, work: usize) -> Result<(), Refused> {
        match self.0.get().checked_sub(work) {
            Some(left) => {
                self.0.set(left);
                Ok(())
            }
            None => Err(too_large("the steps to make its automaton", WORK)),
        }
    }
}

fn too_large(what: &str, limit: usize) -> Refused {
    Refused::new(format!("the constraint is too large: {what} exceed the limit of {limit}; simplify it"))
}
