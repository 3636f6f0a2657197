//! GGUF, the file format of llama.cpp: metadata and tensors in one file or several.

mod header;
mod quants;
mod translate;

pub(super) use header::{Gguf, Part};
pub(crate) use quants::Quant;
#[cfg(feature = "text")]
pub(crate) use translate::QWEN2_SPLIT;
