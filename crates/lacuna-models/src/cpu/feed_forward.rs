//! Feed-forward networks: SwiGLU, alone or as experts.

use super::experts::Experts;
use super::kernel::{Lines, silu_times};
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
        gate_up: &mut Lines<f32>,
        rows: usize,
        write: impl Fn(usize, &mut [f32]) + Sync,
        output: &mut [f32],
        add: bool,
    ) {
        self.gate(input, gate_up, rows, write);
        self.down.multiply(input, output, add);
    }

    /// Everything but the last product: its input is left in `input`.
    pub(crate) fn gate(
        &self,
        input: &mut Input,
        gate_up: &mut Lines<f32>,
        rows: usize,
        write: impl Fn(usize, &mut [f32]) + Sync,
    ) {
        let width = self.down.k();
        input.fill(&self.gate_up, rows, write);
        gate_up.resize(rows * 2 * width);
        self.gate_up.multiply(input, gate_up, false);
        input.fill(&self.down, rows, |index, values| {
            let (gate, up) = gate_up[index * 2 * width..][..2 * width].split_at(width);
            silu_times(gate, up, values);
        });
    }
}
