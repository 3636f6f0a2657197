//! Checkpoints of masked diffusion models for [`lacuna`]: loading, text, and the predictors for CPUs and NVIDIA GPUs.
//!
//! A [`Checkpoint`] is a directory in the Hugging Face layout, a GGUF file, or the model that is part of the program. It is read into one
//! description, the [`Architecture`], whatever its family. `Text` is its tokenizer and chat template, a [`Model`] its weights
//! on a device.
//!
//! Features, all of them on by default: `text` (tokenizers, chat templates, constraints, requests and records; without it there are
//! token ids alone), `cuda` (NVIDIA GPUs) and `embedded` (the model that is part of the program).
//!
//! ```
//! use lacuna::View;
//! use lacuna_models::{Checkpoint, Device, load};
//!
//! let checkpoint = Checkpoint::embedded()?;
//! let mut model = load(&checkpoint, None, &Device::Auto)?;
//! let mut tokens = checkpoint.text()?.chat(&[("user", "Hello!")])?;
//! tokens.resize(tokens.len() + 16, model.description().mask);
//! model.observe(&[View { tokens: &tokens, ..View::default() }])?;
//! assert_eq!(model.logits(0)?.len(), tokens.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "a part is for CUDA alone"))]

mod architecture;
#[cfg(feature = "cuda")]
#[doc(hidden)]
pub mod check;
mod checkpoint;
mod checks;
#[cfg(feature = "text")]
mod constraint;
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
#[cfg(feature = "embedded")]
mod embedded;
#[cfg(feature = "text")]
mod encode;
mod error;
mod family;
#[cfg(feature = "text")]
mod info;
mod int4;
mod int8;
#[cfg(feature = "text")]
mod job;
mod json;
mod layout;
mod model;
#[cfg(feature = "text")]
mod moments;
mod precision;
mod prompts;
#[cfg(feature = "text")]
mod record;
#[cfg(feature = "text")]
mod request;
mod rope;
#[cfg(feature = "text")]
mod score;
mod shapes;
#[cfg(feature = "text")]
mod text;
mod threads;
mod weight;
#[cfg(not(feature = "cuda"))]
mod without_cuda;

pub use architecture::{Architecture, Attention, Experts, FeedForward, Groups, Router, RouterBias, Score};
pub use checkpoint::Checkpoint;
#[cfg(feature = "text")]
pub use constraint::EachGap;
pub use cpu::{CpuPredictor, CpuSpeed, Isa, Product, ceiling_gflops, ceiling_of, fast_belief, memory_gbps};
#[cfg(feature = "cuda")]
pub(crate) use cuda::gpu_count;
#[cfg(feature = "cuda")]
pub use cuda::{CudaPredictor, compile_kernels, describe_gpu};
#[cfg(feature = "text")]
pub use encode::{Template, ends_open};
pub use error::{Advice, Error, Result};
pub use family::{Convention, Family};
#[cfg(feature = "text")]
pub use info::ModelInfo;
#[cfg(feature = "text")]
pub use job::Job;
pub use json::plain as plain_json_error;
#[cfg(feature = "text")]
pub use lacuna_constrain::Constraint;
pub use model::{Device, KernelTime, Memory, Model, Profile, describe_devices, load, load_replicas};
#[cfg(feature = "text")]
pub use moments::Moment;
pub use precision::{ActivationFormat, Format, Precision, WeightFormat};
#[cfg(feature = "text")]
pub use record::{Detail, Kind, Record, RunSummary, StepRecord, TopLogprob};
#[cfg(feature = "text")]
pub use request::{Plan, PlanContext, Request, uses_attention};
#[cfg(feature = "text")]
pub use score::{ScoreRecord, ScoreRequest, ScoredToken};
pub use shapes::Shape;
#[cfg(feature = "text")]
pub use text::{Specials, Text};
pub use threads::default_threads;
pub use weight::{forward_bytes, forward_flops};
#[cfg(not(feature = "cuda"))]
pub use without_cuda::describe_gpu;
#[cfg(not(feature = "cuda"))]
pub(crate) use without_cuda::{CudaPredictor, gpu_count};
