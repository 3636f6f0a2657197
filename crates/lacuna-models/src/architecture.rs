//! The one description of a transformer that every family is read into and every predictor is built from.

use lacuna::{Description, Token};

use crate::{Error, Result};

/// A bidirectional Llama-like transformer: RMS norm, rotary embedding, grouped-query attention, SwiGLU.
#[derive(Clone, Debug, PartialEq)]
pub struct Architecture {
    /// What kind of model it is.
    pub family: Family,
    /// How many blocks there are.
    pub layers: usize,
    /// How many numbers describe a position between blocks.
    pub hidden: usize,
    /// How many query heads each block has.
    pub heads: usize,
    /// How many key and value heads each block has; query heads share them evenly.
    pub key_value_heads: usize,
    /// The inner width of the MLP.
    pub mlp: usize,
    /// How many token ids there are.
    pub vocabulary: usize,
    /// How many positions the model was made for.
    pub context: usize,
    /// The base of the rotary embedding's frequencies.
    pub rope_theta: f64,
    /// What RMS norm adds to the mean square.
    pub epsilon: f64,
    /// Whether queries, keys and values have a bias.
    pub biased: bool,
    /// Whether the vocabulary projection is the embedding itself.
    pub tied: bool,
    /// Whether position i is predicted from the output at i − 1.
    pub shifted: bool,
    /// The id of the mask token.
    pub mask: Token,
    /// The id of the token that ends a text, if there is one.
    pub end: Option<Token>,
    pub(crate) names: Names,
}

/// More positions than any machine could attend to; a longer context is a mistake.
const LONGEST: usize = 1 << 24;

/// A kind of model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// LLaDA and LLaDA 1.5.
    Llada,
    /// Dream.
    Dream,
}

impl Family {
    /// Its name, as its makers write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Llada => "LLaDA",
            Self::Dream => "Dream",
        }
    }
}

/// What a family calls its tensors. Block i's query weights are `{block}.{i}.{query}.weight`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) embedding: &'static str,
    pub(crate) block: &'static str,
    pub(crate) attention_norm: &'static str,
    pub(crate) query: &'static str,
    pub(crate) key: &'static str,
    pub(crate) value: &'static str,
    pub(crate) output: &'static str,
    pub(crate) mlp_norm: &'static str,
    pub(crate) gate: &'static str,
    pub(crate) up: &'static str,
    pub(crate) down: &'static str,
    pub(crate) final_norm: &'static str,
    pub(crate) head: &'static str,
}

impl Architecture {
    /// How many numbers a head has.
    pub fn head_size(&self) -> usize {
        self.hidden / self.heads
    }

    /// How many numbers the keys of all heads have.
    pub(crate) fn key_size(&self) -> usize {
        self.head_size() * self.key_value_heads
    }

    /// What decoding must know of it.
    pub(crate) fn description(&self) -> Description {
        Description {
            vocabulary: self.vocabulary,
            mask: self.mask,
            layers: self.layers,
            heads: self.heads,
            context: self.context,
            // A shadow row of a shifted model would predict the position behind it.
            shadows: !self.shifted,
            shifted: self.shifted,
            caches: true,
            credits: true,
            matrices: true,
        }
    }

    /// How many numbers its weights are.
    pub(crate) fn parameters(&self) -> usize {
        let Self { layers, hidden, mlp, vocabulary, .. } = *self;
        let key_size = self.key_size();
        let bias = if self.biased { hidden + 2 * key_size } else { 0 };
        let block = 2 * hidden * (hidden + key_size) + 3 * hidden * mlp + 2 * hidden + bias;
        let tables = if self.tied { 1 } else { 2 };
        layers * block + tables * vocabulary * hidden + hidden
    }

    /// Refuses what cannot be.
    pub(crate) fn check(&self, file: &str) -> Result<()> {
        let wrong = |key: &'static str, value: String, expected: String| {
            Err(Error::Config { file: file.to_string(), key, value, expected })
        };
        let sizes = [
            ("the number of layers", self.layers),
            ("the hidden size", self.hidden),
            ("the number of heads", self.heads),
            ("the number of key-value heads", self.key_value_heads),
            ("the MLP's size", self.mlp),
            ("the vocabulary's size", self.vocabulary),
            ("the longest sequence", self.context),
        ];
        if let Some((key, _)) = sizes.into_iter().find(|(_, size)| *size == 0) {
            return wrong(key, "0".to_string(), "it must be at least 1".to_string());
        }
        if self.context > LONGEST {
            return wrong("the longest sequence", self.context.to_string(), format!("it must be at most {LONGEST}"));
        }
        if !self.hidden.is_multiple_of(self.heads) || !self.head_size().is_multiple_of(2) {
            let expected = format!("it must be an even multiple of the {} heads", self.heads);
            return wrong("the hidden size", self.hidden.to_string(), expected);
        }
        if !self.heads.is_multiple_of(self.key_value_heads) {
            let expected = format!("it must divide the {} heads", self.heads);
            return wrong("the number of key-value heads", self.key_value_heads.to_string(), expected);
        }
        if !(self.rope_theta.is_finite() && self.rope_theta > 0.0) {
            return wrong("rope_theta", self.rope_theta.to_string(), "it must be above 0".to_string());
        }
        if !(self.epsilon.is_finite() && self.epsilon >= 0.0) {
            return wrong("rms_norm_eps", self.epsilon.to_string(), "it must not be below 0".to_string());
        }
        let ids = [("mask_token_id", Some(self.mask)), ("eos_token_id", self.end)];
        for (key, id) in ids.into_iter().filter_map(|(key, id)| Some((key, id?))) {
            if id as usize >= self.vocabulary {
                return wrong(key, id.to_string(), format!("the vocabulary has ids 0 to {}", self.vocabulary - 1));
            }
        }
        Ok(())
    }
}

/// Refuses settings of a variant that lacuna does not know: `(key, whether it is fine, its value, what would be)`.
pub(crate) fn require(file: &str, settings: &[(&'static str, bool, String, &'static str)]) -> Result<()> {
    match settings.iter().find(|(_, fine, _, _)| !fine) {
        None => Ok(()),
        Some((key, _, value, supported)) => {
            Err(Error::Unsupported { file: file.to_string(), key, value: value.clone(), supported })
        }
    }
}

/// The first id, where a configuration may have one or a list.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(untagged, expecting = "a token id or a list of them")]
pub(crate) enum Ids {
    One(Token),
    Many(Vec<Token>),
}

impl Ids {
    pub(crate) fn first(&self) -> Option<Token> {
        match self {
            Self::One(id) => Some(*id),
            Self::Many(ids) => ids.first().copied(),
        }
    }
}
