//! LLaDA2.0-mini, LLaDA2.0-flash and LLaDA2.1: experts in groups, block-causal attention, a partial rotary embedding.

use lacuna::Visibility;
use serde::Deserialize;

use super::qwen::{self, Defaults, Traits};
use super::{Config, Convention, Family};
use crate::architecture::{Experts, FeedForward, Groups, Router, RouterBias, Score};
use crate::weight::Names;
use crate::{Architecture, Error, Result};

/// The block length of the official code.
const BLOCK: usize = 32;

pub(super) static FAMILY: Family = Family {
    name: "LLaDA2",
    convention: Convention::Dream,
    architectures: &["LLaDA2MoeModelLM"],
    model_types: &["llada2_moe"],
    masks: &[(157_184, 156_895)],
    recommended: &[("strategy", "llada2"), ("temperature", "0"), ("gen_length", "512")],
    describe,
};

/// Beyond Qwen's: queries, keys and values are one tensor.
const NAMES: Names = Names {
    embedding: "model.word_embeddings",
    query_key_value: Some("attention.query_key_value"),
    query_norm: "attention.query_layernorm",
    key_norm: "attention.key_layernorm",
    output: "attention.dense",
    ..qwen::NAMES
};

/// config.json, beyond what Qwen's has. `norm_topk_prob` and `score_function` are not read by the official code.
#[derive(Deserialize)]
struct Keys {
    num_hidden_layers: usize,
    intermediate_size: usize,
    first_k_dense_replace: Option<usize>,
    num_experts: usize,
    num_experts_per_tok: usize,
    moe_intermediate_size: usize,
    num_shared_experts: Option<usize>,
    moe_router_enable_expert_bias: Option<bool>,
    routed_scaling_factor: Option<f32>,
    n_group: Option<usize>,
    topk_group: Option<usize>,
    block_size: Option<usize>,
    use_qkv_bias: Option<bool>,
    use_bias: Option<bool>,
    expert_capacity: Option<usize>,
}

fn describe(config: &Config<'_>) -> Result<Architecture> {
    let keys: Keys = config.parse()?;
    if keys.expert_capacity.is_some() {
        let (file, missing) = (config.file.to_string(), "inserting and deleting tokens");
        return Err(Error::RefusedModel { file, family: "LLaDA2.2", missing });
    }
    let flag = |key, value: Option<bool>| (key, !value.unwrap_or(false), "true".to_string(), "false");
    config.require(&[flag("use_qkv_bias", keys.use_qkv_bias), flag("use_bias", keys.use_bias)])?;
    let biased = keys.moe_router_enable_expert_bias.unwrap_or(true);
    let shared = keys.num_shared_experts.filter(|&count| count > 0);
    let experts = FeedForward::Experts(Experts {
        count: keys.num_experts,
        active: keys.num_experts_per_tok,
        width: keys.moe_intermediate_size,
        shared: shared.map(|count| count.saturating_mul(keys.moe_intermediate_size)),
        router: Router {
            score: Score::Sigmoid,
            bias: if biased { RouterBias::Choice } else { RouterBias::None },
            // The weight of a single expert stays as it is.
            renormalized: keys.num_experts_per_tok > 1,
            scale: keys.routed_scaling_factor.unwrap_or(2.5),
            groups: Some(Groups { count: keys.n_group.unwrap_or(8), kept: keys.topk_group.unwrap_or(4) }),
        },
    });
    let (first, dense) =
        (keys.first_k_dense_replace.unwrap_or(0), FeedForward::Dense { width: keys.intermediate_size });
    let layers = config.layers(keys.num_hidden_layers, |layer| if layer < first { dense } else { experts })?;
    let visibility = Visibility::Blocks(keys.block_size.unwrap_or(BLOCK));
    let defaults = Defaults { rms_norm_eps: 1e-5, partial_rotary_factor: 0.5, ..Defaults::QWEN };
    let traits = Traits { head_norm: true, visibility, defaults, names: NAMES, ..Traits::PLAIN };
    qwen::describe(config, &FAMILY, traits, layers)
}
