//! Checkpoints of masked diffusion models for [`lacuna`]: loading, text, and the predictors for CPUs and NVIDIA GPUs.
//!
//! A [`Checkpoint`] is a directory in the Hugging Face layout, a GGUF file, or the model that is part of the program. It is read into one
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
#[doc(hidden)]
pub mod check;
mod checkpoint;
mod constraint;
mod cpu;
mod cuda;
mod embedded;
mod encode;
mod error;
mod facts;
mod family;
mod job;
mod layout;
mod model;
mod precision;
mod record;
mod request;
mod rope;
mod shapes;
mod text;
mod threads;
mod weight;

pub use architecture::{Architecture, Attention, Experts, FeedForward, Groups, Router, RouterBias, Score};
pub use checkpoint::Checkpoint;
pub use constraint::EachGap;
pub use cpu::{CpuPredictor, CpuSpeed, Isa, Product, believe, ceiling_gflops, ceiling_of, memory_gbps};
pub use cuda::{CudaPredictor, compile_kernels, describe_gpu};
pub use encode::GAP;
pub use error::{Advice, Error, Result};
pub use facts::Facts;
pub use family::{Convention, Family};
pub use job::Job;
pub use lacuna_constrain::Constraint;
pub use model::{Device, Memory, Model, load};
pub use precision::{ActivationFormat, Format, Precision, WeightFormat};
pub use record::{Detail, Ended, Kind, Record, StepRecord};
pub use request::{Plan, PlanContext, Request, uses_attention};
pub use shapes::Shape;
pub use text::{Specials, Text};
pub use threads::usual_threads;
pub use weight::{forward_bytes, forward_flops};
