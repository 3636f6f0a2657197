//! Feed-forward networks: SwiGLU, alone or as experts.

use super::experts::Experts;
use super::kernel::Lines;
use super::matrix::{Input, Matrix};

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
        gated: &mut Lines<f32>,
        rows: usize,
        write: impl Fn(usize, &mut [f32]) + Sync,
        output: &mut [f32],
        add: bool,
    ) {
        self.gate(input, gated, rows, write);
        self.down.multiply(input, output, add);
    }

    /// Everything but the last product: its input is left in `input`.
    pub(crate) fn gate(
        &self,
        input: &mut Input,
        gated: &mut Lines<f32>,
        rows: usize,
        write: impl Fn(usize, &mut [f32]) + Sync,
    ) {
        let width = self.down.k();
        input.fill(&self.gate_up, rows, write);
        self.gate_up.multiply_gated(input, gated);
        input.fill(&self.down, rows, |row, values| values.copy_from_slice(&gated[row * width..][..width]));
    }
}
