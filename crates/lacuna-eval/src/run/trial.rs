//! A trial: one strategy on one task.

use std::fmt;
use std::str::FromStr;

use lacuna::catalogue::{Need, Params};
use lacuna::{Recipe, Strategy};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// One strategy with its settings on one task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The task.
    pub task: String,
    /// The protocol that it is asked in.
    pub protocol: String,
    /// The strategy, as `--strategy` takes it.
    pub strategy: String,
    /// Parameters of the strategy.
    pub settings: Params,
    /// Number of generated tokens.
    pub gen_length: usize,
    /// Block length; equal to `gen_length` for one block.
    pub block_length: usize,
    /// True if decoding stops once everything before the first end-of-text is decided. The answer is the same; the number
    /// of forward passes is not.
    pub early_stop: bool,
    /// The tables and figures it belongs to.
    #[serde(default)]
    pub labels: Vec<String>,
}

impl Trial {
    /// True if the order uses attention, so that it has layers.
    pub fn uses_attention(&self) -> bool {
        Recipe::parse(&self.strategy, &Params::new()).is_ok_and(|recipe| recipe.needs(Need::Attention))
    }

    /// The layers whose attention is used.
    pub fn layers(&self) -> Vec<usize> {
        let strategy = self.strategy().ok();
        let sources = strategy.iter().flat_map(|strategy| strategy.order.ranks_by().attention());
        sources.map(|source| source.layer).collect()
    }

    /// True if ends of text are committed last.
    pub fn defers_ends(&self) -> bool {
        self.settings.flag("defer_eos") == Some(true)
    }

    /// True if the end of text is never chosen.
    pub fn suppresses_ends(&self) -> bool {
        self.settings.flag("suppress_eos") == Some(true)
    }

    /// The strategy and its rule for ends of text: what the lines of a plot stand for.
    pub fn method(&self) -> String {
        let rule = match (self.defers_ends(), self.suppresses_ends()) {
            (true, _) => ", ends last",
            (_, true) => ", no ends",
            _ => "",
        };
        format!("{}{rule}", self.strategy)
    }

    /// True if both measure the same, whatever tables they are for.
    pub fn same(&self, other: &Self) -> bool {
        let bare = |trial: &Self| Self { labels: Vec::new(), ..trial.clone() };
        bare(self) == bare(other)
    }

    /// The task and the protocol: trials that share them share their problems.
    pub(super) fn benchmark(&self) -> String {
        format!("{}/{}", self.task, self.protocol)
    }

    /// A name for its file: readable, and different for different trials.
    pub fn file_name(&self) -> String {
        let layers = self.layers().iter().map(usize::to_string).collect::<Vec<_>>().join("-");
        let layers = if layers.is_empty() { String::new() } else { format!("-layer{layers}") };
        let bare = Self { labels: Vec::new(), ..self.clone() };
        let text = serde_json::to_string(&bare).expect("a trial has no value that JSON lacks");
        format!(
            "{}-{}-{}{layers}-{}x{}-{:08x}.jsonl",
            self.task,
            self.protocol,
            self.strategy.replace('+', "_"),
            self.gen_length,
            self.block_length,
            fingerprint(text.as_bytes()) as u32
        )
    }

    /// The strategy with what distinguishes it from others of the same name, for tables.
    pub fn title(&self) -> String {
        let mut details = Vec::new();
        match &self.layers()[..] {
            [] => {}
            [layer] => details.push(format!("layer {layer}")),
            layers => {
                details.push(format!("layers {}", layers.iter().map(usize::to_string).collect::<Vec<_>>().join(",")));
            }
        }
        if let Some(heads) = self.settings.integers("heads") {
            details.push(format!("heads {}", heads.iter().map(usize::to_string).collect::<Vec<_>>().join(",")));
        }
        if self.order() == "given" && self.settings.get("places").is_none() {
            details.push("oracle".into());
        }
        details.extend(self.settings.word("window").map(|window| format!("{window} window")));
        details
            .extend(self.settings.word("cache").filter(|cache| *cache != "none").map(|cache| format!("{cache} cache")));
        if details.is_empty() { self.method() } else { format!("{} ({})", self.method(), details.join(", ")) }
    }

    /// Name of the strategy's order.
    pub fn order(&self) -> String {
        Recipe::parse(&self.strategy, &Params::new()).map(|recipe| recipe.order().to_string()).unwrap_or_default()
    }

    /// The strategy with its parameters.
    pub fn strategy(&self) -> Result<Strategy> {
        Ok(Strategy::parse(&self.strategy, &self.settings.clone().with("block_length", self.block_length)?)?)
    }
}

/// FNV-1a: the same on every machine and in every version.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Shard of an evaluation over several machines: `i/n`, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// From 1.
    pub index: usize,
    /// Their number.
    pub count: usize,
}

impl Default for Shard {
    fn default() -> Self {
        Self { index: 1, count: 1 }
    }
}

impl Shard {
    pub(super) fn has(self, place: usize) -> bool {
        place % self.count == self.index - 1
    }
}

impl FromStr for Shard {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let numbers = text.split_once('/').and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        match numbers {
            Some((index, count)) if index >= 1 && index <= count => Ok(Self { index, count }),
            _ => {
                Err(Error::Request(format!("--shard {text} makes no sense: write i/n with i from 1 to n, such as 2/4")))
            }
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.index, self.count)
    }
}

/// Part of a task's problems.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// All.
    #[default]
    All,
    /// Every fourth, which calibration uses.
    Tune,
    /// Those that calibration does not see.
    Test,
}

impl Part {
    pub(super) fn has(self, row: usize) -> bool {
        match self {
            Self::All => true,
            Self::Tune => row % 4 == 3,
            Self::Test => row % 4 != 3,
        }
    }
}
