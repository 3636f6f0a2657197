//! The one description of a transformer that every family is read into and every predictor is built from.
//!
//! A block is `x += attention(norm(x)); x += feed_forward(norm(x))` with RMS norms. Which weights that takes, and every size
//! derived from them, is in [`weight`](crate::weight).

use lacuna::{Description, Token, Visibility};

use crate::weight::Names;
use crate::{Error, Family, Result};

/// A transformer with RMS pre-norm, rotary embedding, grouped-query attention and SwiGLU feed-forward networks.
#[derive(Clone, Debug, PartialEq)]
pub struct Architecture {
    /// The model family.
    pub family: &'static Family,
    /// Hidden size (`d_model`).
    pub hidden: usize,
    /// Vocabulary size.
    pub vocabulary: usize,
    /// Longest sequence the model was trained for.
    pub context: usize,
    /// Epsilon of all RMS norms.
    pub epsilon: f64,
    /// Attention, the same in every layer.
    pub attention: Attention,
    /// The feed-forward network of each layer.
    pub feed_forward: Vec<FeedForward>,
    /// The vocabulary projection is the embedding table itself.
    pub tied: bool,
    /// Position i is predicted from the output at i − 1.
    pub shifted: bool,
    /// Id of the mask token, if the checkpoint names it.
    pub mask: Option<Token>,
    /// Id of the end-of-text token, if there is one.
    pub end: Option<Token>,
    pub(crate) names: Names,
}

/// Attention of a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Number of query heads.
    pub heads: usize,
    /// Number of key and value heads; query heads share them evenly.
    pub key_value_heads: usize,
    /// Size of a head. `heads · head_size` may differ from the hidden size.
    pub head_size: usize,
    /// Leading dimensions of a head that the rotary embedding turns.
    pub rotary: usize,
    /// Base of the rotary embedding's frequencies.
    pub rope_theta: f64,
    /// Queries, keys and values have a bias.
    pub biased: bool,
    /// The output projection has a bias.
    pub output_biased: bool,
    /// Every query and key head is RMS-normalised before it is rotated.
    pub head_norm: bool,
    /// Attention mask kind.
    pub visibility: Visibility,
}

impl Attention {
    /// Width of the queries of all heads.
    pub fn query_size(&self) -> usize {
        self.heads * self.head_size
    }

    /// Width of the keys of all heads.
    pub fn key_size(&self) -> usize {
        self.key_value_heads * self.head_size
    }
}

/// The feed-forward network of a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FeedForward {
    /// One SwiGLU network of this width.
    Dense {
        /// Inner width.
        width: usize,
    },
    /// A mixture of experts.
    Experts(Experts),
}

impl FeedForward {
    /// Inner width of the widest network in it.
    pub(crate) fn width(&self) -> usize {
        match self {
            Self::Dense { width } => *width,
            Self::Experts(experts) => experts.width.max(experts.shared.unwrap_or(0)),
        }
    }
}

/// A mixture of SwiGLU networks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Experts {
    /// Number of experts.
    pub count: usize,
    /// Experts that each token goes through.
    pub active: usize,
    /// Inner width of an expert.
    pub width: usize,
    /// Inner width of the expert that every token goes through besides, if there is one.
    pub shared: Option<usize>,
    /// Choice and weights of experts.
    pub router: Router,
}

/// Chooses the experts of a token from the scores `W h`, in f32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Router {
    /// Turns scores into weights.
    pub score: Score,
    /// Use of the bias of each expert.
    pub bias: RouterBias,
    /// The chosen experts' weights are divided by their sum.
    pub renormalized: bool,
    /// Factor on all weights.
    pub scale: f32,
    /// Only experts of the best groups may be chosen.
    pub groups: Option<Groups>,
}

/// A function of a router's scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Score {
    /// Softmax over all experts.
    Softmax,
    /// Sigmoid of each.
    Sigmoid,
}

/// Use of a router's bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouterBias {
    /// There is none.
    None,
    /// It affects which experts are chosen, not their weights (LLaDA2).
    Choice,
    /// It is part of the weights (LLaDA-MoE).
    Weights,
}

/// Groups of consecutive experts. A group's score is the sum of its two best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// Number of groups.
    pub count: usize,
    /// Groups whose experts may be chosen.
    pub kept: usize,
}

/// More positions than any machine could attend to; a longer context is a mistake.
const MAX_CONTEXT: usize = 1 << 24;
/// The largest size of anything else.
const MAX_SIZE: usize = 1 << 24;
/// The most experts of a layer.
const MAX_EXPERTS: usize = 1 << 14;
/// An RMS norm with a larger epsilon is no norm.
const MAX_EPSILON: f64 = 0.1;
/// Experts with a larger factor would drown everything else.
const LARGEST_SCALE: f32 = 1e4;
/// A rotary embedding with a larger base hardly turns.
const MAX_THETA: f64 = 1e12;

impl Architecture {
    /// Number of blocks.
    pub fn layers(&self) -> usize {
        self.feed_forward.len()
    }

    /// Inner width of the widest feed-forward network.
    pub fn mlp(&self) -> usize {
        self.feed_forward.iter().map(FeedForward::width).max().unwrap_or(0)
    }

    /// The mixture of experts of the first layer that has one.
    pub fn experts(&self) -> Option<&Experts> {
        self.feed_forward.iter().find_map(|layer| match layer {
            FeedForward::Dense { .. } => None,
            FeedForward::Experts(experts) => Some(experts),
        })
    }

    /// Facts that decoding needs.
    pub(crate) fn description(&self, mask: Token) -> Description {
        // A2D's is, unless a view has blocks.
        let full = self.attention.visibility.default_blocks().is_none();
        Description {
            vocabulary: self.vocabulary,
            mask,
            layers: self.layers(),
            heads: self.attention.heads,
            context: self.context,
            // A shadow row of a shifted model would predict the position behind it.
            shadows: !self.shifted,
            shifted: self.shifted,
            caches: true,
            credits: true,
            matrices: true,
            rollouts: full,
            alternatives: true,
            refreshes: full,
            visibility: self.attention.visibility,
        }
    }

    /// Refuses sizes and constants that cannot be.
    pub(crate) fn check(&self, file: &str) -> Result<()> {
        let wrong = |key: &'static str, value: String, expected: String| {
            Err(Error::Config { file: file.to_string(), key, value, expected })
        };
        let Attention { heads, key_value_heads, head_size, rotary, rope_theta, visibility, .. } = self.attention;
        let block = if let Visibility::Blocks(length) = visibility { length } else { 1 };
        let mut sizes = vec![
            ("the number of layers", self.layers(), MAX_SIZE),
            ("the hidden size", self.hidden, MAX_SIZE),
            ("the number of heads", heads, MAX_SIZE),
            ("the number of key-value heads", key_value_heads, MAX_SIZE),
            ("the head size", head_size, MAX_SIZE),
            ("the vocabulary's size", self.vocabulary, MAX_SIZE),
            ("the longest sequence", self.context, MAX_CONTEXT),
            ("the block length", block, MAX_CONTEXT),
        ];
        for layer in &self.feed_forward {
            match layer {
                FeedForward::Dense { width } => sizes.push(("the MLP's size", *width, MAX_SIZE)),
                FeedForward::Experts(experts) => sizes.extend([
                    ("the experts' size", experts.width, MAX_SIZE),
                    ("the shared expert's size", experts.shared.unwrap_or(1), MAX_SIZE),
                    ("the number of experts", experts.count, MAX_EXPERTS),
                    ("the number of experts per token", experts.active, experts.count),
                ]),
            }
        }
        for (key, size, most) in sizes {
            if size == 0 {
                return wrong(key, "0".to_string(), "it must be at least 1".to_string());
            }
            if size > most {
                return wrong(key, size.to_string(), format!("it must be at most {most}"));
            }
        }
        if !heads.is_multiple_of(key_value_heads) {
            let expected = format!("it must divide the {heads} heads");
            return wrong("the number of key-value heads", key_value_heads.to_string(), expected);
        }
        if !head_size.is_multiple_of(2) {
            return wrong("the head size", head_size.to_string(), "it must be even".to_string());
        }
        if rotary == 0 || !rotary.is_multiple_of(2) || rotary > head_size {
            let expected = format!("it must be even, at least 2 and at most the head size, {head_size}");
            return wrong("the rotary width", rotary.to_string(), expected);
        }
        if !(rope_theta > 1.0 && rope_theta <= MAX_THETA) {
            let expected = format!("it must be more than 1 and at most {MAX_THETA:e}");
            return wrong("rope_theta", rope_theta.to_string(), expected);
        }
        if !(self.epsilon >= 0.0 && self.epsilon <= MAX_EPSILON) {
            let expected = format!("it must be at least 0 and at most {MAX_EPSILON}");
            return wrong("rms_norm_eps", self.epsilon.to_string(), expected);
        }
        self.check_routers(file)?;
        self.check_token(file, "mask_token_id", self.mask)?;
        self.check_token(file, "eos_token_id", self.end)
    }

    /// Refuses factors and groups of experts that do not work out.
    fn check_routers(&self, file: &str) -> Result<()> {
        for layer in &self.feed_forward {
            let FeedForward::Experts(experts) = layer else { continue };
            let scale = experts.router.scale;
            if !(scale > 0.0 && scale <= LARGEST_SCALE) {
                let expected = format!("it must be more than 0 and at most {LARGEST_SCALE}");
                let value = scale.to_string();
                return Err(Error::Config { file: file.to_string(), key: "routed_scaling_factor", value, expected });
            }
            let Some(Groups { count, kept }) = experts.router.groups else { continue };
            let size = experts.count.checked_div(count).unwrap_or(0);
            if size < 2 || size * count != experts.count || kept > count || kept * size < experts.active {
                let expected = format!(
                    "{} experts must divide into groups of two or more, of which enough are kept for {} experts per token",
                    experts.count, experts.active
                );
                let value = format!("{count}, of which {kept} are kept");
                return Err(Error::Config { file: file.to_string(), key: "the number of groups", value, expected });
            }
        }
        Ok(())
    }

    /// Refuses a token outside the vocabulary.
    pub(crate) fn check_token(&self, file: &str, key: &'static str, id: Option<Token>) -> Result<()> {
        match id {
            Some(id) if id as usize >= self.vocabulary => {
                let expected = format!("the vocabulary has ids 0 to {}", self.vocabulary - 1);
                Err(Error::Config { file: file.to_string(), key, value: id.to_string(), expected })
            }
            _ => Ok(()),
        }
    }
}
