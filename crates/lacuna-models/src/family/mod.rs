//! Model families: one file each, which maps config.json and tensor names onto an [`Architecture`].
//!
//! A new family is such a file and a line in [`FAMILIES`].

mod a2d;
mod dream;
mod fast_dllm;
mod llada;
mod llada2;
mod llada_moe;
mod open_dcoder;
mod qwen;
mod rnd1;
mod sdar;
mod stable_diffcoder;

use std::fmt;

use lacuna::Token;
use lacuna::catalogue::Params;
use serde::{Deserialize, Serialize};

use crate::architecture::FeedForward;
use crate::{Architecture, Error, Result, json};

/// All families that can be loaded.
static FAMILIES: [&Family; 13] = [
    &llada::FAMILY,
    &dream::FAMILY,
    &sdar::FAMILY,
    &sdar::EXPERTS,
    &fast_dllm::FAMILY,
    &stable_diffcoder::FAMILY,
    &a2d::QWEN3,
    &a2d::QWEN2,
    &a2d::LLAMA,
    &open_dcoder::FAMILY,
    &llada_moe::FAMILY,
    &llada2::FAMILY,
    &rnd1::FAMILY,
];

/// Families that are known by name but not supported: `(how an architecture or model_type begins, in small letters and digits alone,
/// family, the missing part)`.
const REFUSED: [(&str, &str, &str); 6] = [
    ("llada22", "LLaDA2.2", "inserting and deleting tokens"),
    ("nemotronlabsdiffusion", "Nemotron-Labs-Diffusion", "causal attention to finished blocks"),
    ("wedlm", "WeDLM", "causal attention with reordered positions"),
    ("diffusiongemma", "DiffusionGemma", "diffusion without a mask token"),
    ("llavallada", "LLaDA-V", "a vision tower"),
    ("tidar", "TiDAR", "its hybrid attention"),
];

/// A model family.
pub struct Family {
    name: &'static str,
    /// The sampling convention of its official code.
    convention: Convention,
    /// Values of `architectures` in config.json.
    architectures: &'static [&'static str],
    /// Values of `model_type` in config.json, for configurations without a known architecture.
    model_types: &'static [&'static str],
    /// The mask token of published checkpoints that do not name it, by their vocabulary size.
    masks: &'static [(usize, Token)],
    /// Parameters that its makers decode with.
    recommended: &'static [(&'static str, &'static str)],
    describe: fn(&Config<'_>) -> Result<Architecture>,
}

/// The official sampling convention of a model: the meaning of schedules and temperatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Convention {
    /// LLaDA's: Gumbel noise on the logits, an even schedule.
    Llada,
    /// Dream's: a nucleus of the tempered distribution, a schedule of timesteps.
    Dream,
}

impl Family {
    /// Its name, as its makers write it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Parameters that its makers decode with.
    pub(crate) fn recommended(&self) -> Params {
        let parse = |mut params: Params, (name, text): &(&str, &str)| {
            params.parse(name, text).expect("a family recommends what there is");
            params
        };
        self.recommended.iter().fold(Params::new(), parse)
    }

    /// The sampling convention of its official code.
    pub fn convention(&self) -> Convention {
        self.convention
    }
}

impl fmt::Debug for Family {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

impl PartialEq for Family {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// The keys of config.json that tell families apart.
#[derive(Deserialize)]
struct Kind {
    #[serde(default)]
    architectures: Option<Vec<String>>,
    model_type: Option<String>,
}

/// Reads a configuration: by its `architectures`, else by its `model_type`. Several families share a model type.
pub(crate) fn describe(file: &str, content: &[u8]) -> Result<Architecture> {
    let config = Config { file, content };
    let Kind { architectures, model_type } = config.parse()?;
    let architectures = architectures.unwrap_or_default();
    let by_architecture =
        |family: &&&Family| family.architectures.iter().any(|known| architectures.iter().any(|a| a == known));
    let by_type = |family: &&&Family| model_type.as_deref().is_some_and(|found| family.model_types.contains(&found));
    let found = FAMILIES.iter().find(by_architecture);
    if found.is_none()
        && let Some((_, family, missing)) = refused(&architectures, model_type.as_deref())
    {
        return Err(Error::RefusedModel { file: file.to_string(), family, missing });
    }
    let Some(family) = found.or_else(|| FAMILIES.iter().find(by_type)) else {
        let found = model_type.unwrap_or_default();
        let known = FAMILIES.map(Family::name).join(", ");
        return Err(Error::UnknownModel { file: file.to_string(), found, known });
    };
    let mut architecture = (family.describe)(&config)?;
    let published = || family.masks.iter().find(|(vocabulary, _)| *vocabulary == architecture.vocabulary);
    architecture.mask = architecture.mask.or_else(|| published().map(|(_, mask)| *mask));
    architecture.check(file)?;
    Ok(architecture)
}

fn refused(architectures: &[String], model_type: Option<&str>) -> Option<(&'static str, &'static str, &'static str)> {
    let plain = |name: &str| name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "").to_ascii_lowercase();
    let names: Vec<String> = architectures.iter().map(String::as_str).chain(model_type).map(plain).collect();
    REFUSED.into_iter().find(|(start, ..)| names.iter().any(|name| name.starts_with(start)))
}

/// A config.json.
struct Config<'a> {
    file: &'a str,
    content: &'a [u8],
}

impl Config<'_> {
    fn parse<'a, T: Deserialize<'a>>(&'a self) -> Result<T> {
        json::parse(self.file, self.content)
    }

    /// Refuses settings of an unsupported variant: `(key, it is supported, its value, the supported value)`.
    fn require(&self, settings: &[(&'static str, bool, String, &'static str)]) -> Result<()> {
        match settings.iter().find(|(_, fine, _, _)| !fine) {
            None => Ok(()),
            Some((key, _, value, supported)) => {
                Err(Error::Unsupported { file: self.file.to_string(), key, value: value.clone(), supported })
            }
        }
    }

    fn wrong<T>(&self, key: &'static str, value: impl ToString, expected: String) -> Result<T> {
        Err(Error::Config { file: self.file.to_string(), key, value: value.to_string(), expected })
    }

    /// The feed-forward networks of `count` layers.
    fn layers(&self, count: usize, layer: impl Fn(usize) -> FeedForward) -> Result<Vec<FeedForward>> {
        /// The most layers.
        const MAX_LAYERS: usize = 1 << 12;
        if count > MAX_LAYERS {
            return self.wrong("the number of layers", count, format!("it must be at most {MAX_LAYERS}"));
        }
        Ok((0..count).map(layer).collect())
    }

    /// The size of heads that share the hidden size.
    fn head_size(&self, hidden: usize, heads: usize) -> Result<usize> {
        match hidden.checked_div(heads) {
            None => self.wrong("the number of heads", heads, "it must be at least 1".to_string()),
            Some(0) if hidden == 0 => self.wrong("the hidden size", hidden, "it must be at least 1".to_string()),
            Some(size) if size * heads != hidden || !size.is_multiple_of(2) => {
                self.wrong("the hidden size", hidden, format!("it must be an even multiple of the {heads} heads"))
            }
            Some(size) => Ok(size),
        }
    }
}

/// One token id or a list of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "it is neither a token id nor a list of them")]
enum Ids {
    One(Token),
    Many(Vec<Token>),
}

impl Ids {
    fn first(&self) -> Option<Token> {
        match self {
            Self::One(id) => Some(*id),
            Self::Many(ids) => ids.first().copied(),
        }
    }
}
