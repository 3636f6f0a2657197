//! The compute kernels: everything that is `unsafe` or knows about instruction sets.
//!
//! Dimension letters: a product has `m` rows, `n` columns and the inner dimension `k`.
//!
//! A [`Kernel`] is a microkernel for one kind of weights and one instruction set. It owns its tile geometry: how many rows and
//! columns a tile has, and how both operands are laid out for it. Weights ([`Panels`]) are packed once, activations
//! ([`Activations`]) for every product.
//!
//! Every output element is summed over `k` in one order that depends on nothing but the kernel and `k`: runs of
//! [`Kernel::depth`] in registers, the runs one after the other. So a row's result never depends on which rows are computed with
//! it, nor on the threads.
//!
//! int8 operands are multiples of the scale of their row or column. The scales stand behind each run. int4 weights ([`Nibbles`])
//! are int8 weights that take less room: they are widened run by run.

mod activations;
#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod ceiling;
mod element;
mod isa;
mod lines;
mod multiply;
mod nibbles;
mod panels;
mod row;
mod scalar;
mod summary;
#[cfg(test)]
mod tests;
mod tile;

pub(crate) use activations::Activations;
pub(crate) use ceiling::{ceiling_bf16, ceiling_f32, ceiling_i8, memory_bandwidth};
pub(crate) use element::Element;
pub use isa::Isa;
pub(crate) use isa::for_each_isa;
pub(crate) use lines::Lines;
use multiply::Piece;
pub(crate) use multiply::{Small, can_gate, multiply, multiply_gated, multiply_gated_into};
pub(crate) use nibbles::Nibbles;
pub(crate) use panels::{Columns, Panels, Source};
pub(crate) use row::{exponentials, largest, magnitude, rms_norm, rotate, scale, silu_times};
pub(crate) use summary::{Summary, divergence};
use tile::Kernel;

/// Below this many multiplications, or what takes as long, a second thread costs more than it gives.
pub(crate) const WORTH_A_THREAD: usize = 1 << 20;
/// Multiplications that take as long as touching one value.
pub(crate) const TOUCH_COST: usize = 16;
