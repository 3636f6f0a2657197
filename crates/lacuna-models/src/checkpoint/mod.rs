//! Checkpoints in the Hugging Face layout or in GGUF: what is in the files, checked.

mod files;
mod gguf;
mod hub;
mod noise;
mod open;
#[cfg(feature = "text")]
mod quantize;
mod tensors;

pub(crate) use files::Files;
#[cfg(feature = "text")]
pub(crate) use gguf::QWEN2_SPLIT;
pub use open::Checkpoint;
pub(crate) use tensors::{StoredType, Tensor};
