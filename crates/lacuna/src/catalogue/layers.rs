//! Layers as a user names them.

use std::str::FromStr;

/// The attention layers to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layers {
    /// Some of them.
    These(Vec<usize>),
    /// All of them.
    All,
}

impl FromStr for Layers {
    type Err = String;

    /// Reads `4`, `2,4`, `2-5` or `all`.
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
