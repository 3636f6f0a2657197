//! Sizes that models come in, for measuring without their weights.

use crate::embedded;

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
}

impl Shape {
    /// All of them, the smallest first.
    pub const ALL: [Self; 5] = [Self::Mini, Self::Small, Self::Medium, Self::Llada8b, Self::Dream7b];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mini => "mini",
            Self::Small => "small",
            Self::Medium => "medium",
            Self::Llada8b => "llada-8b",
            Self::Dream7b => "dream-7b",
        }
    }

    /// The shape of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|shape| shape.name() == name)
    }

    /// The files of a checkpoint of this shape, without weights and tokenizer.
    pub(crate) fn files(self) -> &'static [(&'static str, &'static [u8])] {
        match self {
            Self::Mini => embedded::FILES,
            Self::Small => &[(CONFIG, SMALL)],
            Self::Medium => &[(CONFIG, MEDIUM)],
            Self::Llada8b => &[(CONFIG, LLADA_8B)],
            Self::Dream7b => &[(CONFIG, DREAM_7B)],
        }
    }
}

const CONFIG: &str = "config.json";

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Checkpoint;

    #[test]
    fn every_shape_has_the_size_it_should() {
        let millions = |shape| Checkpoint::random(shape).unwrap().parameters() / 1_000_000;
        assert!((5..40).contains(&millions(Shape::Mini)));
        assert_eq!([Shape::Small, Shape::Medium, Shape::Llada8b, Shape::Dream7b].map(millions), [31, 841, 8015, 7615]);
        assert!(Shape::ALL.into_iter().all(|shape| Shape::named(shape.name()) == Some(shape)));
    }
}
