//! Description of a loaded model.

use lacuna::catalogue::Params;
use lacuna::{Token, Visibility};
use serde::Serialize;

use crate::{Checkpoint, Memory, Model, PlanContext, Request, describe_gpu};

/// A loaded model, described: what `lacuna inspect --format json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct ModelInfo {
    /// Its name.
    pub model: String,
    /// The model family.
    pub family: &'static str,
    /// Number of parameters.
    pub parameters: usize,
    /// Number of parameters that a token goes through; fewer than all in a mixture of experts.
    pub active_parameters: usize,
    /// Number of layers.
    pub layers: usize,
    /// Hidden size.
    pub hidden: usize,
    /// Number of query heads.
    pub heads: usize,
    /// Number of key and value heads.
    pub key_value_heads: usize,
    /// Size of a head.
    pub head_size: usize,
    /// Inner width of the widest feed-forward network.
    pub mlp: usize,
    /// Number of experts, if there are any.
    pub experts: Option<usize>,
    /// Experts that each token goes through, if there are any.
    pub experts_per_token: Option<usize>,
    /// Block length of block-causal attention; none if attention is full.
    pub attention_block: Option<usize>,
    /// Vocabulary size.
    pub vocabulary: usize,
    /// Longest sequence the model was trained for.
    pub context: usize,
    /// Id of the mask token.
    pub mask_token: Token,
    /// Tokens that end a text or a turn of a chat.
    pub end_tokens: Vec<Token>,
    /// Position i is predicted from the output at i − 1.
    pub shifted: bool,
    /// The dtypes in its files.
    pub stored_as: Vec<String>,
    /// Bytes of the weights in its files.
    pub stored_bytes: usize,
    /// The precision of its matrix products.
    pub precision: &'static str,
    /// The device it computes on.
    pub device: String,
    /// The GPU, or why there is none that can be used.
    pub gpu: String,
    /// Bytes of the weights in memory.
    pub weight_bytes: usize,
    /// Bytes of the buffers of a forward pass over [`ModelInfo::CANVAS`] positions.
    pub working_bytes: usize,
    /// Number of threads.
    pub threads: usize,
    /// "yes", or why there is none.
    pub tokenizer: String,
    /// It has a chat template.
    pub chat_template: bool,
    /// The default strategy.
    pub strategy: String,
    /// The layers whose attention `dos` uses by default.
    pub layer: Vec<usize>,
    /// Parameters that are used where a request names no strategy: the checkpoint's own, else those of the family's makers.
    pub recommended: Params,
}

impl ModelInfo {
    /// Canvas length that memory is stated for.
    pub const CANVAS: usize = 512;

    /// Describes a checkpoint and the model it was loaded as.
    pub fn of(checkpoint: &Checkpoint, model: &dyn Model) -> lacuna::Result<Self> {
        let shape = checkpoint.architecture();
        let plan = Request::default().plan(checkpoint)?;
        let Memory { weights, buffers } = model.memory(Self::CANVAS);
        Ok(Self {
            model: checkpoint.name(),
            family: shape.family.name(),
            parameters: checkpoint.parameters(),
            layers: shape.layers(),
            hidden: shape.hidden,
            heads: shape.attention.heads,
            key_value_heads: shape.attention.key_value_heads,
            head_size: shape.attention.head_size,
            mlp: shape.mlp(),
            experts: shape.experts().map(|experts| experts.count),
            experts_per_token: shape.experts().map(|experts| experts.active),
            active_parameters: shape.active_parameters(),
            attention_block: match shape.attention.visibility {
                Visibility::Full | Visibility::Either => None,
                Visibility::Blocks(length) => Some(length),
            },
            vocabulary: shape.vocabulary,
            context: shape.context,
            mask_token: checkpoint.mask_token()?,
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
            recommended: checkpoint.recommended().clone(),
        })
    }
}
