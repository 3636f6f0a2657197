//! Kernels run alone: each is checked against a scalar twin on odd sizes, then timed. For `examples/kernel.rs` and tests.

mod case;
mod cpu;
mod run;

pub(crate) use case::{Case, Scale, Size, noise};
pub use run::{Report, Timing, names, run};
pub(crate) use run::{check, median};
