//! Configurations and tensor names in the style of Qwen and Llama, which most families share.

use lacuna::{Token, Visibility};
use serde::Deserialize;
use serde_json::Value;

use super::{Config, Family, Ids};
use crate::architecture::{Attention, Experts, FeedForward, Router, RouterBias, Score};
use crate::weight::Names;
use crate::{Architecture, Result};

pub(super) const NAMES: Names = Names {
    embedding: "model.embed_tokens",
    block: "model.layers",
    attention_norm: "input_layernorm",
    query_key_value: None,
    query: "self_attn.q_proj",
    key: "self_attn.k_proj",
    value: "self_attn.v_proj",
    query_norm: "self_attn.q_norm",
    key_norm: "self_attn.k_norm",
    output: "self_attn.o_proj",
    feed_forward_norm: "post_attention_layernorm",
    dense: "mlp.",
    shared: "mlp.shared_experts",
    experts: "mlp.experts",
    router: "mlp.gate",
    router_bias: "mlp.gate.expert_bias",
    gate: "gate_proj",
    up: "up_proj",
    down: "down_proj",
    final_norm: "model.norm",
    head: "lm_head",
};

/// Constants that config.json does not name.
pub(super) struct Traits {
    /// Queries, keys and values have a bias, as in Qwen2. Otherwise `attention_bias` tells, for the output too.
    pub(super) biased: bool,
    /// Query and key heads are normalised, as in Qwen3.
    pub(super) head_norm: bool,
    pub(super) shifted: bool,
    pub(super) visibility: Visibility,
    /// What its configuration class takes where config.json is silent.
    pub(super) defaults: Defaults,
    pub(super) names: Names,
}

/// Values of keys that config.json leaves out.
pub(super) struct Defaults {
    pub(super) rope_theta: f64,
    pub(super) rms_norm_eps: f64,
    pub(super) partial_rotary_factor: f64,
}

impl Defaults {
    /// Those of Qwen2, Qwen3 and Llama.
    pub(super) const QWEN: Self = Self { rope_theta: 10_000.0, rms_norm_eps: 1e-6, partial_rotary_factor: 1.0 };
}

impl Traits {
    /// No biases, no norms of heads, no shift, full attention.
    pub(super) const PLAIN: Self = Self {
        biased: false,
        head_norm: false,
        shifted: false,
        visibility: Visibility::Full,
        defaults: Defaults::QWEN,
        names: NAMES,
    };
}

/// config.json, as far as these families share it.
#[derive(Deserialize)]
struct Keys {
    hidden_size: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    vocab_size: usize,
    max_position_embeddings: Option<usize>,
    rope_theta: Option<f64>,
    partial_rotary_factor: Option<f64>,
    rms_norm_eps: Option<f64>,
    tie_word_embeddings: Option<bool>,
    attention_bias: Option<bool>,
    mlp_bias: Option<bool>,
    mask_token_id: Option<Token>,
    eos_token_id: Option<Ids>,
    hidden_act: Option<String>,
    rope_scaling: Option<Value>,
    /// Where transformers 5 writes what `rope_theta` and `rope_scaling` said before.
    rope_parameters: Option<Value>,
    use_sliding_window: Option<bool>,
    use_mrope: Option<bool>,
    clip_qkv: Option<f64>,
}

/// The description of a model with these feed-forward networks.
pub(super) fn describe(
    config: &Config<'_>,
    family: &'static Family,
    traits: Traits,
    feed_forward: Vec<FeedForward>,
) -> Result<Architecture> {
    let keys: Keys = config.parse()?;
    let activation = keys.hidden_act.as_deref().unwrap_or("silu");
    let flag = |key, value: Option<bool>| (key, !value.unwrap_or(false), "true".to_string(), "false");
    let none = |key, value: Option<Value>| {
        let value = value.filter(|value| *value != Value::Bool(false)).unwrap_or_default();
        (key, value.is_null() || is_plain(&value), value.to_string(), "null")
    };
    let rope = |key: &str| keys.rope_parameters.as_ref().and_then(|parameters| parameters[key].as_f64());
    let rope_theta = keys.rope_theta.or(rope("rope_theta")).unwrap_or(traits.defaults.rope_theta);
    let rotary = keys.partial_rotary_factor.or(rope("partial_rotary_factor"));
    let rotary = rotary.unwrap_or(traits.defaults.partial_rotary_factor);
    config.require(&[
        ("hidden_act", activation == "silu", format!("'{activation}'"), "silu"),
        none("rope_scaling", keys.rope_scaling),
        none("rope_parameters", keys.rope_parameters),
        none("clip_qkv", keys.clip_qkv.map(Value::from)),
        flag("use_sliding_window", keys.use_sliding_window),
        flag("use_mrope", keys.use_mrope),
        flag("mlp_bias", keys.mlp_bias),
    ])?;
    let heads = keys.num_attention_heads;
    let head_size = keys.head_dim.map_or_else(|| config.head_size(keys.hidden_size, heads), Ok)?;
    let output_biased = !traits.biased && keys.attention_bias.unwrap_or(false);
    Ok(Architecture {
        family,
        hidden: keys.hidden_size,
        vocabulary: keys.vocab_size,
        context: keys.max_position_embeddings.unwrap_or(32_768),
        epsilon: keys.rms_norm_eps.unwrap_or(traits.defaults.rms_norm_eps),
        attention: Attention {
            heads,
            key_value_heads: keys.num_key_value_heads.unwrap_or(heads),
            head_size,
            rotary: (head_size as f64 * rotary) as usize,
            rope_theta,
            biased: traits.biased || output_biased,
            output_biased,
            head_norm: traits.head_norm,
            visibility: traits.visibility,
        },
        feed_forward,
        tied: keys.tie_word_embeddings.unwrap_or(false),
        shifted: traits.shifted,
        mask: keys.mask_token_id,
        end: keys.eos_token_id.and_then(|ids| ids.first()),
        names: traits.names,
    })
}

/// True if these settings of the rotary embedding do not scale it: `rope_type` is `default`, and only sizes are set.
fn is_plain(settings: &Value) -> bool {
    let plain = |(key, value): (&String, &Value)| match key.as_str() {
        "rope_type" | "type" => value == "default",
        "rope_theta" | "partial_rotary_factor" => value.is_number(),
        _ => false,
    };
    settings.as_object().is_some_and(|settings| !settings.is_empty() && settings.iter().all(plain))
}

/// The same dense network in every layer.
pub(super) fn dense(config: &Config<'_>) -> Result<Vec<FeedForward>> {
    #[derive(Deserialize)]
    struct Keys {
        num_hidden_layers: usize,
        intermediate_size: usize,
    }
    let Keys { num_hidden_layers, intermediate_size: width } = config.parse()?;
    config.layers(num_hidden_layers, |_| FeedForward::Dense { width })
}

/// Qwen3-MoE's experts: softmax over all of them, no shared one. `renormalized` is what holds where config.json does not tell.
pub(super) fn experts(config: &Config<'_>, renormalized: bool) -> Result<Vec<FeedForward>> {
    #[derive(Deserialize)]
    struct Keys {
        num_hidden_layers: usize,
        intermediate_size: usize,
        num_experts: usize,
        num_experts_per_tok: usize,
        moe_intermediate_size: usize,
        norm_topk_prob: Option<bool>,
        decoder_sparse_step: Option<usize>,
        mlp_only_layers: Option<Vec<usize>>,
    }
    let keys: Keys = config.parse()?;
    let experts = FeedForward::Experts(Experts {
        count: keys.num_experts,
        active: keys.num_experts_per_tok,
        width: keys.moe_intermediate_size,
        shared: None,
        router: Router {
            score: Score::Softmax,
            bias: RouterBias::None,
            renormalized: keys.norm_topk_prob.unwrap_or(renormalized),
            scale: 1.0,
            groups: None,
        },
    });
    let (step, dense) = (keys.decoder_sparse_step.unwrap_or(1).max(1), keys.mlp_only_layers.unwrap_or_default());
    config.layers(keys.num_hidden_layers, |layer| {
        let sparse = !dense.contains(&layer) && (layer + 1).is_multiple_of(step);
        if sparse { experts } else { FeedForward::Dense { width: keys.intermediate_size } }
    })
}
