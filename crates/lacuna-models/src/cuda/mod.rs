//! The predictor for NVIDIA GPUs, file by file the mirror of the one for CPUs.
//!
//! The driver, cublasLt and nvrtc are opened at run time: nothing of CUDA is needed to build, nor to run without a GPU.

mod ask;
mod attention;
mod believe;
mod buffer;
mod compile;
mod event;
mod foreseen;
mod forward;
mod fp8;
mod gpu;
mod kept;
mod kernel;
mod matrix;
mod measure;
mod plan;
mod predictor;
mod product;
mod projection;
mod read;
mod remember;
mod rope;
mod scores;
mod staging;
mod weights;

pub use compile::compile_kernels;
pub use gpu::describe_gpu;
pub use predictor::CudaPredictor;
