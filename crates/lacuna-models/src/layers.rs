//! Layers as a user names them.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The attention layers to look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "it must be a layer such as 4, a list of layers, or \"all\"")]
pub enum Layers {
    /// One.
    One(usize),
    /// Some.
    These(Vec<usize>),
    /// All of them.
    #[serde(with = "all")]
    All,
}

impl FromStr for Layers {
    type Err = String;

    /// Reads `4`, or `2,4`, or `2-5`, or `all`.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        let number = |part: &str| match part.trim().parse::<u16>() {
            Ok(layer) => Ok(usize::from(layer)),
            Err(_) => Err(format!("'{part}' is not a layer: write 4, or 2,4, or 2-5, or all")),
        };
        let mut layers = Vec::new();
        for part in text.split(',') {
            match part.split_once('-') {
                Some((first, last)) => {
                    let (first, last) = (number(first)?, number(last)?);
                    if first > last {
                        return Err(format!("the range {first}-{last} is empty: write {last}-{first}"));
                    }
                    layers.extend(first..=last);
                }
                None => layers.push(number(part)?),
            }
        }
        Ok(Self::These(layers))
    }
}

/// `"all"` as a string.
mod all {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("all")
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
        match String::deserialize(deserializer)?.as_str() {
            "all" => Ok(()),
            other => Err(D::Error::custom(format!("'{other}' is no layer"))),
        }
    }
}
