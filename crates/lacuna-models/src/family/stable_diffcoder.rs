//! Stable-DiffCoder-8B: Llama with block-causal attention. Its config.json says `llama` and names neither mask nor block length.

use lacuna::Visibility;

use super::qwen::{self, Traits};
use super::{Config, Convention, Family};
use crate::{Architecture, Result};

/// The block length of the official code.
const BLOCK: usize = 4;

pub(super) static FAMILY: Family = Family {
    name: "Stable-DiffCoder",
    convention: Convention::Llada,
    architectures: &["StableDiffcoderForCausalLM"],
    model_types: &[],
    masks: &[(155_136, 5)],
    recommended: &[("strategy", "stable-diffcoder"), ("temperature", "0"), ("gen_length", "512")],
    describe,
};

fn describe(config: &Config<'_>) -> Result<Architecture> {
    let traits = Traits { visibility: Visibility::Blocks(BLOCK), ..Traits::PLAIN };
    qwen::describe(config, &FAMILY, traits, qwen::dense(config)?)
}
