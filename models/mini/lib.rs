//! The small masked diffusion model that lacuna carries.
//!
//! This folder is the checkpoint, in the Hugging Face layout, and a crate that makes it part of a program. The registry's size limit is
//! why its second half comes from a crate of its own.

/// Names and contents of the checkpoint's files.
pub static FILES: &[(&str, &[u8])] = &[
    ("config.json", include_bytes!("config.json")),
    ("model.safetensors.index.json", include_bytes!("model.safetensors.index.json")),
    ("model-00001-of-00002.safetensors", include_bytes!("model-00001-of-00002.safetensors")),
    ("model-00002-of-00002.safetensors", lacuna_mini_weights::SECOND),
    ("tokenizer.json", include_bytes!("tokenizer.json")),
    ("tokenizer_config.json", include_bytes!("tokenizer_config.json")),
];

/// Arithmetic word problems that it was not trained on, one JSON object a line.
pub static WORDS: &str = include_str!("words.jsonl");

/// Small Python functions that it was not trained on, one JSON object a line.
pub static CODE: &str = include_str!("code.jsonl");
