//! What a checkpoint itself recommends for decoding.

use serde::{Deserialize, Deserializer};

/// The optional `lacuna` object in config.json: decoding defaults that suit the checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Recommended {
    /// A strategy, as `--strategy` takes it.
    pub strategy: Option<String>,
    /// The attention layers for `dos`: a number or a list of numbers in the file, empty if nothing is recommended.
    #[serde(deserialize_with = "one_or_many")]
    pub layer: Vec<usize>,
    /// The bound for `eb`, if no other strategy is asked for.
    pub gamma: Option<f64>,
    /// How many tokens to generate.
    pub gen_length: Option<usize>,
    /// How many tokens a block has, if no other strategy is asked for.
    pub block_length: Option<usize>,
}

fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<usize>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Layers {
        None,
        One(usize),
        Many(Vec<usize>),
    }
    Ok(match Layers::deserialize(deserializer)? {
        Layers::None => Vec::new(),
        Layers::One(layer) => vec![layer],
        Layers::Many(layers) => layers,
    })
}
