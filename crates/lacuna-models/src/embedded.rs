//! The model that is part of the program.

use crate::{Checkpoint, Result};

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../../../models/mini/", $name)))),*]
    };
}

pub(crate) static FILES: &[(&str, &[u8])] = files![
    "config.json",
    "model.safetensors.index.json",
    "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
];

impl Checkpoint {
    /// The model that is part of the program: small, in the architecture of LLaDA, and trained for this.
    pub fn embedded() -> Result<Self> {
        Self::from_static(FILES)
    }
}
