//! Decoding defaults that a checkpoint recommends.

use serde::{Deserialize, Deserializer};

use crate::{Architecture, Error, Result};

/// The optional `lacuna` object in config.json: decoding defaults that suit the checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
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

impl Recommended {
    /// Refuses values that no model, or not this one, can have.
    pub(crate) fn check(&self, file: &str, model: &Architecture) -> Result<()> {
        let wrong =
            |key, value: String, expected: String| Err(Error::Config { file: file.to_string(), key, value, expected });
        let layers = model.layers();
        if let Some(layer) = self.layer.iter().find(|&&layer| layer >= layers) {
            return wrong("lacuna.layer", layer.to_string(), format!("the model has layers 0 to {}", layers - 1));
        }
        if let Some(gamma) = self.gamma.filter(|gamma| !(gamma.is_finite() && *gamma >= 0.0)) {
            return wrong("lacuna.gamma", gamma.to_string(), "it must be at least 0".to_string());
        }
        for (key, length) in [("lacuna.gen_length", self.gen_length), ("lacuna.block_length", self.block_length)] {
            if let Some(length) = length.filter(|length| !(1..=model.context).contains(length)) {
                let expected = format!("it must be at least 1 and at most the context, {}", model.context);
                return wrong(key, length.to_string(), expected);
            }
        }
        Ok(())
    }
}

fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Vec<usize>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a layer or a list of layers")]
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
