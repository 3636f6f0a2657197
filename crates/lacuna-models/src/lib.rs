//! LLaDA and Dream checkpoints for [`lacuna`]: loading, text, and the predictors for CPUs and NVIDIA GPUs.
//!
//! A [`Checkpoint`] is a directory in the Hugging Face layout, or the model that is part of the program. It is read into one
//! description, the [`Architecture`], whatever its family. [`Text`] is its tokenizer and chat template, a [`Model`] its weights
//! on a device.
//!
//! ```
//! use lacuna::View;
//! use lacuna_models::{Checkpoint, Device, load};
//!
//! let checkpoint = Checkpoint::embedded()?;
//! let mut model = load(&checkpoint, None, Device::Auto)?;
//! let mut tokens = checkpoint.text()?.chat(&[("user", "Hello!")])?;
//! tokens.resize(tokens.len() + 16, model.description().mask);
//! model.observe(&[View { tokens: &tokens, ..View::default() }])?;
//! assert_eq!(model.logits(0)?.len(), tokens.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod architecture;
mod ask;
mod checkpoint;
mod cpu;
mod cuda;
mod dream;
mod embedded;
mod encode;
mod error;
mod facts;
mod job;
mod layers;
mod layout;
mod llada;
mod model;
mod precision;
mod record;
mod request;
mod rope;
mod shapes;
mod text;

pub use architecture::{Architecture, Family};
pub use checkpoint::{Checkpoint, Recommended};
pub use cpu::{Bound, CpuPredictor, Isa, Product, believe, ceiling_gflops, ceiling_of, forward_flops, memory_gbps};
pub use cuda::{CudaPredictor, compile_kernels, describe_gpu};
pub use encode::GAP;
pub use error::{Error, Result};
pub use facts::Facts;
pub use job::Job;
pub use layers::Layers;
pub use model::{Device, Memory, Model, load};
pub use precision::Precision;
pub use record::{Detail, Ended, Kind, Record, StepRecord};
pub use request::{Basis, Plan, Request};
pub use shapes::Shape;
pub use text::{Specials, Text};
