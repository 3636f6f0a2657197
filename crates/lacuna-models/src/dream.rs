//! Dream: the configuration of Dream-v0-Base-7B and Dream-v0-Instruct-7B, and the names of their tensors.

use lacuna::Token;
use serde::Deserialize;

use crate::architecture::{Ids, Names, require};
use crate::{Architecture, Error, Family, Result};

/// The mask token of the published checkpoints.
const MASK: Token = 151_666;

const NAMES: Names = Names {
    embedding: "model.embed_tokens",
    block: "model.layers",
    attention_norm: "input_layernorm",
    query: "self_attn.q_proj",
    key: "self_attn.k_proj",
    value: "self_attn.v_proj",
    output: "self_attn.o_proj",
    mlp_norm: "post_attention_layernorm",
    gate: "mlp.gate_proj",
    up: "mlp.up_proj",
    down: "mlp.down_proj",
    final_norm: "model.norm",
    head: "lm_head",
};

/// config.json, with the defaults of `configuration_dream.py`.
#[derive(Deserialize)]
struct Config {
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    intermediate_size: usize,
    vocab_size: usize,
    max_position_embeddings: Option<usize>,
    rope_theta: Option<f64>,
    rms_norm_eps: Option<f64>,
    tie_word_embeddings: Option<bool>,
    mask_token_id: Option<Token>,
    eos_token_id: Option<Ids>,
    hidden_act: Option<String>,
    rope_scaling: Option<serde_json::Value>,
    use_sliding_window: Option<bool>,
    use_mrope: Option<bool>,
}

pub(crate) fn architecture(file: &str, config: &[u8]) -> Result<Architecture> {
    let config: Config =
        serde_json::from_slice(config).map_err(|source| Error::Json { file: file.to_string(), source })?;
    let activation = config.hidden_act.as_deref().unwrap_or("silu");
    let scaling = config.rope_scaling.unwrap_or_default();
    let (window, mrope) = (config.use_sliding_window.unwrap_or(false), config.use_mrope.unwrap_or(false));
    require(
        file,
        &[
            ("hidden_act", activation == "silu", format!("'{activation}'"), "silu"),
            ("rope_scaling", scaling.is_null(), scaling.to_string(), "null"),
            ("use_sliding_window", !window, window.to_string(), "false"),
            ("use_mrope", !mrope, mrope.to_string(), "false"),
        ],
    )?;
    Ok(Architecture {
        family: Family::Dream,
        layers: config.num_hidden_layers,
        hidden: config.hidden_size,
        heads: config.num_attention_heads,
        key_value_heads: config.num_key_value_heads.unwrap_or(config.num_attention_heads),
        mlp: config.intermediate_size,
        vocabulary: config.vocab_size,
        context: config.max_position_embeddings.unwrap_or(32_768),
        rope_theta: config.rope_theta.unwrap_or(10_000.0),
        epsilon: config.rms_norm_eps.unwrap_or(1e-6),
        biased: true,
        tied: config.tie_word_embeddings.unwrap_or(false),
        shifted: true,
        mask: config.mask_token_id.unwrap_or(MASK),
        end: config.eos_token_id.and_then(|ids| ids.first()),
        names: NAMES,
    })
}
