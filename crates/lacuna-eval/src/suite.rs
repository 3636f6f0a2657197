//! Suites: what to measure, as data. The paper's tables are one; users write their own.
//!
//! ```
//! let suite = lacuna_eval::suite::Suite::parse("mine", r#"
//!     about = "Two orders on the embedded model's word problems"
//!
//!     [[group]]
//!     label = "orders"
//!     tasks = ["words"]
//!     strategies = ["confidence", "dos"]
//!     blocks = ["one", 32]
//! "#)?;
//! let trials = suite.trials("LLaDA", 12, &[2])?;
//! assert_eq!(trials.len(), 4);
//! # Ok::<(), lacuna_eval::Error>(())
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use lacuna::Recipe;
use lacuna::catalogue::{Params, Section, Value, parts};
use serde::Deserialize;

use crate::run::Trial;
use crate::{Error, Result, task};

/// The suites that come with the program.
pub const SUITES: [(&str, &str); 5] = [
    ("paper", include_str!("../suites/paper.toml")),
    ("mini", include_str!("../suites/mini.toml")),
    ("orders", include_str!("../suites/orders.toml")),
    ("heads", include_str!("../suites/heads.toml")),
    ("strategies", include_str!("../suites/strategies.toml")),
];

/// Settings that go with every strategy: rules for ends of text.
const OF_ALL: [&str; 2] = ["defer_eos", "suppress_eos"];

/// A list of things to measure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// Purpose of the suite.
    #[serde(default)]
    pub about: String,
    /// Settings for every trial.
    #[serde(default)]
    settings: toml::Table,
    /// Settings by family of model and then by task.
    #[serde(default)]
    family: BTreeMap<String, BTreeMap<String, toml::Table>>,
    /// Protocols by task, where they are not the task's default.
    #[serde(default)]
    protocol: BTreeMap<String, String>,
    /// True if decoding stops once the answer is decided.
    #[serde(default)]
    early_stop: bool,
    group: Vec<Group>,
}

/// Every combination of some tasks, strategies, lengths, blocks and layers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    /// The table or figure.
    label: Option<String>,
    /// Only for this family of models.
    family: Option<String>,
    tasks: Vec<String>,
    /// Names of strategies; `*` as the order stands for every order, as far as it goes with the rest.
    strategies: Vec<String>,
    #[serde(default)]
    gen_lengths: Vec<usize>,
    /// Block lengths; "one" is one block.
    #[serde(default)]
    blocks: Vec<Block>,
    /// The layers to try, one after the other: numbers from 0, lists of numbers that are averaged, or "all".
    layers: Option<Layers>,
    /// The layer for each task.
    #[serde(default)]
    layer: BTreeMap<String, usize>,
    #[serde(default)]
    settings: toml::Table,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Block {
    Length(usize),
    Word(String),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Layers {
    Word(String),
    Each(Vec<Choice>),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Choice {
    One(usize),
    Several(Vec<usize>),
}

impl Suite {
    /// The suite of this name, or in the file of this path.
    pub fn load(name: &str) -> Result<Self> {
        if let Some((_, text)) = SUITES.iter().find(|(known, _)| *known == name) {
            return Self::parse(name, text);
        }
        let path = Path::new(name);
        if !path.exists() {
            let known = SUITES.map(|(known, _)| known).join(", ");
            return Err(Error::Request(format!("unknown suite '{name}': use {known} or a file")));
        }
        let text = std::fs::read_to_string(path).map_err(Error::file("read", path))?;
        Self::parse(name, &text)
    }

    /// A suite from TOML text, called `name` in messages.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].lines().count().max(1));
            Error::Line { path: name.into(), line, reason: error.message().replace('\n', " ") }
        })
    }

    /// Everything it measures on a model of this family with so many layers, of which `usual` are used where the suite
    /// names none. A trial in several groups is measured once.
    pub fn trials(&self, family: &str, layers: usize, usual: &[usize]) -> Result<Vec<Trial>> {
        let mut trials: Vec<Trial> = Vec::new();
        for group in &self.group {
            if group.family.as_ref().is_some_and(|wanted| !wanted.eq_ignore_ascii_case(family)) {
                continue;
            }
            for trial in self.expand(group, family, layers, usual)? {
                match trials.iter_mut().find(|other| other.same(&trial)) {
                    Some(other) => other.labels.extend(trial.labels),
                    None => trials.push(trial),
                }
            }
        }
        if trials.is_empty() {
            return Err(Error::Request(format!("the suite has nothing for {family} models")));
        }
        Ok(trials)
    }

    fn expand(&self, group: &Group, family: &str, layers: usize, usual: &[usize]) -> Result<Vec<Trial>> {
        let mut trials = Vec::new();
        for task_name in &group.tasks {
            let task = task::find(task_name)?;
            let protocol = task.protocol(self.protocol.get(task_name).map(String::as_str))?;
            let lengths =
                if group.gen_lengths.is_empty() { vec![task.gen_length()] } else { group.gen_lengths.clone() };
            for (strategy, every) in group.strategies.iter().flat_map(|name| with_orders(name)) {
                let recipe = Recipe::parse(&strategy, &Params::new())?;
                let has_layers = recipe.uses("layer");
                let choices = if has_layers { group.choices(task_name, layers, usual)? } else { vec![Vec::new()] };
                for (&gen_length, chosen) in
                    lengths.iter().flat_map(|length| choices.iter().map(move |chosen| (length, chosen)))
                {
                    for block_length in group.block_lengths(gen_length)? {
                        let trial = Trial {
                            task: task_name.clone(),
                            protocol: protocol.name.into(),
                            strategy: strategy.clone(),
                            settings: self.settings(group, family, task_name, &recipe, chosen)?,
                            gen_length,
                            block_length,
                            early_stop: self.early_stop,
                            labels: group.label.iter().cloned().collect(),
                        };
                        // Of every order with something, those that make no sense are left out.
                        if !every || trial.strategy().is_ok() {
                            trials.push(trial);
                        }
                    }
                }
            }
        }
        Ok(trials)
    }

    /// The general settings, then those of the family's task, then the group's, as far as the strategy uses them.
    fn settings(&self, group: &Group, family: &str, task: &str, recipe: &Recipe, layers: &[usize]) -> Result<Params> {
        let mut table = self.settings.clone();
        let of_family = self.family.iter().find(|(name, _)| name.eq_ignore_ascii_case(family));
        let of_task = of_family.and_then(|(_, tasks)| tasks.get(task));
        for part in of_task.into_iter().chain([&group.settings]) {
            table.extend(part.clone());
        }
        let mut settings = Params::new();
        for (name, value) in table {
            let value: Value = value.try_into().map_err(|error: toml::de::Error| {
                Error::Request(format!("the suite's setting '{name}': {}", error.message()))
            })?;
            settings.set(&name, &value)?;
        }
        let mut settings = settings.filter(|name| recipe.uses(name) || OF_ALL.contains(&name));
        if !layers.is_empty() {
            settings.set("layer", &Value::from(layers))?;
        }
        Ok(settings)
    }
}

/// The strategies that a name stands for, and whether it stands for every order.
fn with_orders(name: &str) -> Vec<(String, bool)> {
    match name.strip_prefix('*') {
        Some(rest) => parts(Section::Order).iter().map(|order| (format!("{}{rest}", order.name), true)).collect(),
        None => vec![(name.into(), false)],
    }
}

impl Group {
    fn choices(&self, task: &str, layers: usize, usual: &[usize]) -> Result<Vec<Vec<usize>>> {
        if let Some(layer) = self.layer.get(task) {
            return Ok(vec![vec![*layer]]);
        }
        match &self.layers {
            None => Ok(vec![usual.to_vec()]),
            Some(Layers::Word(word)) if word == "all" => Ok((0..layers).map(|layer| vec![layer]).collect()),
            Some(Layers::Word(word)) => {
                Err(Error::Request(format!("the suite's layers are '{word}': write \"all\" or a list")))
            }
            Some(Layers::Each(choices)) => Ok(choices
                .iter()
                .map(|choice| match choice {
                    Choice::One(layer) => vec![*layer],
                    Choice::Several(layers) => layers.clone(),
                })
                .collect()),
        }
    }

    fn block_lengths(&self, gen_length: usize) -> Result<Vec<usize>> {
        let length = |block: &Block| match block {
            Block::Length(length) => Ok(*length),
            Block::Word(word) if word == "one" => Ok(gen_length),
            Block::Word(word) => {
                Err(Error::Request(format!("the suite's block is '{word}': write \"one\" or a number")))
            }
        };
        if self.blocks.is_empty() { Ok(vec![gen_length]) } else { self.blocks.iter().map(length).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count<'a>(trials: &'a [Trial], label: &'a str) -> usize {
        trials.iter().filter(|trial| trial.labels.iter().any(|other| other.starts_with(label))).count()
    }

    #[test]
    fn the_paper_suite_has_its_tables() {
        let suite = Suite::load("paper").unwrap();
        let llada = suite.trials("LLaDA", 32, &[5]).unwrap();
        let labels =
            ["Table 1", "Table 2", "Table 3", "Table 5", "Table 6", "Table 8", "Figure 1", "Figure 3", "Figure 4"];
        assert_eq!(labels.map(|label| count(&llada, label)), [36, 40, 28, 56, 0, 16, 8, 35, 64]);
        let dream = suite.trials("Dream", 28, &[5]).unwrap();
        assert_eq!(labels.map(|label| count(&dream, label)), [36, 40, 0, 0, 48, 16, 0, 0, 0]);
        assert_eq!(count(&dream, "Figure 5"), 35);
        let klass = llada.iter().find(|trial| trial.strategy == "klass" && trial.task == "gsm8k").unwrap();
        assert_eq!(
            (klass.settings.number("conf_threshold"), klass.settings.number("kl_threshold")),
            (Some(0.6), Some(0.015))
        );
        let dos = llada.iter().find(|t| t.strategy == "dos" && t.task == "humaneval" && t.block_length == 256).unwrap();
        assert_eq!((dos.layers(), dos.gen_length, dos.early_stop), (vec![12], 256, false));
        for trial in llada.iter().chain(&dream) {
            lacuna::Strategy::parse(&trial.strategy, &trial.settings).unwrap();
            assert_eq!(trial.gen_length % trial.block_length, 0);
        }
    }

    #[test]
    fn the_mini_suite_covers_the_same_ground() {
        let trials = Suite::load("mini").unwrap().trials("LLaDA", 12, &[2]).unwrap();
        let labels = ["Table 1", "Table 2", "Table 5", "Table 8", "Figure 1", "Figure 3", "Figure 4"];
        assert_eq!(labels.map(|label| count(&trials, label)), [20, 36, 42, 6, 16, 20, 24]);
        for trial in &trials {
            let length = if trial.task == "words" { 128 } else { 64 };
            assert_eq!((trial.gen_length, length % trial.block_length), (length, 0), "{}", trial.file_name());
        }
        let names: std::collections::HashSet<String> = trials.iter().map(Trial::file_name).collect();
        assert_eq!(names.len(), trials.len());
    }

    #[test]
    fn the_orders_suite_has_every_baseline_on_every_task() {
        let trials = Suite::load("orders").unwrap().trials("LLaDA", 8, &[0]).unwrap();
        for task in ["last", "first", "forward", "backward", "shuffled", "sudoku", "sudoku9"] {
            let titles: Vec<String> = trials.iter().filter(|trial| trial.task == task).map(Trial::title).collect();
            for title in ["confidence", "confidence, ends last", "left+eb", "given (oracle)", "dos (layer 7)"] {
                assert!(titles.iter().any(|other| other == title), "{task}: {title}");
            }
        }
    }

    #[test]
    fn the_strategies_suite_has_every_order_with_every_pace_once() {
        let trials = Suite::load("strategies").unwrap().trials("LLaDA", 12, &[2]).unwrap();
        let names: std::collections::HashSet<String> = trials.iter().map(Trial::file_name).collect();
        assert_eq!(names.len(), trials.len());
        for order in parts(Section::Order) {
            for pace in parts(Section::Pace) {
                let name = format!("{}+{}", order.name, pace.name);
                let scored = ["dos", "certain-dos", "confidence", "margin", "entropy", "prior"].contains(&&*order.name);
                // One order is given with the problem, one pace is a threshold or a schedule, one needs scores in a known range.
                let out = order.name == "given"
                    || pace.name == "threshold-or-schedule"
                    || (!scored && pace.name == "score-threshold");
                assert_eq!(trials.iter().any(|trial| trial.strategy == name), !out, "{name}");
            }
        }
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| match Suite::parse("mine.toml", text).and_then(|suite| suite.trials("LLaDA", 4, &[0]))
        {
            Ok(_) => panic!("{text} was taken"),
            Err(error) => error.to_string(),
        };
        assert!(error("about = 1\n").contains("line 1"));
        let group = "[[group]]\ntasks = [\"words\"]\nstrategies = [\"dos\"]\n";
        assert!(error(&format!("{group}bloks = [1]\n")).contains("bloks"));
        assert!(error(&format!("{group}blocks = [\"many\"]\n")).contains("many"));
        assert!(error(&format!("{group}settings = {{ gama = 1 }}\n")).contains("gama"));
        assert!(error("[[group]]\ntasks = [\"wurds\"]\nstrategies = [\"dos\"]\n").contains("wurds"));
        assert!(error(&format!("{group}family = \"Dream\"\n")).contains("nothing for LLaDA"));
        assert!(Suite::load("nothing").unwrap_err().to_string().contains("paper, mini, orders, heads, strategies"));
    }
}
