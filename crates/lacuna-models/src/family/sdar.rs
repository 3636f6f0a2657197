//! SDAR 1.7B, 4B and 8B, and TraDo: Qwen3 with block-causal attention.

use lacuna::Visibility;
use serde::Deserialize;

use super::qwen::{self, Traits};
use super::{Config, Convention, Family};
use crate::{Architecture, Result};

pub(super) static FAMILY: Family = Family {
    name: "SDAR",
    convention: Convention::Dream,
    architectures: &["SDARForCausalLM"],
    model_types: &["sdar"],
    masks: &[(151_936, 151_669)],
    recommended: &[("strategy", "sdar"), ("temperature", "1")],
    describe,
};

/// SDAR-30B-A3B: the same with Qwen3-MoE's experts.
pub(super) static EXPERTS: Family = Family {
    name: "SDAR-MoE",
    convention: Convention::Dream,
    architectures: &["SDARMoeForCausalLM"],
    model_types: &["sdar_moe"],
    masks: &[(151_936, 151_669)],
    recommended: &[("strategy", "sdar"), ("temperature", "1")],
    describe: |config| qwen::describe(config, &EXPERTS, traits(config)?, qwen::experts(config, false)?),
};

fn describe(config: &Config<'_>) -> Result<Architecture> {
    qwen::describe(config, &FAMILY, traits(config)?, qwen::dense(config)?)
}

fn traits(config: &Config<'_>) -> Result<Traits> {
    #[derive(Deserialize)]
    struct Keys {
        block_size: Option<usize>,
    }
    let Keys { block_size } = config.parse()?;
    Ok(Traits { head_norm: true, visibility: Visibility::Blocks(block_size.unwrap_or(4)), ..Traits::PLAIN })
}
