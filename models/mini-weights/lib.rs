//! The upper half of lacuna's small model, for `lacuna-mini`.

/// The second of its two safetensors files.
pub static SECOND: &[u8] = include_bytes!("model-00002-of-00002.safetensors");
