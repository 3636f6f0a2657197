//! Checkpoints in the Hugging Face layout: what is in the files, checked.

mod files;
mod noise;
mod open;
mod tensors;

pub(crate) use files::Files;
pub use open::Checkpoint;
pub(crate) use tensors::{Numbers, Tensor};
