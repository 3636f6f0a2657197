//! The predictor for CPUs.

mod attention;
mod forward;
pub(crate) mod kernel;
mod layout;
mod matrix;
mod measure;
mod predictor;
mod read;
mod rope;
mod weights;

pub use matrix::Precision;
pub use measure::product_gflops;
pub use predictor::{CpuPredictor, Memory};
