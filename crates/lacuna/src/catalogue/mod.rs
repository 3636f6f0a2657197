//! The catalogue: every part that a strategy can be made of, and every parameter, with its range, default and description.
//!
//! Everything that shows or reads an option is derived from it: [`Strategy::parse`](crate::Strategy::parse), the command line's
//! flags and help, the server's fields and their schema, the page's controls, Python's options, the keys of suite files, and the
//! tables of the docs. To add a part, write it and its record in one file, and list the record in its section's `parts`;
//! [`register`] does the same at run time.

mod example;
mod layers;
mod parameter;

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

pub use example::{ANSWER, Example, QUESTION};
pub use layers::Layers;
pub use parameter::{Default, Kind, Parameter, Params, Range, Value};

use crate::{
    Cache, Error, Length, Order, Pace, Result, Revision, Window, cache, length, options, order, pace, revision, window,
};

/// The kinds of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Orders: which masked position comes first.
    Order,
    /// Paces: how many positions to commit in a step.
    Pace,
    /// Revisions: which committed positions to reopen.
    Revision,
    /// Windows: which masked positions may be filled now.
    Window,
    /// Lengths: how many positions the canvas has.
    Length,
    /// Caches: which positions a forward pass computes.
    Cache,
}

impl Section {
    /// All sections, in the order in which they are shown.
    pub const ALL: [Self; 6] = [Self::Order, Self::Pace, Self::Revision, Self::Window, Self::Length, Self::Cache];

    /// Its title, and what its parts decide.
    pub fn title(self) -> [&'static str; 2] {
        match self {
            Self::Order => ["Orders", "which masked position comes first"],
            Self::Pace => ["Paces", "how many positions to commit in one step"],
            Self::Revision => ["Revisions", "which committed positions to reopen"],
            Self::Window => ["Windows", "which masked positions may be filled now"],
            Self::Length => ["Lengths", "how many positions the canvas has"],
            Self::Cache => ["Caches", "which positions a forward pass computes; all but none and blocks approximate"],
        }
    }

    /// The parameter that names its part, if the strategy's name does not.
    pub fn parameter(self) -> Option<&'static str> {
        match self {
            Self::Order | Self::Pace | Self::Revision => None,
            Self::Window => Some("window"),
            Self::Length => Some("length"),
            Self::Cache => Some("cache"),
        }
    }
}

/// Something that a part needs beyond the canvas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Attention of one or more layers.
    Attention,
    /// Beliefs of all candidates.
    Beliefs,
    /// The beliefs of the step before.
    PreviousBeliefs,
    /// Shadow rows ([`View::shadows`](crate::View::shadows)).
    Shadows,
    /// Cached keys and values.
    KvCache,
    /// Attention followed through all layers ([`View::rollout`](crate::View::rollout)).
    Rollout,
}

impl Need {
    /// Its name, in snake case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Attention => "attention",
            Self::Beliefs => "beliefs",
            Self::PreviousBeliefs => "previous_beliefs",
            Self::Shadows => "shadows",
            Self::KvCache => "kv_cache",
            Self::Rollout => "rollout",
        }
    }
}

/// The record of a part: an order, a pace, a revision, a window, a length or a cache.
pub struct Part {
    /// Name, as it stands in a strategy's name or as the value of `window`, `length` or `cache`.
    pub name: Cow<'static, str>,
    /// Description in one line, lower case.
    pub about: Cow<'static, str>,
    /// Needs beyond the canvas.
    pub needs: Vec<Need>,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// Makes it of its parameters.
    pub build: Build,
}

/// A function that makes a part of its parameters.
pub enum Build {
    /// Makes an order.
    Order(Builder<Arc<dyn Order>>),
    /// Makes a pace.
    Pace(Builder<Box<dyn Pace>>),
    /// Makes a pace of the number at the end of its name, such as `top4`. The record is named with the number 1.
    NumberedPace(fn(usize) -> Box<dyn Pace>),
    /// Makes a revision.
    Revision(Builder<Box<dyn Revision>>),
    /// Makes a window.
    Window(Builder<Arc<dyn Window>>),
    /// Makes a length.
    Length(Builder<Box<dyn Length>>),
    /// Makes a cache.
    Cache(Builder<Box<dyn Cache>>),
}

/// Makes a `T` of a part's parameters.
pub type Builder<T> = Box<dyn Fn(&PartParams<'_>) -> Result<T> + Send + Sync>;

/// A published method under its own name.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Name.
    pub name: &'static str,
    /// Description in one line.
    pub about: &'static str,
    /// The parts it is made of, as a strategy's name.
    pub is: &'static str,
    /// The parts it is made of where this parameter is given.
    pub with: Option<(&'static str, &'static str)>,
    /// Values of parameters where they differ from the parts' own defaults.
    pub values: &'static [(&'static str, Default)],
}

impl Preset {
    /// The parts it is made of with these parameters.
    pub fn parts(&self, params: &Params) -> &'static str {
        match self.with {
            Some((parameter, parts)) if params.get(parameter).is_some() => parts,
            _ => self.is,
        }
    }

    const fn new(name: &'static str, about: &'static str, is: &'static str) -> Self {
        Self { name, about, is, with: None, values: &[] }
    }

    const fn values(self, values: &'static [(&'static str, Default)]) -> Self {
        Self { values, ..self }
    }
}

/// The title of the presets, and what they are, as a section has them.
pub const PRESETS_TITLE: [&str; 2] = ["Presets", "published methods"];

/// The presets.
pub const PRESETS: &[Preset] = &[
    Preset::new(
        "llada",
        "LLaDA's own sampler: the most confident first, in a fixed number of steps",
        "confidence+schedule",
    ),
    Preset::new("fast-dllm", "Fast-dLLM: all positions that are confident enough at once", "confidence+threshold"),
    Preset::new("klass", "KLASS: all positions that are confident and stable", "confidence+klass"),
    Preset::new("wino", "WINO: draft widely, then reopen what does not hold", "confidence+draft+verify"),
    Preset::new(
        "saber",
        "Saber: more positions at once as confidence grows, with backtracking",
        "confidence+adaptive+backtrack",
    ),
    Preset::new(
        "dsb",
        "DSB: confident positions of a window that slides as tokens are committed",
        "confidence+threshold-or-schedule",
    )
    .values(&[("window", Default::Word("sliding"))]),
    Preset::new(
        "localleap",
        "LocalLeap: confident positions, and less confident ones near them",
        "confidence+localleap",
    ),
    Preset::new(
        "hierarchy",
        "dInfer's hierarchy: the best of every run of masks, and all confident positions",
        "confidence+hierarchy",
    ),
    Preset::new(
        "hierarchy-remask",
        "dInfer's hierarchy that reopens tokens which have lost confidence",
        "confidence+hierarchy+regroup",
    )
    .values(&[("remask_threshold", Default::Number(0.4)), ("low_threshold", Default::Number(0.4))]),
    Preset::new(
        "credit",
        "dInfer's credit: confident positions, with tokens that were the best before raised",
        "confidence+credit",
    ),
    Preset::new("dawn", "DAWN: confident positions, and others that the attention graph allows", "confidence+dawn"),
    Preset::new(
        "pc-sampler",
        "PC-Sampler: early positions and tokens that are rarer than the model finds them first",
        "prior+schedule",
    ),
    Preset::new(
        "prophet",
        "Prophet: LLaDA's sampler, and everything at once when the answer is sure",
        "confidence+prophet",
    ),
    Preset::new(
        "p2",
        "P2: in every step the best share of all positions is kept, the rest is masked again",
        "confidence+plan+replan",
    ),
    Preset::new(
        "remdm",
        "ReMDM's deterministic form: the least probable tokens are reopened, one by one",
        "confidence+top1+remdm",
    ),
    Preset::new(
        "core",
        "CORE: LLaDA's sampler with tokens replaced that do not hold when the least certain are masked together",
        "confidence+schedule+core",
    ),
    Preset::new("sdar", "SDAR: all confident positions of a block, at least the step's share", "confidence+quota")
        .values(&[("threshold", Default::Number(0.85)), ("cache", Default::Word("blocks"))]),
    Preset::new("sdar-static", "SDAR: the step's share of a block, the most confident first", "confidence+quota")
        .values(&[("cache", Default::Word("blocks"))]),
    Preset::new("sdar-sequential", "SDAR: the step's share of a block, from left to right", "left+quota")
        .values(&[("cache", Default::Word("blocks"))]),
    Preset::new(
        "llada2",
        "LLaDA2.0: all confident positions of a block, at least the step's share",
        "confidence+quota",
    )
    .values(&[("threshold", Default::Number(0.95))]),
    Preset::new(
        "llada2.1",
        "LLaDA2.1: confident positions of a block, and tokens replaced that the model would choose otherwise",
        "confidence+quota+edit",
    )
    .values(&[("threshold", Default::Number(0.7)), ("min_commit", Default::Number(1.0))]),
    Preset::new(
        "fast-dllm-v2",
        "Fast-dLLM v2: confident positions of a sub-block; a finished block gives the first token of the next",
        "confidence+quota",
    )
    .values(&[
        ("threshold", Default::Number(0.9)),
        ("min_commit", Default::Number(1.0)),
        ("window", Default::Word("sub-blocks")),
        ("cache", Default::Word("blocks")),
        ("open_blocks", Default::Flag(true)),
    ]),
    Preset::new(
        "stable-diffcoder",
        "Stable-DiffCoder: LLaDA's sampler or a threshold, block by block",
        "confidence+threshold-or-schedule",
    )
    .values(&[("whole_blocks", Default::Flag(false)), ("cache", Default::Word("blocks"))]),
    Preset::new("bd3lm", "A2D's BD3LM: a linear schedule, blocks from the prompt's end", "confidence+schedule").values(
        &[
            ("schedule", Default::Word("linear")),
            ("window", Default::Word("causal-blocks")),
            ("cache", Default::Word("blocks")),
            ("block_passes", Default::Word("before")),
        ],
    ),
    Preset {
        with: Some(("gamma", "confidence+eb-steps")),
        ..Preset::new(
            "rnd1",
            "RND1: the least uncertain first in a fixed number of steps; with gamma the entropy bound",
            "entropy+schedule",
        )
        .values(&[("schedule", Default::Word("rnd1"))])
    },
    Preset::new(
        "daedal",
        "DAEDAL: confident positions of a canvas that grows where the model needs room",
        "confidence+threshold",
    )
    .values(&[
        ("length", Default::Word("daedal")),
        ("threshold", Default::Number(0.9)),
        ("block_length", Default::Number(32.0)),
    ]),
];

static BUILT_IN: LazyLock<Vec<Arc<Part>>> = LazyLock::new(|| {
    let sections = [order::parts(), pace::parts(), revision::parts(), window::parts(), length::parts(), cache::parts()];
    sections.into_iter().flatten().map(Arc::new).collect()
});
static REGISTERED: RwLock<Vec<Arc<Part>>> = RwLock::new(Vec::new());

/// The parts of a section: those built in, then those registered.
pub fn parts(section: Section) -> Vec<Arc<Part>> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    BUILT_IN.iter().chain(registered.iter()).filter(|part| part.section() == section).cloned().collect()
}

/// A parameter under its name, with all that parts have of it.
#[derive(Clone, Debug)]
pub struct Named {
    /// The parameter; of several, the first.
    pub parameter: Parameter,
    /// The same parameter as each part has it, which may have a range or a default of its own; empty if it goes with every strategy.
    pub of: Vec<(String, Parameter)>,
}

impl Named {
    /// Its variants that differ in kind.
    pub fn kinds(&self) -> Vec<Parameter> {
        let mut kinds = vec![self.parameter];
        for (_, parameter) in &self.of {
            if !kinds.iter().any(|known| known.kind == parameter.kind) {
                kinds.push(*parameter);
            }
        }
        kinds
    }

    /// The names of the parts that have it.
    pub fn users(&self) -> Vec<String> {
        self.of.iter().map(|(part, _)| part.clone()).collect()
    }

    /// Its default in words, with the parts' names where they differ.
    pub fn default(&self) -> String {
        let defaults: Vec<String> = self.of.iter().map(|(_, parameter)| parameter.default.to_string()).collect();
        if defaults.iter().all(|default| *default == self.parameter.default.to_string()) {
            return self.parameter.default.to_string();
        }
        let each = self.of.iter().zip(&defaults).map(|((part, _), default)| format!("{part}: {default}"));
        each.collect::<Vec<_>>().join("; ")
    }
}

/// All parameters, each name once: those of decoding in general, then those of the parts.
pub fn parameters() -> Vec<Named> {
    let general = options::PARAMETERS.iter();
    let mut all: Vec<Named> = general.map(|&parameter| Named { parameter, of: Vec::new() }).collect();
    for part in Section::ALL.into_iter().flat_map(parts) {
        for &parameter in &part.parameters {
            let of = (part.name.to_string(), parameter);
            match all.iter_mut().find(|known| known.parameter.name == parameter.name) {
                Some(known) => known.of.push(of),
                None => all.push(Named { parameter, of: vec![of] }),
            }
        }
    }
    all
}

/// The parameter of this name.
pub fn parameter(name: &str) -> Option<Named> {
    parameters().into_iter().find(|known| known.parameter.name == name)
}

/// Adds a part under its name. A part that was registered under this name before is replaced; built-in names are refused.
pub fn register(part: Part) -> Result<()> {
    let name = part.name.to_string();
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(plain) {
        let expected = format!("must be 1 to {MAX_NAME} lower-case letters, digits, '-', '_' or '.'");
        return Err(Error::parameter("name", name, expected));
    }
    let taken = BUILT_IN.iter().any(|other| other.name == name) || PRESETS.iter().any(|preset| preset.name == name);
    if taken || pace::number_of(&name).is_some() {
        return Err(Error::Incompatible(format!("'{name}' is built in: choose another name").into()));
    }
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    registered.retain(|other| other.name != name);
    registered.push(Arc::new(part));
    Ok(())
}

/// Most bytes in the name of a part.
const MAX_NAME: usize = 48;

impl Part {
    /// Section of the part.
    pub fn section(&self) -> Section {
        match self.build {
            Build::Order(_) => Section::Order,
            Build::Pace(_) | Build::NumberedPace(_) => Section::Pace,
            Build::Revision(_) => Section::Revision,
            Build::Window(_) => Section::Window,
            Build::Length(_) => Section::Length,
            Build::Cache(_) => Section::Cache,
        }
    }

    /// Its parameter of this name.
    pub fn parameter(&self, name: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }

    /// The record of an order.
    pub fn order(
        name: &'static str,
        about: &'static str,
        build: impl Fn(&PartParams<'_>) -> Result<Arc<dyn Order>> + Send + Sync + 'static,
    ) -> Self {
        Self::new(name, about, Build::Order(Box::new(build)))
    }

    /// The record of a pace.
    pub fn pace(
        name: &'static str,
        about: &'static str,
        build: impl Fn(&PartParams<'_>) -> Result<Box<dyn Pace>> + Send + Sync + 'static,
    ) -> Self {
        Self::new(name, about, Build::Pace(Box::new(build)))
    }

    /// The record of a revision.
    pub fn revision(
        name: &'static str,
        about: &'static str,
        build: impl Fn(&PartParams<'_>) -> Result<Box<dyn Revision>> + Send + Sync + 'static,
    ) -> Self {
        Self::new(name, about, Build::Revision(Box::new(build)))
    }

    /// The record of a window.
    pub fn window(
        name: &'static str,
        about: &'static str,
        build: impl Fn(&PartParams<'_>) -> Result<Arc<dyn Window>> + Send + Sync + 'static,
    ) -> Self {
        Self::new(name, about, Build::Window(Box::new(build)))
    }

    /// The record of a length.
    pub fn length(
        name: &'static str,
        about: &'static str,
        build: impl Fn(&PartParams<'_>) -> Result<Box<dyn Length>> + Send + Sync + 'static,
    ) -> Self {
        Self::new(name, about, Build::Length(Box::new(build)))
    }

    /// The record of a cache.
    pub fn cache(
        name: &'static str,
        about: &'static str,
        build: impl Fn(&PartParams<'_>) -> Result<Box<dyn Cache>> + Send + Sync + 'static,
    ) -> Self {
        Self::new(name, about, Build::Cache(Box::new(build)))
    }

    /// A record without needs and parameters.
    pub fn new(name: impl Into<Cow<'static, str>>, about: impl Into<Cow<'static, str>>, build: Build) -> Self {
        Self { name: name.into(), about: about.into(), needs: Vec::new(), parameters: Vec::new(), build }
    }

    /// The same record with these needs.
    pub fn needs(mut self, needs: &[Need]) -> Self {
        self.needs = needs.to_vec();
        self
    }

    /// The same record with these parameters.
    pub fn parameters(mut self, parameters: &[Parameter]) -> Self {
        self.parameters = parameters.to_vec();
        self
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Part").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The parameters of a part: the values that were given, and the part's defaults for the others.
pub struct PartParams<'a> {
    part: &'a Part,
    params: &'a Params,
}

impl<'a> PartParams<'a> {
    pub(crate) fn new(part: &'a Part, params: &'a Params) -> Result<Self> {
        for parameter in &part.parameters {
            match params.get(parameter.name) {
                Some(value) => drop(parameter.check(value)?),
                None if parameter.default == Default::Required => {
                    return Err(Error::MissingParameter { name: parameter.name, part: part.name.to_string() });
                }
                None => {}
            }
        }
        Ok(Self { part, params })
    }

    fn default(&self, name: &str) -> Default {
        self.part.parameter(name).unwrap_or_else(|| panic!("'{}' has no parameter '{name}'", self.part.name)).default
    }

    /// A number.
    pub fn number(&self, name: &str) -> f64 {
        match self.default(name) {
            Default::Number(default) => self.params.number(name).unwrap_or(default),
            _ => self.params.number(name).unwrap_or_else(|| panic!("'{name}' has no default")),
        }
    }

    /// A number, if it was given.
    pub fn optional_number(&self, name: &str) -> Option<f64> {
        self.params.number(name)
    }

    /// A whole number.
    pub fn integer(&self, name: &str) -> usize {
        self.optional_integer(name).unwrap_or_else(|| match self.default(name) {
            Default::Number(default) => default as usize,
            _ => panic!("'{name}' has no default"),
        })
    }

    /// A whole number, if it was given.
    pub fn optional_integer(&self, name: &str) -> Option<usize> {
        self.params.integer(name)
    }

    /// True or false.
    pub fn flag(&self, name: &str) -> bool {
        self.params.flag(name).unwrap_or(self.default(name) == Default::Flag(true))
    }

    /// A word, if it was given.
    pub fn optional_word(&self, name: &str) -> Option<&str> {
        self.params.word(name)
    }

    /// A word.
    pub fn word(&self, name: &str) -> &str {
        match self.default(name) {
            Default::Word(default) => self.params.word(name).unwrap_or(default),
            _ => self.params.word(name).unwrap_or_else(|| panic!("'{name}' has no default")),
        }
    }

    /// A list of whole numbers, if it was given.
    pub fn integers(&self, name: &str) -> Option<Vec<usize>> {
        self.params.integers(name)
    }

    /// True if a parameter was given.
    pub fn has(&self, name: &str) -> bool {
        self.params.get(name).is_some()
    }
}
