//! LLaDA and Dream checkpoints for [`lacuna`]: loading, text, and the CPU predictor.
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
//! model.observe(&[View { run: 0, tokens: &tokens, attention: &[], shadows: &[] }])?;
//! assert_eq!(model.logits(0)?.len(), tokens.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod architecture;
mod checkpoint;
mod cpu;
mod dream;
mod embedded;
mod error;
mod llada;
mod model;
mod request;
mod shapes;
mod text;

pub use architecture::{Architecture, Family};
pub use checkpoint::{Checkpoint, Recommended};
pub use cpu::{CpuPredictor, Memory, Precision, Product, ceiling_gflops, forward_flops};
pub use error::{Error, Result};
pub use model::{Device, Model, load};
pub use request::{Layers, Plan, Request};
pub use shapes::Shape;
pub use text::{Specials, Text};
