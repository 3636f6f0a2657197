//! LLaDA: the configuration of LLaDA-8B-Base, LLaDA-8B-Instruct and LLaDA-1.5, and the names of their tensors.

use lacuna::Token;
use serde::Deserialize;

use crate::architecture::{Ids, Names, require};
use crate::{Architecture, Error, Family, Result};

/// The mask token of the published checkpoints, some of which do not name it.
const MASK: Token = 126_336;

const NAMES: Names = Names {
    embedding: "model.transformer.wte",
    block: "model.transformer.blocks",
    attention_norm: "attn_norm",
    query: "q_proj",
    key: "k_proj",
    value: "v_proj",
    output: "attn_out",
    mlp_norm: "ff_norm",
    gate: "ff_proj",
    up: "up_proj",
    down: "ff_out",
    final_norm: "model.transformer.ln_f",
    head: "model.transformer.ff_out",
};

/// config.json, with the defaults of `configuration_llada.py`.
#[derive(Deserialize)]
struct Config {
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

pub(crate) fn architecture(file: &str, config: &[u8]) -> Result<Architecture> {
    let config: Config =
        serde_json::from_slice(config).map_err(|source| Error::Json { file: file.to_string(), source })?;
    let flag = |key, value: Option<bool>, supported: bool| {
        let value = value.unwrap_or(supported);
        (key, value == supported, value.to_string(), if supported { "true" } else { "false" })
    };
    let word = |key, value: &Option<String>, supported: &'static str| {
        let value = value.as_deref().unwrap_or(supported);
        (key, value == supported, format!("'{value}'"), supported)
    };
    let group = config.block_group_size.unwrap_or(1);
    require(
        file,
        &[
            word("block_type", &config.block_type, "llama"),
            word("layer_norm_type", &config.layer_norm_type, "rms"),
            word("activation_type", &config.activation_type, "silu"),
            flag("rope", config.rope, true),
            flag("alibi", config.alibi, false),
            flag("include_bias", config.include_bias, false),
            flag("bias_for_layer_norm", config.bias_for_layer_norm, false),
            flag("layer_norm_with_affine", config.layer_norm_with_affine, true),
            flag("multi_query_attention", config.multi_query_attention, false),
            flag("attention_layer_norm", config.attention_layer_norm, false),
            flag("scale_logits", config.scale_logits, false),
            flag("input_emb_norm", config.input_emb_norm, false),
            ("block_group_size", group == 1, group.to_string(), "1"),
            ("clip_qkv", config.clip_qkv.is_none(), config.clip_qkv.unwrap_or(0.0).to_string(), "null"),
        ],
    )?;
    Ok(Architecture {
        family: Family::Llada,
        layers: config.n_layers,
        hidden: config.d_model,
        heads: config.n_heads,
        key_value_heads: config.n_kv_heads.unwrap_or(config.n_heads),
        mlp: config.mlp_hidden_size.unwrap_or(config.mlp_ratio.unwrap_or(4).saturating_mul(config.d_model)),
        vocabulary: config.embedding_size.unwrap_or(config.vocab_size),
        context: config.max_sequence_length,
        rope_theta: config.rope_theta.unwrap_or(10_000.0),
        epsilon: config.rms_norm_eps.unwrap_or(1e-5),
        biased: config.include_qkv_bias.unwrap_or(false),
        tied: config.weight_tying.unwrap_or(false),
        shifted: false,
        mask: config.mask_token_id.unwrap_or(MASK),
        end: config.eos_token_id.and_then(|ids| ids.first()),
        names: NAMES,
    })
}
