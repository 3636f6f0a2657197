//! Opening a checkpoint.

use std::path::Path;
#[cfg(feature = "text")]
use std::sync::OnceLock;

use lacuna::catalogue::Params;
use lacuna::{Description, Token};
#[cfg(feature = "text")]
use lacuna_constrain::Vocabulary;
use serde::Deserialize;

use super::tensors::Tensors;
use super::{Files, Tensor};
#[cfg(feature = "text")]
use crate::Text;
use crate::architecture::Architecture;
use crate::weight::{Role, Weight};
use crate::{Error, Precision, Result, Shape, WeightFormat, family, json};

pub(super) const CONFIG: &str = "config.json";

/// A model as it lies on disk or in the program: its configuration is read and checked, its weights are not loaded yet.
#[derive(Debug)]
pub struct Checkpoint {
    pub(super) files: Files,
    architecture: Architecture,
    recommended: Params,
    weights: Weights,
    #[cfg(feature = "text")]
    text: OnceLock<Text>,
    #[cfg(feature = "text")]
    vocabulary: OnceLock<Vocabulary>,
}

/// Source of the weights.
#[derive(Debug)]
enum Weights {
    Stored(Tensors),
    Random,
}

/// The part of config.json that all families share.
#[derive(Deserialize)]
struct Shared {
    #[serde(default)]
    lacuna: Params,
}

impl Checkpoint {
    /// Opens a directory in the Hugging Face layout, a GGUF file, or a checkpoint of the Hugging Face cache by its name, `owner/model`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::from_files(Files::open(path.as_ref())?)
    }

    /// Opens files that are part of the program: their names, as they would be in a directory, and their contents.
    pub fn from_static(files: &'static [(&'static str, &'static [u8])]) -> Result<Self> {
        Self::from_files(Files::Embedded(files))
    }

    /// A model of a named shape with random weights, which are made when they are loaded. It is good for measuring.
    pub fn random(shape: Shape) -> Result<Self> {
        Self::new(Files::Embedded(shape.files()), |_, _| Ok(Weights::Random))
    }

    fn from_files(files: Files) -> Result<Self> {
        Self::new(files, |files, architecture| Tensors::open(files, architecture).map(Weights::Stored))
    }

    fn new(files: Files, weights: impl FnOnce(&Files, &Architecture) -> Result<Weights>) -> Result<Self> {
        let file = files.label(CONFIG);
        let Some(config) = files.read(CONFIG)? else {
            let advice = "every checkpoint has one; is this the model's folder?".to_string();
            return Err(Error::MissingFile { file, advice });
        };
        let Shared { lacuna: recommended } = json::parse(&file, &config)?;
        let architecture = family::describe(&file, &config)?;
        check_recommended(&file, &recommended, &architecture)?;
        // Parameters of the family's strategy say nothing about another one.
        let recommended = match recommended.word("strategy") {
            Some(_) => recommended,
            None => recommended.or(&architecture.family.recommended()),
        };
        let weights = weights(&files, &architecture)?;
        if let Weights::Stored(tensors) = &weights {
            tensors.check(&architecture)?;
        }
        Ok(Self {
            files,
            architecture,
            recommended,
            weights,
            #[cfg(feature = "text")]
            text: OnceLock::new(),
            #[cfg(feature = "text")]
            vocabulary: OnceLock::new(),
        })
    }

    /// The same model with this mask token, for checkpoints that do not name theirs.
    pub fn with_mask_token(mut self, id: Token) -> Result<Self> {
        let most = self.architecture.vocabulary - 1;
        if id as usize > most {
            return Err(Error::Request(format!(
                "mask token {id} is outside the vocabulary, which has ids 0 to {most}"
            )));
        }
        self.architecture.mask = Some(id);
        Ok(self)
    }

    /// The same model with this shift, for checkpoints that do not say so: A2D models are trained with and without.
    pub fn with_shift(mut self, shifted: bool) -> Self {
        self.architecture.shifted = shifted;
        self
    }

    /// The mask token; an error if the checkpoint names none and none was given.
    pub fn mask_token(&self) -> Result<Token> {
        self.architecture.mask.ok_or_else(|| Error::NoMaskToken { file: self.files.label(CONFIG) })
    }

    /// Facts that decoding needs, before the weights are loaded. A GPU may not be able to do all that they promise.
    pub fn description(&self) -> Result<Description> {
        Ok(self.architecture.description(self.mask_token()?))
    }

    /// The description of the model.
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// Parameters that are recommended for decoding: the `lacuna` object in config.json, else what the family's makers use.
    pub fn recommended(&self) -> &Params {
        &self.recommended
    }

    /// Its name in messages.
    pub fn name(&self) -> String {
        match &self.weights {
            Weights::Stored(_) => self.files.place(),
            Weights::Random => "a model with random weights".to_string(),
        }
    }

    /// Number of parameters.
    pub fn parameters(&self) -> usize {
        self.architecture.parameters()
    }

    /// Bytes of the weights in the files.
    pub fn bytes(&self) -> usize {
        match &self.weights {
            Weights::Stored(tensors) => tensors.bytes(),
            Weights::Random => 0,
        }
    }

    /// The dtypes in the files, such as `BF16`.
    pub fn dtypes(&self) -> Vec<String> {
        match &self.weights {
            Weights::Stored(tensors) => tensors.dtypes(),
            Weights::Random => Vec::new(),
        }
    }

    /// The precision that loses nothing the files have: 16-bit weights stay so, and so do quantised ones.
    pub(crate) fn own_precision(&self) -> Precision {
        match self.quantized() {
            Some(precision) => precision,
            None if self.is_f32() => Precision::F32,
            None => Precision::Bf16,
        }
    }

    /// The precision that it is stored in, if that is quantised.
    pub(crate) fn quantized(&self) -> Option<Precision> {
        match &self.weights {
            Weights::Stored(tensors) => tensors.quantized(),
            Weights::Random => None,
        }
    }

    pub(crate) fn is_f32(&self) -> bool {
        matches!(&self.weights, Weights::Stored(tensors) if tensors.are_f32())
    }

    /// The format of the embedding table in memory: as stored, where the precision has 16 bits or says nothing of it.
    pub(crate) fn embedding_format(&self, precision: Precision) -> WeightFormat {
        match precision {
            Precision::Int4 => WeightFormat::Int8,
            Precision::F32 => WeightFormat::F32,
            _ if self.is_f32() => WeightFormat::F32,
            _ => WeightFormat::Bf16,
        }
    }

    /// The tensor of a role; `layer` matters only for those of layers.
    pub(crate) fn tensor(&self, role: Role, layer: usize) -> Result<Tensor<'_>> {
        self.get(&self.architecture.weight(role, layer))
    }

    /// A weight by its description.
    pub(super) fn get(&self, weight: &Weight) -> Result<Tensor<'_>> {
        match &self.weights {
            Weights::Stored(tensors) => tensors.get(weight),
            Weights::Random => Ok(Tensor::random(weight)),
        }
    }

    /// The tensors of several roles of a layer, to be stacked.
    pub(crate) fn stack(&self, layer: usize, roles: &[Role]) -> Result<Vec<Tensor<'_>>> {
        roles.iter().map(|&role| self.tensor(role, layer)).collect()
    }
}

#[cfg(feature = "text")]
impl Checkpoint {
    /// The tokenizer and the chat template. They are read when first asked for: raw token ids need neither.
    pub fn text(&self) -> Result<&Text> {
        if let Some(text) = self.text.get() {
            return Ok(text);
        }
        let text = Text::load(&self.files)?;
        Ok(self.text.get_or_init(|| text))
    }

    /// The tokens that end a text and a turn of a chat, where the model has them. The second is known by its name, so it
    /// takes a tokenizer.
    pub fn ends(&self) -> Vec<Token> {
        let turn = self.text().ok().and_then(Text::end_of_turn);
        self.architecture.end.into_iter().chain(turn).collect()
    }

    /// The tokens as constraints see them: their bytes, and those that end a text. Made when first asked for.
    pub(crate) fn vocabulary(&self) -> Result<&Vocabulary> {
        if let Some(vocabulary) = self.vocabulary.get() {
            return Ok(vocabulary);
        }
        let vocabulary = self.text()?.vocabulary(self.architecture.vocabulary, &self.ends())?;
        Ok(self.vocabulary.get_or_init(|| vocabulary))
    }
}

/// Refuses recommendations that this model cannot follow.
fn check_recommended(file: &str, recommended: &Params, model: &Architecture) -> Result<()> {
    let wrong = |key, value: usize, expected: String| {
        Err(Error::Config { file: file.to_string(), key, value: value.to_string(), expected })
    };
    let named = recommended.integers("layer").unwrap_or_default();
    if let Some(layer) = named.into_iter().find(|&layer| layer >= model.layers()) {
        return wrong("lacuna.layer", layer, format!("the model has layers 0 to {}", model.layers() - 1));
    }
    Ok(())
}
