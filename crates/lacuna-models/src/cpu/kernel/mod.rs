//! The compute kernels: everything that is `unsafe` or knows about instruction sets.
//!
//! Dimension letters: a product has `m` rows, `n` columns and the inner dimension `k`.
//!
//! Every output element is summed over `k` in one order that depends on nothing but `k`: runs of [`Element::DEPTH`] in registers, the
//! runs one after the other. So a row's result never depends on which rows are computed with it, nor on the threads.
//!
//! | operand | layout |
//! |---|---|
//! | weights ([`Panels`]) | panels of [`COLUMNS`] columns; inside, `k` outermost, so that a vector of columns is contiguous |
//! | activations ([`Activations`]) | panels of [`ROWS`] rows; inside, runs of [`Element::DEPTH`] of `k`, and in each run row after row |
//!
//! int8 operands are counted in units of their row or column, which stand behind each run: see [`Element`] for `i8`.

mod activations;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod ceiling;
mod element;
mod isa;
mod lines;
mod multiply;
mod panels;
mod row;
mod scalar;
mod summary;
#[cfg(test)]
mod tests;

pub(crate) use activations::{Activations, layout_length, run_offset};
pub(crate) use ceiling::{ceiling_bf16, ceiling_f32, ceiling_i8};
pub(crate) use element::{Element, Output};
pub(crate) use isa::Isa;
pub(crate) use lines::Lines;
pub(crate) use multiply::{Small, Target, multiply};
pub(crate) use panels::{Panels, panel_index};
pub(crate) use row::{exponentials, largest, magnitude, rms_norm, rotate, scale, silu_times};
pub(crate) use summary::{Summary, divergence};

/// Rows of a register tile.
pub(crate) const ROWS: usize = 12;
/// Columns of a register tile: two AVX-512 registers.
pub(crate) const COLUMNS: usize = 32;
/// Below this many multiplications, or what takes as long, a second thread costs more than it gives.
pub(crate) const WORTH_A_THREAD: usize = 1 << 20;
/// How many multiplications take as long as touching a value.
pub(crate) const TOUCH: usize = 16;
