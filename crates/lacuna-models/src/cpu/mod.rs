//! The predictor for CPUs.

mod attention;
mod belief;
mod experts;
mod feed_forward;
mod forward;
mod heads;
pub(crate) mod kernel;
mod key_values;
mod kv_store;
mod matrix;
mod measure;
mod predictor;
mod read;
mod refresh;
mod scratch;
mod weights;

pub use belief::fast_belief;
pub use kernel::Isa;
pub use measure::{CpuSpeed, Product, ceiling_gflops, ceiling_of, memory_gbps};
pub use predictor::CpuPredictor;

/// The reason that nothing here computes in fp8.
const NO_FP8: &str = "the CPU has no fp8, so its predictor refuses it";
