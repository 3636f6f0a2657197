//! What there is to know of a loaded model.

use lacuna::Token;
use serde::Serialize;

use crate::{Checkpoint, Memory, Model, PlanContext, Request, describe_gpu};

/// A loaded model, described: what `lacuna inspect --format json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    /// How to call it.
    pub model: String,
    /// What kind of model it is.
    pub family: &'static str,
    /// How many numbers its weights are.
    pub parameters: usize,
    /// How many blocks it has.
    pub layers: usize,
    /// How many numbers describe a position between blocks.
    pub hidden: usize,
    /// How many query heads each block has.
    pub heads: usize,
    /// How many key and value heads each block has.
    pub key_value_heads: usize,
    /// The inner width of the MLP.
    pub mlp: usize,
    /// How many token ids there are.
    pub vocabulary: usize,
    /// How many positions it was made for.
    pub context: usize,
    /// The id of the mask token.
    pub mask_token: Token,
    /// The tokens that end a text or a turn of a chat.
    pub end_tokens: Vec<Token>,
    /// Whether position i is predicted from the output at i − 1.
    pub shifted: bool,
    /// The types of number in its files.
    pub stored_as: Vec<String>,
    /// How many bytes the weights take in its files.
    pub stored_bytes: usize,
    /// The precision of its matrix products.
    pub precision: &'static str,
    /// Where it computes.
    pub device: String,
    /// The GPU, or why there is none that can be used.
    pub gpu: String,
    /// How many bytes the weights take in memory.
    pub weight_bytes: usize,
    /// How many bytes a forward pass over [`Facts::CANVAS`] positions takes beside them.
    pub working_bytes: usize,
    /// How many threads compute.
    pub threads: usize,
    /// "yes", or why there is none.
    pub tokenizer: String,
    /// Whether it has a chat template.
    pub chat_template: bool,
    /// How it decodes if nothing else is asked for.
    pub strategy: String,
    /// The layers whose attention `dos` then uses.
    pub layer: Vec<usize>,
}

impl Facts {
    /// The canvas for which memory is told.
    pub const CANVAS: usize = 512;

    /// What there is to know of a checkpoint and the model that it was loaded as.
    pub fn of(checkpoint: &Checkpoint, model: &dyn Model) -> lacuna::Result<Self> {
        let shape = checkpoint.architecture();
        let plan = Request::default().plan(checkpoint)?;
        let Memory { weights, buffers } = model.memory(Self::CANVAS);
        Ok(Self {
            model: checkpoint.name(),
            family: shape.family.name(),
            parameters: checkpoint.parameters(),
            layers: shape.layers,
            hidden: shape.hidden,
            heads: shape.heads,
            key_value_heads: shape.key_value_heads,
            mlp: shape.mlp,
            vocabulary: shape.vocabulary,
            context: shape.context,
            mask_token: shape.mask,
            end_tokens: checkpoint.ends(),
            shifted: shape.shifted,
            stored_as: checkpoint.dtypes(),
            stored_bytes: checkpoint.bytes(),
            precision: model.precision().name(),
            device: model.device(),
            gpu: describe_gpu().unwrap_or_else(|error| error.to_string()),
            weight_bytes: weights,
            working_bytes: buffers,
            threads: rayon::current_num_threads(),
            tokenizer: checkpoint.text().map_or_else(|error| error.to_string(), |_| "yes".into()),
            chat_template: checkpoint.text().is_ok_and(|text| text.can_chat()),
            layer: PlanContext::of(checkpoint).layers_for(&plan.params),
            strategy: plan.strategy.name,
        })
    }
}
