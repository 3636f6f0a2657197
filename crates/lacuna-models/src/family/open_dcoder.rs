//! Open-dCoder-0.5B: Dream's architecture under the name of Qwen2. Nothing in its config.json says diffusion or names the mask.

use super::qwen::{self, Traits};
use super::{Config, Convention, Family};
use crate::{Architecture, Result};

pub(super) static FAMILY: Family = Family {
    name: "Open-dCoder",
    convention: Convention::Dream,
    architectures: &["Qwen2ForCausalLM"],
    model_types: &["qwen2"],
    masks: &[],
    recommended: &[("strategy", "p2"), ("temperature", "0.5"), ("top_k", "200"), ("gen_length", "128")],
    describe,
};

fn describe(config: &Config<'_>) -> Result<Architecture> {
    let traits = Traits { biased: true, shifted: true, ..Traits::PLAIN };
    qwen::describe(config, &FAMILY, traits, qwen::dense(config)?)
}
