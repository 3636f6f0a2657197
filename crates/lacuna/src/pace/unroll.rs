//! Passes between two tests whether a block is complete.

use crate::catalogue::{Default, Kind, Parameter, PartParams};
use crate::{Block, Ranked};

/// dInfer's unrolling: several passes are made before a block is tested for masks, so that some may find nothing to do.
#[derive(Clone, Debug)]
pub(super) struct Unroll {
    most: usize,
    expected: usize,
    /// Step of the block before which it is tested again.
    until: usize,
}

pub(super) const UNROLL: Parameter = Parameter::new(
    "unroll",
    Kind::Integer { least: 1, most: 1024 },
    Default::Number(1.0),
    "most passes before a block is tested for masks; above 1 some passes may find nothing to do, as in dInfer",
);
pub(super) const EXPECTED_TPF: Parameter = Parameter::new(
    "expected_tpf",
    Kind::Integer { least: 1, most: 65_536 },
    Default::Number(8.0),
    "tokens that a pass is expected to commit: masks / expected_tpf passes are made before a block is tested",
);

impl Unroll {
    pub(super) fn of(given: &PartParams<'_>) -> Self {
        Self { most: given.integer("unroll"), expected: given.integer("expected_tpf"), until: 0 }
    }

    /// A block begins.
    pub(super) fn enter(&mut self) {
        self.until = 0;
    }

    /// A step begins.
    pub(super) fn step(&mut self, ranked: &Ranked<'_>) {
        let step = ranked.block().step;
        if step >= self.until {
            self.until = step + (ranked.positions().len() / self.expected).min(self.most).max(1);
        }
    }

    /// True if the block is not tested after this step.
    pub(super) fn needs_another_pass(&self, block: &Block) -> bool {
        block.step + 1 < self.until
    }
}
