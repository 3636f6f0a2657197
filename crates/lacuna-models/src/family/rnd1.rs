//! RND1-30B-A3B: Qwen3-MoE with full attention.

use serde::Deserialize;

use super::qwen::{self, Defaults, Traits};
use super::{Config, Convention, Family};
use crate::{Architecture, Result};

pub(super) static FAMILY: Family = Family {
    name: "RND1",
    convention: Convention::Dream,
    architectures: &["RND1LM"],
    model_types: &["rnd1"],
    masks: &[(151_936, 151_669)],
    recommended: &[("strategy", "rnd1"), ("temperature", "0.01"), ("gen_length", "256")],
    describe,
};

fn describe(config: &Config<'_>) -> Result<Architecture> {
    #[derive(Deserialize)]
    struct Keys {
        is_causal: Option<bool>,
    }
    let Keys { is_causal } = config.parse()?;
    config.require(&[("is_causal", !is_causal.unwrap_or(false), "true".to_string(), "false")])?;
    let defaults = Defaults { rope_theta: 1e6, ..Defaults::QWEN };
    let traits = Traits { head_norm: true, shifted: true, defaults, ..Traits::PLAIN };
    qwen::describe(config, &FAMILY, traits, qwen::experts(config, true)?)
}
