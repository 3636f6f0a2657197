//! Everything that can be wrong with a request, said so that the user can mend it.

use crate::Token;

/// What the core returns.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a run cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is nothing to decode.
    #[error("the canvas has no masked position, so there is nothing to decode")]
    NoGaps,
    /// A token the model does not know.
    #[error("token {token} at position {position} is out of range: the vocabulary has ids 0 to {}", vocabulary - 1)]
    TokenOutOfRange {
        /// The offending id.
        token: Token,
        /// Where it stands.
        position: usize,
        /// How many tokens the model knows.
        vocabulary: usize,
    },
    /// More positions than the model was made for.
    #[error(
        "the canvas has {length} positions, but the model's context ends at {context}: shorten the prompt or the generation length"
    )]
    TooLong {
        /// Positions of the canvas.
        length: usize,
        /// Positions the model takes.
        context: usize,
    },
    /// Attention was asked of a layer that does not exist.
    #[error("layer {layer} does not exist: the model has layers 0 to {}", *layers as isize - 1)]
    NoSuchLayer {
        /// The layer asked for.
        layer: usize,
        /// How many there are.
        layers: usize,
    },
    /// Attention was asked of a head that does not exist.
    #[error("head {head} does not exist: every layer has heads 0 to {}", *heads as isize - 1)]
    NoSuchHead {
        /// The head asked for.
        head: usize,
        /// How many there are.
        heads: usize,
    },
    /// A number outside the range in which it means something.
    #[error("{name} is {value}, but {expected}")]
    Parameter {
        /// The setting.
        name: &'static str,
        /// What was given.
        value: String,
        /// What would be right.
        expected: String,
    },
    /// No order, pace, revision or preset of that name.
    #[error("unknown strategy '{name}': {advice}")]
    UnknownStrategy {
        /// What was asked for.
        name: String,
        /// The known name most like it, or all of them.
        advice: String,
    },
    /// Parts that make no sense together.
    #[error("{0}")]
    Incompatible(String),
    /// The model answered with NaN or infinity.
    #[error(
        "the model's logits at position {position} are not finite: its weights may be damaged, or temperature or guidance too extreme"
    )]
    NotFinite {
        /// Where.
        position: usize,
    },
    /// What the predictor itself reports.
    #[error(transparent)]
    Predictor(Box<dyn std::error::Error + Send + Sync>),
}
