//! A GGUF model in the Hugging Face layout: the files that its checkpoint would have, and the names of its tensors.

use serde_json::{Value as Json, json};

use super::header::{Gguf, Stored, Value};
use crate::architecture::FeedForward;
use crate::weight::{Mlp, Role, Weight};
use crate::{Architecture, Error, Result};

/// Pre-tokenisation pattern of Qwen2 (`PRETOKENIZE_REGEX` in `tokenization_qwen2.py`).
pub(crate) const QWEN2_SPLIT: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The type of special tokens.
const CONTROL: i128 = 3;
/// Added by a user, but not special.
const USER_DEFINED: i128 = 4;
/// Only there to fill ids.
const UNUSED: i128 = 5;

impl Gguf {
    /// A file of the Hugging Face layout, if the model has what belongs into it.
    pub(crate) fn file(&self, name: &str) -> Result<Option<Vec<u8>>> {
        Ok(match name {
            "config.json" => Some(self.config()?),
            "tokenizer.json" => self.tokenizer()?,
            "tokenizer_config.json" => Some(self.tokenizer_config()),
            _ => None,
        }
        .map(|json| json.to_string().into_bytes()))
    }

    /// The configuration in the words of the model's family.
    fn config(&self) -> Result<Json> {
        let architecture = self.text("general.architecture").unwrap_or_default();
        let key = |name: &str| format!("{architecture}.{name}");
        let size = |name: &str| self.required(&key(name));
        let optional = |name: &str| self.metadata.get(&key(name)).and_then(Value::integer).map(|value| value as u64);
        let real = |name: &str| self.metadata.get(&key(name)).and_then(Value::number);
        let token = |name: &str| self.metadata.get(&format!("tokenizer.ggml.{name}")).and_then(Value::integer);
        let embedding = self.stored("token_embd.weight")?.shape.first().copied().unwrap_or(0);
        let tied = !self.tensors.contains_key("output.weight");
        let mask = token("mask_token_id").map(|id| id as u64);
        let end = token("eos_token_id").map(|id| id as u64);
        let qwen = |class: &str, kind: &str| -> Result<Json> {
            Ok(json!({
                "architectures": [class], "model_type": kind,
                "hidden_size": size("embedding_length")?, "num_hidden_layers": size("block_count")?,
                "num_attention_heads": size("attention.head_count")?,
                "num_key_value_heads": optional("attention.head_count_kv"),
                "head_dim": optional("attention.key_length"), "intermediate_size": optional("feed_forward_length"),
                "vocab_size": embedding, "max_position_embeddings": size("context_length")?,
                "rope_theta": real("rope.freq_base"), "rms_norm_eps": real("attention.layer_norm_rms_epsilon"),
                "tie_word_embeddings": tied, "mask_token_id": mask, "eos_token_id": end,
            }))
        };
        match architecture {
            "llada" => Ok(json!({
                "architectures": ["LLaDAModelLM"], "model_type": "llada",
                "d_model": size("embedding_length")?, "n_layers": size("block_count")?,
                "n_heads": size("attention.head_count")?, "n_kv_heads": optional("attention.head_count_kv"),
                "mlp_hidden_size": size("feed_forward_length")?, "vocab_size": embedding,
                "max_sequence_length": size("context_length")?, "rope_theta": real("rope.freq_base"),
                "rms_norm_eps": real("attention.layer_norm_rms_epsilon"), "weight_tying": tied,
                "include_qkv_bias": self.tensors.contains_key("blk.0.attn_q.bias"),
                "mask_token_id": mask, "eos_token_id": end,
            })),
            "dream" => qwen("DreamModel", "Dream"),
            "llada-moe" => {
                let mut config = qwen("LLaDAMoEModelLM", "llada")?;
                let has = |name: &str| self.tensors.contains_key(name);
                config["num_experts"] = size("expert_count")?.into();
                config["num_experts_per_tok"] = size("expert_used_count")?.into();
                config["expert_intermediate_size"] = size("expert_feed_forward_length")?.into();
                config["shared_expert_intermediate_size"] = optional("expert_shared_feed_forward_length").into();
                config["qk_layernorm"] = has("blk.0.attn_q_norm.weight").into();
                config["moe_router_enable_expert_bias"] = has("blk.0.exp_probs_b.bias").into();
                Ok(config)
            }
            other => Err(Error::GgufArchitecture { file: self.label.clone(), found: other.to_string() }),
        }
    }

    /// The tokenizer: byte pairs, as all these models have. None if the file has no vocabulary.
    fn tokenizer(&self) -> Result<Option<Json>> {
        let Some(Value::List(tokens)) = self.metadata.get("tokenizer.ggml.tokens") else { return Ok(None) };
        let wrong = |reason: String| Error::Tokenizer { file: self.label.clone(), reason };
        match self.text("tokenizer.ggml.model") {
            Some("gpt2") => {}
            other => {
                let found = other.unwrap_or("of an unknown kind");
                return Err(wrong(format!("its vocabulary is {found}, but lacuna reads gpt2 (byte pairs)")));
            }
        }
        let kinds: Vec<i128> = self.list("tokenizer.ggml.token_type", Value::integer);
        let (mut vocabulary, mut added) = (serde_json::Map::new(), Vec::new());
        for (id, token) in tokens.iter().enumerate() {
            let Value::Text(token) = token else { return Err(wrong(format!("token {id} is not a text"))) };
            let kind = kinds.get(id).copied().unwrap_or(1);
            if kind == CONTROL || kind == USER_DEFINED {
                added.push(json!({
                    "id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
                    "normalized": false, "special": kind == CONTROL,
                }));
            }
            if kind != UNUSED {
                vocabulary.insert(token.clone(), id.into());
            }
        }
        let merges: Vec<String> = self.list("tokenizer.ggml.merges", |value| match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        });
        let pre = self.text("tokenizer.ggml.pre").unwrap_or("default");
        let split = split(pre).ok_or_else(|| wrong(format!("the pre-tokenizer {pre} is not supported")))?;
        let normalizer = if pre == "qwen2" { json!({"type": "NFC"}) } else { Json::Null };
        let cut = |pattern: &str| json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false});
        let steps: Vec<Json> = split.iter().map(|pattern| cut(pattern)).chain([bytes.clone()]).collect();
        Ok(Some(json!({
            "version": "1.0", "added_tokens": added, "normalizer": normalizer,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps}, "post_processor": bytes, "decoder": bytes,
            "model": {"type": "BPE", "vocab": vocabulary, "merges": merges, "ignore_merges": pre == "llama-bpe"},
        })))
    }

    /// The tokenizer_config.json of transformers: the chat template, and the special tokens that templates use.
    fn tokenizer_config(&self) -> Json {
        let written = |name: &str| {
            let id = self.metadata.get(&format!("tokenizer.ggml.{name}_token_id")).and_then(Value::integer)?;
            let Some(Value::List(tokens)) = self.metadata.get("tokenizer.ggml.tokens") else { return None };
            match tokens.get(usize::try_from(id).ok()?) {
                Some(Value::Text(token)) => Some(token.clone()),
                _ => None,
            }
        };
        json!({
            "chat_template": self.text("tokenizer.chat_template"),
            "bos_token": written("bos"), "eos_token": written("eos"), "pad_token": written("padding"),
        })
    }

    /// The tensors of a model under their Hugging Face names, and those that belong to nothing under their own. The last value
    /// is the number of heads whose rows stand in the order of llama.cpp, 0 if they do not.
    pub(crate) fn named(&self, architecture: &Architecture) -> Result<Vec<(String, Stored, usize)>> {
        let mut left: std::collections::BTreeSet<&str> = self.tensors.keys().map(String::as_str).collect();
        // Computed from the configuration.
        left.retain(|name| !name.ends_with("rope_freqs.weight"));
        let mut named = Vec::new();
        let blocks = (0..architecture.layers())
            .flat_map(|layer| architecture.block_weights(layer).map(move |weight| (layer, weight)));
        let tables = [Role::Embedding, Role::FinalNorm].into_iter().chain((!architecture.tied).then_some(Role::Head));
        let tables = tables.map(|role| (0, architecture.weight(role, 0)));
        for (layer, weight) in tables.chain(blocks) {
            let name = name(weight.role, layer);
            left.remove(name.as_str());
            if let Some(stored) = self.tensors.get(&name) {
                let heads = match weight.role {
                    _ if self.text("general.architecture") != Some("llada") => 0,
                    Role::Query | Role::QueryBias => architecture.attention.heads,
                    Role::Key | Role::KeyBias => architecture.attention.key_value_heads,
                    _ => 0,
                };
                named.push((weight.name.clone(), self.part_of(stored, &weight, architecture, layer)?, heads));
            }
        }
        named.extend(left.into_iter().map(|name| (name.to_string(), self.tensors[name].clone(), 0)));
        Ok(named)
    }

    /// The expert's part of a tensor that holds all experts; else the tensor.
    fn part_of(&self, stored: &Stored, weight: &Weight, architecture: &Architecture, layer: usize) -> Result<Stored> {
        let (Role::Gate(Mlp::Expert(expert)) | Role::Up(Mlp::Expert(expert)) | Role::Down(Mlp::Expert(expert))) =
            weight.role
        else {
            return Ok(stored.clone());
        };
        let count = match architecture.feed_forward[layer] {
            FeedForward::Experts(experts) => experts.count,
            FeedForward::Dense { .. } => 0,
        };
        match &stored.shape[..] {
            [experts, rows, columns] if *experts == count => {
                let size = stored.range.len() / count;
                let start = stored.range.start + expert * size;
                Ok(Stored { shape: vec![*rows, *columns], range: start..start + size, ..stored.clone() })
            }
            _ => Err(Error::Shape {
                file: self.parts[stored.part].label.clone(),
                tensor: name(weight.role, layer),
                found: stored.shape.clone(),
                expected: [&[count], &weight.shape[..]].concat(),
            }),
        }
    }

    fn stored(&self, name: &str) -> Result<&Stored> {
        let missing = || Error::MissingTensor { file: self.label.clone(), tensor: name.to_string() };
        self.tensors.get(name).ok_or_else(missing)
    }

    fn text(&self, key: &str) -> Option<&str> {
        match self.metadata.get(key) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    fn list<T>(&self, key: &str, item: impl Fn(&Value) -> Option<T>) -> Vec<T> {
        match self.metadata.get(key) {
            Some(Value::List(values)) => values.iter().filter_map(item).collect(),
            _ => Vec::new(),
        }
    }

    /// A size that the metadata must have.
    fn required(&self, key: &str) -> Result<u64> {
        let value = self.metadata.get(key).and_then(Value::integer).and_then(|value| u64::try_from(value).ok());
        let reason = || format!("its metadata has no whole number {key}");
        value.ok_or_else(|| Error::Damaged { file: self.label.clone(), reason: reason() })
    }
}

impl Value {
    fn number(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(*value),
            Self::Integer(value) => Some(*value as f64),
            _ => None,
        }
    }
}

/// llama.cpp's name of a weight.
fn name(role: Role, layer: usize) -> String {
    let network = |part: &str, mlp: Mlp| match mlp {
        Mlp::Dense => format!("ffn_{part}.weight"),
        Mlp::Shared => format!("ffn_{part}_shexp.weight"),
        Mlp::Expert(_) => format!("ffn_{part}_exps.weight"),
    };
    let part = match role {
        Role::Embedding => return "token_embd.weight".to_string(),
        Role::FinalNorm => return "output_norm.weight".to_string(),
        Role::Head => return "output.weight".to_string(),
        Role::AttentionNorm => "attn_norm.weight".to_string(),
        Role::Query => "attn_q.weight".to_string(),
        Role::Key => "attn_k.weight".to_string(),
        Role::Value => "attn_v.weight".to_string(),
        Role::QueryBias => "attn_q.bias".to_string(),
        Role::KeyBias => "attn_k.bias".to_string(),
        Role::ValueBias => "attn_v.bias".to_string(),
        Role::QueryNorm => "attn_q_norm.weight".to_string(),
        Role::KeyNorm => "attn_k_norm.weight".to_string(),
        Role::Output => "attn_output.weight".to_string(),
        Role::OutputBias => "attn_output.bias".to_string(),
        Role::FeedForwardNorm => "ffn_norm.weight".to_string(),
        Role::Router => "ffn_gate_inp.weight".to_string(),
        Role::RouterBias => "exp_probs_b.bias".to_string(),
        Role::Gate(mlp) => network("gate", mlp),
        Role::Up(mlp) => network("up", mlp),
        Role::Down(mlp) => network("down", mlp),
    };
    format!("blk.{layer}.{part}")
}

/// The patterns by which a tokenizer cuts text before it merges, by the name that llama.cpp gives it.
fn split(pre: &str) -> Option<&'static [&'static str]> {
    const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
    const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    const BAILING: &str =
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+";
    Some(match pre {
        "gpt-2" | "default" => &[GPT2],
        "llama-bpe" | "llama3" | "llama-v3" => &[LLAMA3],
        "qwen2" | "deepseek-r1-qwen" => &[QWEN2_SPLIT],
        "llada-moe" | "bailingmoe" | "bailingmoe2" => &[BAILING],
        "refact" | "starcoder" | "smollm" => &[r"\p{N}", GPT2],
        _ => return None,
    })
}
