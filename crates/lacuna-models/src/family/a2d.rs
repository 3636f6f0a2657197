//! A2D: Qwen3, Qwen2.5 and Llama turned into diffusion models. Attention is full (mdlm), or block-causal where a block length is
//! given (bd3lm); config.json does not tell.

use lacuna::Visibility;

use super::qwen::{self, Traits};
use super::{Config, Convention, Family};
use crate::{Architecture, Result};

pub(super) static QWEN3: Family = Family {
    name: "A2D-Qwen3",
    convention: Convention::Llada,
    architectures: &["A2DQwen3LMHeadModel"],
    model_types: &["a2d-qwen3"],
    masks: &[],
    recommended: RECOMMENDED,
    describe: |config| describe(config, &QWEN3, Traits { head_norm: true, ..TRAITS }),
};

pub(super) static QWEN2: Family = Family {
    name: "A2D-Qwen2",
    convention: Convention::Llada,
    architectures: &["A2DQwen2LMHeadModel"],
    model_types: &["a2d-qwen2"],
    masks: &[],
    recommended: RECOMMENDED,
    describe: |config| describe(config, &QWEN2, Traits { biased: true, ..TRAITS }),
};

pub(super) static LLAMA: Family = Family {
    name: "A2D-Llama",
    convention: Convention::Llada,
    architectures: &["A2DLlamaLMHeadModel"],
    model_types: &["a2d-llama"],
    masks: &[],
    recommended: RECOMMENDED,
    describe: |config| describe(config, &LLAMA, TRAITS),
};

/// A linear schedule.
const RECOMMENDED: &[(&str, &str)] = &[("strategy", "llada"), ("schedule", "linear")];

const TRAITS: Traits = Traits { visibility: Visibility::Either, ..Traits::PLAIN };

fn describe(config: &Config<'_>, family: &'static Family, traits: Traits) -> Result<Architecture> {
    qwen::describe(config, family, traits, qwen::dense(config)?)
}
