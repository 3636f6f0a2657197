//! Opening a checkpoint.

use std::path::Path;
use std::sync::OnceLock;

use lacuna::Token;
use lacuna::catalogue::Params;
use serde::Deserialize;

use super::tensors::Tensors;
use super::{Files, Tensor};
use crate::{Architecture, Error, Precision, Result, Shape, Text, dream, llada};

const CONFIG: &str = "config.json";

/// A model as it lies on disk or in the program: its configuration is read and checked, its weights are not loaded yet.
#[derive(Debug)]
pub struct Checkpoint {
    files: Files,
    architecture: Architecture,
    recommended: Params,
    weights: Weights,
    text: OnceLock<Text>,
}

/// Where the weights come from.
#[derive(Debug)]
enum Weights {
    Stored(Tensors),
    Random,
}

/// What tells the kinds of configuration apart, and what they share.
#[derive(Deserialize)]
struct Kind {
    model_type: Option<String>,
    #[serde(default)]
    lacuna: Params,
}

impl Checkpoint {
    /// Opens a directory in the Hugging Face layout.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::from_files(Files::directory(path.as_ref())?)
    }

    /// Opens files that are part of the program: their names, as they would be in a directory, and their contents.
    pub fn from_static(files: &'static [(&'static str, &'static [u8])]) -> Result<Self> {
        Self::from_files(Files::Embedded(files))
    }

    /// A model of a named shape with random weights, which are made when they are loaded. It is good for measuring.
    pub fn random(shape: Shape) -> Result<Self> {
        Self::new(Files::Embedded(shape.files()), |_| Ok(Weights::Random))
    }

    fn from_files(files: Files) -> Result<Self> {
        Self::new(files, |files| Tensors::open(files).map(Weights::Stored))
    }

    fn new(files: Files, weights: impl FnOnce(&Files) -> Result<Weights>) -> Result<Self> {
        let file = files.label(CONFIG);
        let Some(config) = files.read(CONFIG)? else {
            let advice = "every checkpoint has one; is this the model's folder?".to_string();
            return Err(Error::MissingFile { file, advice });
        };
        let kind: Kind =
            serde_json::from_slice(&config).map_err(|source| Error::Json { file: file.clone(), source })?;
        let architecture = match kind.model_type.as_deref() {
            Some("llada") => llada::architecture(&file, &config)?,
            Some("Dream") => dream::architecture(&file, &config)?,
            other => return Err(Error::UnknownModel { file, found: format!("'{}'", other.unwrap_or_default()) }),
        };
        architecture.check(&file)?;
        let named = kind.lacuna.integers("layer").unwrap_or_default();
        if let Some(layer) = named.into_iter().find(|&layer| layer >= architecture.layers) {
            let expected = format!("the model has layers 0 to {}", architecture.layers - 1);
            return Err(Error::Config { file, key: "lacuna.layer", value: layer.to_string(), expected });
        }
        let weights = weights(&files)?;
        Ok(Self { files, architecture, recommended: kind.lacuna, weights, text: OnceLock::new() })
    }

    /// What the model is made of.
    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    /// Parameters that the checkpoint recommends for decoding: the `lacuna` object in config.json.
    pub fn recommended(&self) -> &Params {
        &self.recommended
    }

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

    /// How to call it in a message.
    pub fn name(&self) -> String {
        match &self.weights {
            Weights::Stored(_) => self.files.place(),
            Weights::Random => "a model with random weights".to_string(),
        }
    }

    /// How many numbers the weights are.
    pub fn parameters(&self) -> usize {
        match &self.weights {
            Weights::Stored(tensors) => tensors.count(),
            Weights::Random => self.architecture.parameters(),
        }
    }

    /// How many bytes the weights take in the files.
    pub fn bytes(&self) -> usize {
        match &self.weights {
            Weights::Stored(tensors) => tensors.bytes(),
            Weights::Random => 0,
        }
    }

    /// The types of number in the files, such as `BF16`.
    pub fn dtypes(&self) -> Vec<String> {
        match &self.weights {
            Weights::Stored(tensors) => tensors.dtypes(),
            Weights::Random => Vec::new(),
        }
    }

    /// The precision that loses nothing the files have: 16-bit weights stay so.
    pub(crate) fn own_precision(&self) -> Precision {
        if self.is_f32() { Precision::F32 } else { Precision::Bf16 }
    }

    pub(crate) fn is_f32(&self) -> bool {
        matches!(&self.weights, Weights::Stored(tensors) if tensors.are_f32())
    }

    pub(crate) fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor<'_>> {
        match &self.weights {
            Weights::Stored(tensors) => tensors.get(name, shape),
            Weights::Random => Ok(Tensor::random(name, shape)),
        }
    }

    /// The embedding table.
    pub(crate) fn embedding(&self) -> Result<Tensor<'_>> {
        self.table(self.architecture().names.embedding)
    }

    /// The vocabulary projection, which may be the embedding table again.
    pub(crate) fn head(&self) -> Result<Tensor<'_>> {
        let Architecture { tied, names, .. } = self.architecture();
        self.table(if *tied { names.embedding } else { names.head })
    }

    fn table(&self, name: &str) -> Result<Tensor<'_>> {
        let Architecture { vocabulary, hidden, .. } = self.architecture();
        self.tensor(&format!("{name}.weight"), &[*vocabulary, *hidden])
    }

    /// What a part of a layer is called.
    pub(crate) fn name_of(&self, layer: usize, part: &str, kind: &str) -> String {
        format!("{}.{layer}.{part}.{kind}", self.architecture().names.block)
    }

    /// The matrices of some parts of a layer, each with its number of rows, to be put one below the other.
    pub(crate) fn stack(
        &self,
        layer: usize,
        parts: &[(&str, usize)],
        columns: usize,
    ) -> Result<Vec<(Tensor<'_>, usize)>> {
        let matrix = |&(part, rows): &(&str, usize)| {
            Ok((self.tensor(&self.name_of(layer, part, "weight"), &[rows, columns])?, rows))
        };
        parts.iter().map(matrix).collect()
    }
}
