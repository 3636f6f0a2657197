//! Dream: Dream-v0-Base-7B, Dream-v0-Instruct-7B, Dream-Coder and DiffuCoder. Qwen2.5 with full attention.

use super::qwen::{self, Traits};
use super::{Config, Convention, Family};
use crate::{Architecture, Result};

pub(super) static FAMILY: Family = Family {
    name: "Dream",
    convention: Convention::Dream,
    architectures: &["DreamModel"],
    model_types: &["Dream"],
    masks: &[(152_064, 151_666)],
    recommended: &[],
    describe,
};

fn describe(config: &Config<'_>) -> Result<Architecture> {
    let traits = Traits { biased: true, shifted: true, ..Traits::PLAIN };
    qwen::describe(config, &FAMILY, traits, qwen::dense(config)?)
}
