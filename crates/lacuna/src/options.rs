//! Options of a run beside its strategy, and the parameters that go with every strategy.

use std::sync::Arc;

use crate::catalogue::{Default, Kind, Parameter, Range, Section};
use crate::{AttentionSource, Constraint, GapSearch, Sampling, Token};

/// Options of a run beside its strategy.
#[derive(Clone, Debug, std::default::Default)]
pub struct Options {
    /// Rule by which tokens are taken from distributions.
    pub sampling: Sampling,
    /// Tokens that are never chosen and have no probability. The mask token always belongs here.
    pub suppressed: Vec<Token>,
    /// The texts that the run may write, if not all. It alone says which tokens may stand where it says anything.
    pub constraint: Option<Arc<dyn Constraint>>,
    /// End tokens. Once one of them is decided and so is everything before it, the run stops: positions behind it cannot change
    /// the text. Empty: the run goes on until every position is decided.
    pub stop: Vec<Token>,
    /// Scale of classifier-free guidance; 0 is none. It takes a second forward pass per step, of the canvas without its prompt.
    pub guidance: f32,
    /// Attention that decoding does not need but [`Run::seen`](crate::Run::seen) shows.
    pub watch: Vec<AttentionSource>,
    /// Number of most probable tokens that are recorded for every token that is decided ([`Commit::alternatives`]).
    ///
    /// [`Commit::alternatives`]: crate::Commit::alternatives
    pub alternatives: usize,
    /// Seed of all random draws.
    pub seed: u64,
    /// Growth of the canvas, if it may grow.
    pub grow: Option<Grow>,
    /// Gaps whose lengths are found first.
    pub find: Option<GapSearch>,
    /// Length of the text with its prompt, if the canvas may be longer ([`Window::canvas_length`](crate::Window::canvas_length)).
    pub length: Option<usize>,
}

/// Growth of a canvas: masks are appended while every position is decided and no end token stands in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grow {
    /// Tokens that end the text.
    pub ends: Vec<Token>,
    /// Masks appended at a time.
    pub by: usize,
    /// Upper bound on the length of the canvas.
    pub most: usize,
}

const LENGTHS: Kind = Kind::Integer { least: 1, most: 1 << 24 };
const CONVENTIONS: Kind = Kind::Choice(&["llada", "dream"]);

/// The longest name of a strategy, in bytes.
pub const MAX_STRATEGY_BYTES: usize = 160;

/// Default bound on the tokens of a gap of unknown length.
pub const DEFAULT_MAX_GAP: usize = 16;

/// The parameters that constrain the text. At most one of them is given.
pub const CONSTRAINTS: [&str; 5] = ["regex", "choices", "json", "json_schema", "grammar"];

/// The parameters that go with every strategy.
pub(crate) const PARAMETERS: &[Parameter] = &[
    Parameter::new(
        "strategy",
        Kind::Text,
        Default::Depends("the model's own, else dos+eb"),
        "<order>[+<pace>][+<revision>], or a preset",
    ),
    Parameter::new(
        "max_tokens",
        LENGTHS,
        Default::Depends("no limit but gen_length; 2048 with length daedal"),
        "upper bound on the tokens of the answer; the canvas starts at gen_length if length is daedal, else at the model's \
         recommended length, and grows by as much while no end comes",
    ),
    Parameter::new(
        "gen_length",
        LENGTHS,
        Default::Depends("the model's own, else 128"),
        "exact number of masked positions to decode; with length daedal the number at the start",
    ),
    Parameter::new(
        "draft",
        Kind::Text,
        Default::Depends("none"),
        "text that the answer begins with, which a revision may change",
    ),
    Parameter::new(
        "max_gap",
        Kind::Integer { least: 1, most: 128 },
        Default::Number(DEFAULT_MAX_GAP as f64),
        "most tokens of a gap of unknown length, written <gap>",
    ),
    Parameter::new(
        "window",
        Kind::Part(Section::Window),
        Default::Word("blocks"),
        "which masked positions may be filled now",
    ),
    Parameter::new("length", Kind::Part(Section::Length), Default::Word("fixed"), "how many positions the canvas has"),
    Parameter::new(
        "cache",
        Kind::Part(Section::Cache),
        Default::Word("none"),
        "which positions a forward pass computes; the keys and values of the others are taken from earlier passes, which is \
         faster, and approximate unless attention is block-causal",
    ),
    Parameter::new(
        "order_temperature",
        Kind::Number(Range::closed(0.0, 1000.0)),
        Default::Number(0.0),
        "temperature at which the order is drawn; 0 takes the highest score",
    )
    .alias("alg_temp"),
    Parameter::new(
        "temperature",
        Kind::Number(Range::closed(0.0, 1000.0)),
        Default::Number(0.0),
        "temperature at which tokens are drawn; 0 takes the most probable token",
    ),
    Parameter::new(
        "top_p",
        Kind::Number(Range::above(0.0, 1.0)),
        Default::Number(1.0),
        "draw only from the most probable tokens that together reach this probability; no effect at temperature 0 unless sampling \
         is dream",
    ),
    Parameter::new(
        "top_k",
        Kind::Integer { least: 0, most: 1 << 24 },
        Default::Depends("all tokens"),
        "draw only from this many most probable tokens; no effect at temperature 0 unless sampling is dream",
    ),
    Parameter::new(
        "sampling",
        CONVENTIONS,
        Default::Depends("the model's own"),
        "meaning of temperature: llada draws the token but ranks by untempered confidence, dream tempers both",
    ),
    Parameter::new(
        "guidance",
        Kind::Number(Range::closed(0.0, 1000.0)),
        Default::Number(0.0),
        "scale of classifier-free guidance; above 0 every step takes two forward passes",
    )
    .alias("cfg_scale"),
    Parameter::new(
        "suppress_eos",
        Kind::Flag,
        Default::Flag(false),
        "never choose the end-of-text token (LLaDA's logits_eos_inf)",
    ),
    Parameter::new(
        "defer_eos",
        Kind::Flag,
        Default::Flag(false),
        "commit end-of-text and end-of-turn tokens last (LLaDA's confidence_eos_eot_inf)",
    ),
    Parameter::new(
        "regex",
        Kind::Text,
        Default::Depends("none"),
        "regular expression that the answer matches as a whole; in a text with gaps, each gap",
    )
    .alias("guided_regex"),
    Parameter::new("choices", Kind::Texts, Default::Depends("none"), "texts of which the answer, or each gap, is one")
        .alias("guided_choice"),
    Parameter::new("json", Kind::Flag, Default::Flag(false), "the answer, or each gap, is a JSON object"),
    Parameter::new(
        "json_schema",
        Kind::File,
        Default::Depends("none"),
        "JSON schema that the answer, or each gap, is valid by",
    )
    .alias("guided_json"),
    Parameter::new(
        "grammar",
        Kind::File,
        Default::Depends("none"),
        "context-free grammar of the answer, or of each gap, in llama.cpp's notation (GBNF)",
    )
    .alias("guided_grammar"),
    Parameter::new(
        "early_stop",
        Kind::Flag,
        Default::Flag(true),
        "stop once everything before the first end token is decided; the text is the same",
    ),
    Parameter::new(
        "top_logprobs",
        Kind::Integer { least: 0, most: 20 },
        Default::Number(0.0),
        "number of most probable tokens to return, with their log-probabilities, for every token at the step that decided it",
    ),
    Parameter::new(
        "seed",
        Kind::Integer { least: 0, most: u64::MAX },
        Default::Number(0.0),
        "seed of all random draws",
    ),
];
