//! Sizes that models come in, for measuring without their weights.

/// A named shape; [`Checkpoint::random`](crate::Checkpoint::random) makes a model of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The embedded model's.
    Mini,
    /// 31 million parameters.
    Small,
    /// 841 million parameters, with LLaDA's vocabulary.
    Medium,
    /// LLaDA-8B's.
    Llada8b,
    /// Dream-7B's.
    Dream7b,
    /// SDAR-8B's: block-causal attention, normalised heads.
    Sdar8b,
    /// LLaDA-MoE-7B-A1B's: 64 experts, 8 for each token.
    LladaMoe,
    /// LLaDA-MoE's with a dense network in place of the experts, as wide as the 8 active ones: what mixing them costs.
    LladaMoeDense,
    /// LLaDA2.0-mini's: 256 experts in groups, block-causal attention.
    Llada2Mini,
}

impl Shape {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Mini,
        Self::Small,
        Self::Medium,
        Self::Llada8b,
        Self::Dream7b,
        Self::Sdar8b,
        Self::LladaMoe,
        Self::LladaMoeDense,
        Self::Llada2Mini,
    ];

    /// Name of the shape.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mini => "mini",
            Self::Small => "small",
            Self::Medium => "medium",
            Self::Llada8b => "llada-8b",
            Self::Dream7b => "dream-7b",
            Self::Sdar8b => "sdar-8b",
            Self::LladaMoe => "llada-moe",
            Self::LladaMoeDense => "llada-moe-dense",
            Self::Llada2Mini => "llada2-mini",
        }
    }

    /// The shape of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|shape| shape.name() == name)
    }

    /// The files of a checkpoint of this shape, without weights and tokenizer.
    pub(crate) fn files(self) -> &'static [(&'static str, &'static [u8])] {
        match self {
            Self::Mini => &[(CONFIG, MINI)],
            Self::Small => &[(CONFIG, SMALL)],
            Self::Medium => &[(CONFIG, MEDIUM)],
            Self::Llada8b => &[(CONFIG, LLADA_8B)],
            Self::Dream7b => &[(CONFIG, DREAM_7B)],
            Self::Sdar8b => &[(CONFIG, SDAR_8B)],
            Self::LladaMoe => &[(CONFIG, LLADA_MOE)],
            Self::LladaMoeDense => &[(CONFIG, LLADA_MOE_DENSE)],
            Self::Llada2Mini => &[(CONFIG, LLADA2_MINI)],
        }
    }
}

const CONFIG: &str = "config.json";

const MINI: &[u8] = br#"{"model_type": "llada", "d_model": 320, "n_layers": 8, "n_heads": 5, "mlp_hidden_size": 896,
    "vocab_size": 2048, "max_sequence_length": 1024, "rope_theta": 500000, "mask_token_id": 5, "eos_token_id": 1,
    "lacuna": {"strategy": "dos+eb", "layer": 0, "gamma": 0.01, "gen_length": 128}}"#;

const SMALL: &[u8] = br#"{"model_type": "llada", "d_model": 512, "n_layers": 8, "n_heads": 8, "mlp_hidden_size": 1536,
    "vocab_size": 4096, "max_sequence_length": 16384, "rope_theta": 500000, "mask_token_id": 4095}"#;

const MEDIUM: &[u8] =
    br#"{"model_type": "llada", "d_model": 1536, "n_layers": 16, "n_heads": 12, "mlp_hidden_size": 4096,
    "vocab_size": 126464, "max_sequence_length": 16384, "rope_theta": 500000, "mask_token_id": 126336}"#;

const LLADA_8B: &[u8] =
    br#"{"model_type": "llada", "d_model": 4096, "n_layers": 32, "n_heads": 32, "mlp_hidden_size": 12288,
    "vocab_size": 126464, "max_sequence_length": 4096, "rope_theta": 500000, "mask_token_id": 126336}"#;

const DREAM_7B: &[u8] =
    br#"{"model_type": "Dream", "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28,
    "num_key_value_heads": 4, "intermediate_size": 18944, "vocab_size": 152064, "max_position_embeddings": 131072,
    "rope_theta": 1000000, "mask_token_id": 151666}"#;

const SDAR_8B: &[u8] =
    br#"{"architectures": ["SDARForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288, "vocab_size": 151936,
    "max_position_embeddings": 32768, "rope_theta": 1000000, "block_size": 4}"#;

const LLADA_MOE: &[u8] =
    br#"{"architectures": ["LLaDAMoEModelLM"], "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 16,
    "num_key_value_heads": 16, "num_experts": 64, "num_experts_per_tok": 8, "expert_intermediate_size": 1024,
    "qk_layernorm": true, "vocab_size": 157184, "max_position_embeddings": 8192, "rope_theta": 50000,
    "rms_norm_eps": 1e-5}"#;

const LLADA_MOE_DENSE: &[u8] =
    br#"{"architectures": ["LLaDAMoEModelLM"], "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 16,
    "num_key_value_heads": 16, "num_experts": 64, "num_experts_per_tok": 8, "expert_intermediate_size": 1024,
    "dense_intermediate_size": 8192, "moe_layer_freq": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    "qk_layernorm": true, "vocab_size": 157184, "max_position_embeddings": 8192, "rope_theta": 50000,
    "rms_norm_eps": 1e-5}"#;

const LLADA2_MINI: &[u8] =
    br#"{"architectures": ["LLaDA2MoeModelLM"], "hidden_size": 2048, "num_hidden_layers": 20, "num_attention_heads": 16,
    "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 5120, "first_k_dense_replace": 1,
    "num_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 512, "num_shared_experts": 1, "n_group": 8,
    "topk_group": 4, "routed_scaling_factor": 2.5, "partial_rotary_factor": 0.5, "vocab_size": 157184,
    "max_position_embeddings": 16384, "rope_theta": 600000}"#;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Checkpoint;

    #[test]
    fn every_shape_has_the_size_it_should() {
        let millions = |shape| Checkpoint::random(shape).unwrap().parameters() / 1_000_000;
        assert!((5..40).contains(&millions(Shape::Mini)));
        assert_eq!([Shape::Small, Shape::Medium, Shape::Llada8b, Shape::Dream7b].map(millions), [31, 841, 8015, 7615]);
        assert_eq!([Shape::Sdar8b, Shape::LladaMoe, Shape::Llada2Mini].map(millions), [8190, 7356, 16255]);
        let active = |shape| Checkpoint::random(shape).unwrap().architecture().active_parameters() / 1_000_000;
        assert_eq!([Shape::Sdar8b, Shape::LladaMoe, Shape::Llada2Mini].map(active), [8190, 1719, 1432]);
        let [experts, dense] = [Shape::LladaMoe, Shape::LladaMoeDense]
            .map(|shape| Checkpoint::random(shape).unwrap().architecture().active_parameters());
        let routers = 16 * 64 * 2048;
        assert_eq!((experts - routers, millions(Shape::LladaMoeDense)), (dense, dense / 1_000_000));
        assert!(Shape::ALL.into_iter().all(|shape| Shape::named(shape.name()) == Some(shape)));
    }
}
