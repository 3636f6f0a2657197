//! LLaDA-MoE-7B-A1B. Its model type is LLaDA's; only `architectures` tells it apart.

use serde::Deserialize;
use serde_json::Value;

use super::qwen::{self, Defaults, Traits};
use super::{Config, Convention, Family};
use crate::architecture::{Experts, FeedForward, Router, RouterBias, Score};
use crate::weight::Names;
use crate::{Architecture, Result};

pub(super) static FAMILY: Family = Family {
    name: "LLaDA-MoE",
    convention: Convention::Llada,
    architectures: &["LLaDAMoEModelLM", "LLaDAMoEModel"],
    model_types: &["llada_moe"],
    masks: &[(157_184, 156_895)],
    recommended: &[("strategy", "llada"), ("temperature", "0"), ("gen_length", "128")],
    describe,
};

/// config.json, beyond what Qwen's has. `norm_topk_prob` is not read by the official code.
#[derive(Deserialize)]
struct Keys {
    num_hidden_layers: usize,
    num_experts: usize,
    num_experts_per_tok: usize,
    expert_intermediate_size: usize,
    dense_intermediate_size: Option<usize>,
    shared_expert_intermediate_size: Option<usize>,
    /// 0 for layers with a dense network.
    moe_layer_freq: Option<Vec<usize>>,
    moe_router_enable_expert_bias: Option<bool>,
    moe_router_score_function: Option<String>,
    router_num_group: Option<Value>,
    qk_layernorm: Option<bool>,
    /// Where transformers 5 writes `rope_theta`.
    rope_parameters: Option<Value>,
}

/// A key for which its configuration class has no default that makes sense.
#[derive(Deserialize)]
struct Theta {
    rope_theta: f64,
}

fn describe(config: &Config<'_>) -> Result<Architecture> {
    let keys: Keys = config.parse()?;
    let score = keys.moe_router_score_function.as_deref().unwrap_or("softmax");
    let groups = keys.router_num_group.unwrap_or_default();
    config.require(&[
        ("moe_router_score_function", score == "softmax", format!("'{score}'"), "softmax"),
        ("router_num_group", groups.is_null(), groups.to_string(), "null"),
    ])?;
    let biased = keys.moe_router_enable_expert_bias.unwrap_or(false);
    let experts = FeedForward::Experts(Experts {
        count: keys.num_experts,
        active: keys.num_experts_per_tok,
        width: keys.expert_intermediate_size,
        shared: keys.shared_expert_intermediate_size,
        router: Router {
            score: Score::Softmax,
            bias: if biased { RouterBias::Weights } else { RouterBias::None },
            renormalized: false,
            scale: 1.0,
            groups: None,
        },
    });
    let dense = FeedForward::Dense { width: keys.dense_intermediate_size.unwrap_or(0) };
    let frequencies = keys.moe_layer_freq.unwrap_or_else(|| vec![1; keys.num_hidden_layers.min(1 << 12)]);
    if frequencies.len() < keys.num_hidden_layers {
        let expected = format!("it must have one for each of the {} layers", keys.num_hidden_layers);
        return config.wrong("the length of moe_layer_freq", frequencies.len(), expected);
    }
    let is_dense = |layer: usize| frequencies[layer] == 0;
    let layers = config.layers(keys.num_hidden_layers, |layer| if is_dense(layer) { dense } else { experts })?;
    let names = Names { shared: "shared_expert", router_bias: "mlp.expert_bias", ..qwen::NAMES };
    let rope_theta = match keys.rope_parameters.and_then(|parameters| parameters["rope_theta"].as_f64()) {
        Some(theta) => theta,
        None => config.parse::<Theta>()?.rope_theta,
    };
    let defaults = Defaults { rope_theta, rms_norm_eps: 1e-5, ..Defaults::QWEN };
    let traits = Traits { head_norm: keys.qk_layernorm.unwrap_or(false), defaults, names, ..Traits::PLAIN };
    qwen::describe(config, &FAMILY, traits, layers)
}
