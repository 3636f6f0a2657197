//! Everything that can be wrong with a request, as facts. Display words them with plain parameter names; [`Error::worded`] lets the
//! command line, the server and Python name parameters in their own way.

use std::fmt;

use crate::Token;

/// The result of the core's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// An error that keeps a run from starting or going on.
#[derive(Debug)]
pub enum Error {
    /// There is nothing to decode.
    NoGaps,
    /// A token id outside the vocabulary.
    TokenOutOfRange {
        /// The id.
        token: Token,
        /// Its position.
        position: usize,
        /// Vocabulary size.
        vocabulary: usize,
    },
    /// More positions than the model's context.
    TooLong {
        /// Positions of the canvas.
        length: usize,
        /// Context length of the model.
        context: usize,
    },
    /// Attention of a layer that does not exist.
    NoSuchLayer {
        /// The layer asked for.
        layer: usize,
        /// Number of layers.
        layers: usize,
    },
    /// Attention of a head that does not exist.
    NoSuchHead {
        /// The head asked for.
        head: usize,
        /// Number of heads.
        heads: usize,
    },
    /// A value of the wrong type or outside its range.
    Parameter {
        /// Name of the parameter.
        name: &'static str,
        /// The value given.
        value: String,
        /// The allowed values: "must be ...".
        expected: String,
    },
    /// A parameter that has no default and was not given.
    MissingParameter {
        /// Name of the parameter.
        name: &'static str,
        /// The part that needs it.
        part: String,
    },
    /// A parameter that has no effect here.
    UnusedParameter {
        /// Name of the parameter.
        name: &'static str,
        /// The strategy or setting that does not use it.
        by: String,
        /// The parts that use it.
        of: Vec<String>,
        /// Settings with which it would have an effect.
        advice: Vec<Advice>,
    },
    /// A parameter that the catalogue does not have.
    UnknownParameter {
        /// The name given.
        name: String,
    },
    /// No order, pace, revision or preset of that name.
    UnknownStrategy {
        /// The name given.
        name: String,
        /// The known name most like it, or all of them.
        advice: String,
    },
    /// A constraint that cannot be read or kept.
    BadConstraint {
        /// The parameter that it was given by.
        name: &'static str,
        /// The reason.
        why: String,
    },
    /// A constraint that no text of the length given meets.
    Unmeetable {
        /// Tokens of the answer or the gap.
        length: usize,
        /// The shortest length that would do, if any would.
        shortest: Option<usize>,
    },
    /// Things that do not go together.
    Incompatible(Message),
    /// A pace chose nothing, or a run does not end.
    NoProgress {
        /// The step.
        step: usize,
    },
    /// A pace chose a position that cannot be filled, or the same twice.
    NotACandidate {
        /// The position.
        position: usize,
        /// The step.
        step: usize,
    },
    /// A revision named a position that is not decided.
    NotDecided {
        /// The position.
        position: usize,
        /// The step.
        step: usize,
    },
    /// An order gave the wrong number of scores, or NaN.
    BadScores {
        /// Number of scores given.
        given: usize,
        /// Number of candidates.
        wanted: usize,
    },
    /// Logits that are NaN or infinite.
    NotFinite {
        /// The position.
        position: usize,
    },
    /// An error of the predictor, or of a part that calls out.
    Predictor(Box<dyn std::error::Error + Send + Sync>),
}

/// A setting that would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// Name of the parameter.
    pub name: &'static str,
    /// The value to give it.
    pub value: String,
}

/// A sentence in which parameters are marked, so that each interface can name them in its own way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Parameter(&'static str),
}

impl Message {
    /// The sentence with a parameter's name appended.
    pub fn parameter(mut self, name: &'static str) -> Self {
        self.0.push(Piece::Parameter(name));
        self
    }

    /// The sentence with text appended.
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.0.push(Piece::Text(text.into()));
        self
    }

    fn worded(&self, name: &dyn Fn(&str) -> String) -> String {
        let word = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Parameter(parameter) => name(parameter),
        };
        self.0.iter().map(word).collect()
    }
}

impl<T: Into<String>> From<T> for Message {
    fn from(text: T) -> Self {
        Self(vec![Piece::Text(text.into())])
    }
}

impl Error {
    /// A value of the wrong type or outside its range; `expected` begins with "must".
    pub fn parameter(name: &'static str, value: impl Into<String>, expected: impl Into<String>) -> Self {
        Self::Parameter { name, value: value.into(), expected: expected.into() }
    }

    /// A parameter that has no effect with `by`.
    pub fn unused(name: &'static str, by: impl Into<String>) -> Self {
        Self::UnusedParameter { name, by: by.into(), of: Vec::new(), advice: Vec::new() }
    }

    /// The same error with a setting that would help.
    pub fn advise(mut self, name: &'static str, value: impl Into<String>) -> Self {
        if let Self::UnusedParameter { advice, .. } = &mut self {
            advice.push(Advice { name, value: value.into() });
        }
        self
    }

    /// The parameter that it is about, if it is about one.
    pub fn about(&self) -> Option<&str> {
        match self {
            Self::Parameter { name, .. } | Self::MissingParameter { name, .. } | Self::UnusedParameter { name, .. } => {
                Some(name)
            }
            Self::BadConstraint { name, .. } => Some(name),
            Self::UnknownParameter { name } => Some(name),
            Self::UnknownStrategy { .. } => Some("strategy"),
            Self::NoSuchLayer { .. } => Some("layer"),
            Self::NoSuchHead { .. } => Some("heads"),
            _ => None,
        }
    }

    /// The message, with `name` writing the names of parameters.
    pub fn worded(&self, name: &dyn Fn(&str) -> String) -> String {
        match self {
            Self::NoGaps => "the canvas has no masked position, so there is nothing to decode".into(),
            Self::TokenOutOfRange { token, position, vocabulary } => {
                let last = vocabulary - 1;
                format!("token {token} at position {position} is out of range: the vocabulary has ids 0 to {last}")
            }
            Self::TooLong { length, context } => format!(
                "the canvas has {length} positions, but the model's context ends at {context}: shorten the prompt or the \
                 generation length"
            ),
            Self::NoSuchLayer { layer, layers: 0 } => {
                format!("layer {layer} does not exist: the model shows no attention")
            }
            Self::NoSuchLayer { layer, layers } => {
                format!("layer {layer} does not exist: the model has layers 0 to {}", layers - 1)
            }
            Self::NoSuchHead { head, heads } => {
                format!("head {head} does not exist: every layer has heads 0 to {}", heads.saturating_sub(1))
            }
            Self::Parameter { name: parameter, value, expected } => {
                let value: String =
                    if value.len() > 40 { value.chars().take(40).chain(['…']).collect() } else { value.clone() };
                format!("{} is {value}, but it {expected}", name(parameter))
            }
            Self::MissingParameter { name: parameter, part } => {
                format!("'{part}' needs {}: it has no default", name(parameter))
            }
            Self::UnusedParameter { name: parameter, by, of, advice } => {
                let mut text = format!("{} has no effect with {by}", name(parameter));
                if !of.is_empty() {
                    text += &format!(": it belongs to {}", of.join(", "));
                }
                for Advice { name: other, value } in advice {
                    text += &format!("; set {} to {value}", name(other));
                }
                text
            }
            Self::UnknownParameter { name } => format!("there is no parameter '{name}'"),
            Self::UnknownStrategy { name, advice } => format!("unknown strategy '{name}': {advice}"),
            Self::BadConstraint { name: parameter, why } => format!("{}: {why}", name(parameter)),
            Self::Unmeetable { length, shortest: Some(shortest) } => format!(
                "the constraint cannot be met in {length} tokens: the shortest length that would do is {shortest}"
            ),
            Self::Unmeetable { shortest: None, .. } => {
                "the constraint cannot be met in any number of tokens: no tokens spell \
                                                        such a text, or what is already there contradicts it"
                    .into()
            }
            Self::Incompatible(message) => message.worded(name),
            Self::NoProgress { step } => {
                format!("the strategy makes no progress at step {step}: its pace must choose at least one position")
            }
            Self::NotACandidate { position, step } => {
                format!(
                    "the pace chose position {position} at step {step}, which is not a candidate or was chosen twice"
                )
            }
            Self::NotDecided { position, step } => {
                format!("the revision named position {position} at step {step}, where no token was decided")
            }
            Self::BadScores { given, wanted } => {
                format!(
                    "the order must give one number for each of {wanted} candidates, but gave {given}, or NaN among them"
                )
            }
            Self::NotFinite { position } => format!(
                "the model's logits at position {position} are not finite: its weights may be damaged, or temperature or guidance \
                 too extreme"
            ),
            Self::Predictor(error) => error.to_string(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.worded(&str::to_string))
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Predictor(error) => error.source(),
            _ => None,
        }
    }
}
