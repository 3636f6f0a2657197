//! The predictor for NVIDIA GPUs.
//!
//! The driver, cublasLt and nvrtc are opened at run time: nothing of CUDA is needed to build, nor to run without a GPU.

mod activations;
mod attention;
mod block;
mod buffer;
pub(crate) mod check;
mod compile;
mod event;
mod forward;
mod fp8;
mod gpu;
mod graphs;
mod inputs;
mod kernel;
mod kv_store;
mod matrix;
mod measure;
mod predictor;
mod product;
mod read;
mod rope;
mod staging;
mod weights;

pub use compile::compile_kernels;
pub use gpu::describe_gpu;
pub use predictor::CudaPredictor;
