//! LLaDA: LLaDA-8B-Base, LLaDA-8B-Instruct, LLaDA-1.5, iLLaDA, and the text part of MMaDA.

use lacuna::{Token, Visibility};
use serde::Deserialize;

use super::{Config, Convention, Family, Ids};
use crate::architecture::{Attention, FeedForward};
use crate::weight::Names;
use crate::{Architecture, Result};

pub(super) static FAMILY: Family = Family {
    name: "LLaDA",
    convention: Convention::Llada,
    architectures: &["LLaDAModelLM", "MMadaModelLM"],
    model_types: &["llada", "mmada"],
    masks: &[(126_464, 126_336), (134_656, 126_336), (155_136, 5)],
    recommended: &[],
    describe,
};

const NAMES: Names = Names {
    embedding: "model.transformer.wte",
    block: "model.transformer.blocks",
    attention_norm: "attn_norm",
    query_key_value: None,
    query: "q_proj",
    key: "k_proj",
    value: "v_proj",
    query_norm: "q_norm",
    key_norm: "k_norm",
    output: "attn_out",
    feed_forward_norm: "ff_norm",
    dense: "",
    shared: "",
    experts: "",
    router: "",
    router_bias: "",
    gate: "ff_proj",
    up: "up_proj",
    down: "ff_out",
    final_norm: "model.transformer.ln_f",
    head: "model.transformer.ff_out",
};

/// config.json, with the defaults of `configuration_llada.py`.
#[derive(Deserialize)]
struct Keys {
    d_model: usize,
    n_heads: usize,
    n_kv_heads: Option<usize>,
    n_layers: usize,
    mlp_hidden_size: Option<usize>,
    mlp_ratio: Option<usize>,
    vocab_size: usize,
    embedding_size: Option<usize>,
    max_sequence_length: usize,
    rope_theta: Option<f64>,
    rms_norm_eps: Option<f64>,
    weight_tying: Option<bool>,
    mask_token_id: Option<Token>,
    eos_token_id: Option<Ids>,
    include_qkv_bias: Option<bool>,
    include_bias: Option<bool>,
    bias_for_layer_norm: Option<bool>,
    rope: Option<bool>,
    alibi: Option<bool>,
    multi_query_attention: Option<bool>,
    attention_layer_norm: Option<bool>,
    scale_logits: Option<bool>,
    input_emb_norm: Option<bool>,
    layer_norm_with_affine: Option<bool>,
    block_group_size: Option<usize>,
    layer_norm_type: Option<String>,
    activation_type: Option<String>,
    block_type: Option<String>,
    clip_qkv: Option<f64>,
}

fn describe(config: &Config<'_>) -> Result<Architecture> {
    let keys: Keys = config.parse()?;
    let flag = |key, value: Option<bool>, supported: bool| {
        let value = value.unwrap_or(supported);
        (key, value == supported, value.to_string(), if supported { "true" } else { "false" })
    };
    let word = |key, value: &Option<String>, supported: &'static str| {
        let value = value.as_deref().unwrap_or(supported);
        (key, value == supported, format!("'{value}'"), supported)
    };
    let group = keys.block_group_size.unwrap_or(1);
    config.require(&[
        word("block_type", &keys.block_type, "llama"),
        word("layer_norm_type", &keys.layer_norm_type, "rms"),
        word("activation_type", &keys.activation_type, "silu"),
        flag("rope", keys.rope, true),
        flag("alibi", keys.alibi, false),
        flag("include_bias", keys.include_bias, false),
        flag("bias_for_layer_norm", keys.bias_for_layer_norm, false),
        flag("layer_norm_with_affine", keys.layer_norm_with_affine, true),
        flag("multi_query_attention", keys.multi_query_attention, false),
        flag("attention_layer_norm", keys.attention_layer_norm, false),
        flag("scale_logits", keys.scale_logits, false),
        flag("input_emb_norm", keys.input_emb_norm, false),
        ("block_group_size", group == 1, group.to_string(), "1"),
        ("clip_qkv", keys.clip_qkv.is_none(), keys.clip_qkv.unwrap_or(0.0).to_string(), "null"),
    ])?;
    let vocabulary = keys.embedding_size.unwrap_or(keys.vocab_size);
    if vocabulary > 0 && !(1..=vocabulary).contains(&keys.vocab_size) {
        let expected = format!("it must be at least 1 and at most embedding_size, {vocabulary}");
        return config.wrong("vocab_size", keys.vocab_size, expected);
    }
    let head_size = config.head_size(keys.d_model, keys.n_heads)?;
    let width = keys.mlp_hidden_size.unwrap_or(keys.mlp_ratio.unwrap_or(4).saturating_mul(keys.d_model));
    Ok(Architecture {
        family: &FAMILY,
        hidden: keys.d_model,
        vocabulary,
        context: keys.max_sequence_length,
        epsilon: keys.rms_norm_eps.unwrap_or(1e-5),
        attention: Attention {
            heads: keys.n_heads,
            key_value_heads: keys.n_kv_heads.unwrap_or(keys.n_heads),
            head_size,
            rotary: head_size,
            rope_theta: keys.rope_theta.unwrap_or(10_000.0),
            biased: keys.include_qkv_bias.unwrap_or(false),
            output_biased: false,
            head_norm: false,
            visibility: Visibility::Full,
        },
        feed_forward: config.layers(keys.n_layers, |_| FeedForward::Dense { width })?,
        tied: keys.weight_tying.unwrap_or(false),
        shifted: false,
        mask: keys.mask_token_id,
        end: keys.eos_token_id.and_then(|ids| ids.first()),
        names: NAMES,
    })
}
