//! Fast-dLLM v2 1.5B and 7B: Qwen2.5 with block-causal attention.

use lacuna::Visibility;
use serde::Deserialize;

use super::qwen::{self, Traits};
use super::{Config, Convention, Family};
use crate::{Architecture, Result};

pub(super) static FAMILY: Family = Family {
    name: "Fast-dLLM v2",
    convention: Convention::Dream,
    architectures: &["Fast_dLLM_QwenForCausalLM"],
    model_types: &["Fast_dLLM_Qwen"],
    masks: &[(151_936, 151_665), (152_064, 151_665)],
    recommended: &[("strategy", "fast-dllm-v2"), ("temperature", "0")],
    describe,
};

fn describe(config: &Config<'_>) -> Result<Architecture> {
    #[derive(Deserialize)]
    struct Keys {
        bd_size: Option<usize>,
    }
    let Keys { bd_size } = config.parse()?;
    let visibility = Visibility::Blocks(bd_size.unwrap_or(32));
    let traits = Traits { biased: true, shifted: true, visibility, ..Traits::PLAIN };
    qwen::describe(config, &FAMILY, traits, qwen::dense(config)?)
}
