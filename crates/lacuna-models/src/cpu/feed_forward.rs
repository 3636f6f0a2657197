//! Feed-forward networks: SwiGLU, alone or as experts.

use super::experts::Experts;
use super::matrix::{Gated, Input, Matrix};

/// The feed-forward network of a layer.
pub(crate) enum FeedForward {
    Dense(Network),
    Experts(Experts),
}

/// `down(silu(gate(x)) · up(x))`.
pub(crate) struct Network {
    /// Gate above up.
    pub(crate) gate_up: Matrix,
    pub(crate) down: Matrix,
}

impl Network {
    /// `output (+)= network(x)` for `rows` rows that `write(row, values)` writes.
    pub(crate) fn apply(
        &self,
        input: &mut Input,
        gated: &mut Gated,
        rows: usize,
        write: impl Fn(usize, &mut [f32]) + Sync,
        output: &mut [f32],
        add: bool,
    ) {
        self.gate(input, gated, rows, write);
        self.down.multiply(&gated.input, output, add);
    }

    /// Everything but the last product.
    pub(crate) fn gate(
        &self,
        input: &mut Input,
        gated: &mut Gated,
        rows: usize,
        write: impl Fn(usize, &mut [f32]) + Sync,
    ) {
        input.fill(&self.gate_up, rows, write);
        self.gate_up.multiply_gated(input, &self.down, gated);
    }
}
