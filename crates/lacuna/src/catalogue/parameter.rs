//! Parameters: a name, a kind with its range, a default and a description each.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer};
use serde::{Deserialize as DeriveDeserialize, Serialize};

use super::{Layers, Section, parameter, parts};
use crate::{Error, Result};

/// A setting of a part or of decoding in general.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Name, in snake case.
    pub name: &'static str,
    /// Type and range.
    pub kind: Kind,
    /// Default, in words if it depends on the model or the canvas.
    pub default: Default,
    /// Description in one line, lower case.
    pub about: &'static str,
    /// Name in official code, if it is another one.
    pub alias: Option<&'static str>,
}

/// The type and range of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// True or false.
    Flag,
    /// A whole number from `least` to `most`.
    Integer {
        /// Lower bound.
        least: u64,
        /// Upper bound.
        most: u64,
    },
    /// A whole number, 1 or more, or -1 for no limit.
    Limit,
    /// A number in a range.
    Number(Range),
    /// One of some words.
    Choice(&'static [&'static str]),
    /// The name of a part.
    Part(Section),
    /// Distinct whole numbers, at least one.
    Integers,
    /// Layers: `4`, `2,4`, `2-5` or `all`.
    Layers,
    /// Any text.
    Text,
    /// Texts, at least one.
    Texts,
    /// The text of a file. A command line gives its path, and reads it.
    File,
}

/// A range of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// Lower bound.
    pub least: f64,
    /// True if the lower bound itself is in the range.
    pub least_included: bool,
    /// Upper bound.
    pub most: f64,
    /// True if the upper bound itself is in the range.
    pub most_included: bool,
}

impl Range {
    /// From `least` to `most`, both included.
    pub const fn closed(least: f64, most: f64) -> Self {
        Self { least, least_included: true, most, most_included: true }
    }

    /// More than `least`, up to and including `most`.
    pub const fn above(least: f64, most: f64) -> Self {
        Self { least, least_included: false, most, most_included: true }
    }

    /// Between `least` and `most`, both excluded.
    pub const fn open(least: f64, most: f64) -> Self {
        Self { least, least_included: false, most, most_included: false }
    }

    fn contains(self, number: f64) -> bool {
        let above = if self.least_included { number >= self.least } else { number > self.least };
        let below = if self.most_included { number <= self.most } else { number < self.most };
        above && below
    }
}

/// The default of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Default {
    /// A number.
    Number(f64),
    /// A flag.
    Flag(bool),
    /// A word.
    Word(&'static str),
    /// No fixed value; in words, for example "all heads".
    Depends(&'static str),
    /// The parameter must be given.
    Required,
}

impl fmt::Display for Default {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(formatter, "{number}"),
            Self::Flag(flag) => write!(formatter, "{flag}"),
            Self::Word(word) | Self::Depends(word) => formatter.write_str(word),
            Self::Required => formatter.write_str("required"),
        }
    }
}

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq, Serialize, DeriveDeserialize)]
#[serde(untagged, expecting = "expected true, false, a number, a text or a list of whole numbers or texts")]
pub enum Value {
    /// True or false.
    Flag(bool),
    /// A whole number.
    Integer(u64),
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
    /// Whole numbers.
    Integers(Vec<u64>),
    /// Texts.
    Texts(Vec<String>),
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(formatter, "{flag}"),
            Self::Integer(number) => write!(formatter, "{number}"),
            Self::Number(number) if number.is_finite() && number.abs() >= 1e15 => write!(formatter, "{number:e}"),
            Self::Number(number) => write!(formatter, "{number}"),
            Self::Text(text) => formatter.write_str(text),
            Self::Integers(numbers) => {
                formatter.write_str(&numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(","))
            }
            Self::Texts(texts) => formatter.write_str(&texts.join(",")),
        }
    }
}

impl Parameter {
    /// A parameter; see the fields.
    pub const fn new(name: &'static str, kind: Kind, default: Default, about: &'static str) -> Self {
        Self { name, kind, default, about, alias: None }
    }

    /// The same parameter with the name that official code has for it.
    pub const fn alias(self, alias: &'static str) -> Self {
        Self { alias: Some(alias), ..self }
    }

    /// The same parameter with another default, for a part that has its own.
    pub const fn default(self, default: Default) -> Self {
        Self { default, ..self }
    }

    /// The same parameter with another kind, for a part that has its own range.
    pub const fn kind(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    /// Type of its values, as the API names it.
    pub fn type_name(&self) -> &'static str {
        match self.kind {
            Kind::Flag => "boolean",
            Kind::Integer { .. } | Kind::Limit => "integer",
            Kind::Number(_) => "number",
            Kind::Choice(_) | Kind::Part(_) => "choice",
            Kind::Integers => "integers",
            Kind::Texts => "strings",
            Kind::Layers => "layers",
            Kind::Text | Kind::File => "string",
        }
    }

    /// The words it takes, if it is a choice.
    pub fn choices(&self) -> Vec<String> {
        match self.kind {
            Kind::Choice(words) => words.iter().map(ToString::to_string).collect(),
            Kind::Part(section) => parts(section).iter().map(|part| part.name.to_string()).collect(),
            _ => Vec::new(),
        }
    }

    /// The allowed values, in words: "must be ...".
    pub fn expected(&self) -> String {
        match self.kind {
            Kind::Flag => "must be true or false".into(),
            Kind::Integer { least, most: u64::MAX } => format!("must be a whole number, {least} or more"),
            Kind::Integer { least, most } => format!("must be a whole number from {least} to {most}"),
            Kind::Limit => "must be a whole number, 1 or more, or -1 for no limit".into(),
            Kind::Number(Range { least: f64::NEG_INFINITY, .. }) => "must be a finite number".into(),
            Kind::Number(Range { least, least_included, most, most_included }) => {
                let lower = if least_included { format!("{least} or more") } else { format!("more than {least}") };
                let upper = if most_included { format!("at most {most}") } else { format!("less than {most}") };
                format!("must be {lower} and {upper}")
            }
            Kind::Choice(_) | Kind::Part(_) => format!("must be one of {}", self.choices().join(", ")),
            Kind::Integers => "must be a list of distinct whole numbers, such as 0,3".into(),
            Kind::Layers => "must be a layer such as 4, a list such as 2,4, a range such as 2-5, or all".into(),
            Kind::Text => "must be a text".into(),
            Kind::Texts => "must be a list of texts, such as yes,no".into(),
            Kind::File => "must be the text of a file".into(),
        }
    }

    /// Reads a value from text, as a command line has it.
    pub fn parse(&self, text: &str) -> Result<Value> {
        let number = |text: &str| text.trim().parse::<u64>().ok();
        let value = match self.kind {
            Kind::Flag => text.trim().parse().ok().map(Value::Flag),
            Kind::Integer { .. } => number(text).map(Value::Integer),
            Kind::Limit | Kind::Number(_) => text.trim().parse().ok().map(Value::Number),
            Kind::Integers => {
                text.trim_matches(['[', ']', ' ']).split(',').map(number).collect::<Option<_>>().map(Value::Integers)
            }
            Kind::Texts => Some(Value::Texts(text.split(',').map(String::from).collect())),
            Kind::Choice(_) | Kind::Part(_) | Kind::Layers | Kind::Text | Kind::File => Some(Value::Text(text.into())),
        };
        self.check(&value.ok_or_else(|| self.refusal(text.to_string()))?)
    }

    /// The value in its canonical form, if it has the right type and lies in the range.
    pub fn check(&self, value: &Value) -> Result<Value> {
        let whole = |number: f64| (number.fract() == 0.0 && (0.0..9.0e15).contains(&number)).then_some(number as u64);
        let canonical = match (self.kind, value) {
            (Kind::Flag, Value::Flag(_)) | (Kind::Text | Kind::File, Value::Text(_)) => Some(value.clone()),
            (Kind::Integer { least, most }, Value::Integer(number)) => {
                (least..=most).contains(number).then(|| value.clone())
            }
            (Kind::Integer { least, most }, Value::Number(number)) => {
                whole(*number).filter(|number| (least..=most).contains(number)).map(Value::Integer)
            }
            (Kind::Limit, Value::Number(-1.0)) => Some(Value::Integer(u64::MAX)),
            (Kind::Limit, Value::Number(number)) => whole(*number).filter(|number| *number > 0).map(Value::Integer),
            (Kind::Limit, Value::Integer(number)) => (*number > 0).then(|| value.clone()),
            (Kind::Number(range), Value::Number(number)) => {
                (number.is_finite() && range.contains(*number)).then(|| value.clone())
            }
            (Kind::Number(range), Value::Integer(number)) => {
                range.contains(*number as f64).then_some(Value::Number(*number as f64))
            }
            (Kind::Choice(words), Value::Text(word)) => words.contains(&word.as_str()).then(|| value.clone()),
            (Kind::Part(section), Value::Text(word)) => {
                parts(section).iter().any(|part| part.name == *word).then(|| value.clone())
            }
            (Kind::Texts, Value::Texts(texts)) => (!texts.is_empty()).then(|| value.clone()),
            (Kind::Integers, Value::Integer(number)) => Some(Value::Integers(vec![*number])),
            (Kind::Integers, Value::Integers(numbers)) => distinct(numbers).then(|| value.clone()),
            (Kind::Layers, Value::Integer(number)) => Some(Value::Integers(vec![*number])),
            (Kind::Layers, Value::Integers(layers)) => distinct(layers).then(|| value.clone()),
            (Kind::Layers, Value::Text(text)) => match text.parse::<Layers>() {
                Ok(Layers::All) => Some(value.clone()),
                Ok(Layers::These(layers)) => {
                    let layers: Vec<u64> = layers.into_iter().map(|layer| layer as u64).collect();
                    distinct(&layers).then_some(Value::Integers(layers))
                }
                Err(_) => None,
            },
            _ => None,
        };
        canonical.ok_or_else(|| self.refusal(self.shown(value)))
    }

    /// A value in a message. A text is named as one where it is not what is wrong with it.
    fn shown(&self, value: &Value) -> String {
        match (self.kind, value) {
            (Kind::Choice(_) | Kind::Part(_) | Kind::Layers, _) => value.to_string(),
            (_, Value::Text(text)) => format!("the text '{text}'"),
            (_, Value::Integers(list)) if list.is_empty() => "an empty list".into(),
            (_, Value::Texts(list)) if list.is_empty() => "an empty list".into(),
            _ => value.to_string(),
        }
    }

    fn refusal(&self, value: String) -> Error {
        Error::parameter(self.name, value, self.expected())
    }
}

fn distinct(numbers: &[u64]) -> bool {
    !numbers.is_empty() && (1..numbers.len()).all(|end| !numbers[..end].contains(&numbers[end]))
}

/// Values of parameters by name. Every value has been checked against the catalogue.
#[derive(Clone, Debug, PartialEq, std::default::Default, Serialize)]
#[serde(transparent)]
pub struct Params(BTreeMap<&'static str, Value>);

impl Params {
    /// No values: every parameter has its default.
    pub fn new() -> Self {
        std::default::Default::default()
    }

    /// Sets a parameter, in a chain of calls.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Result<Self> {
        self.set(name, &value.into())?;
        Ok(self)
    }

    /// Sets a parameter. The catalogue has to know its name, and the value has to have its type.
    ///
    /// A part may have a narrower range than another part with the same parameter; that is checked when the part is built.
    pub fn set(&mut self, name: &str, value: &Value) -> Result<()> {
        self.insert(name, |parameter| parameter.check(value))
    }

    /// Sets a parameter from text, as a command line has it.
    pub fn parse(&mut self, name: &str, text: &str) -> Result<()> {
        self.insert(name, |parameter| parameter.parse(text))
    }

    /// Inserts the value that the first variant of a parameter takes.
    fn insert(&mut self, name: &str, read: impl Fn(&Parameter) -> Result<Value>) -> Result<()> {
        let known = parameter(name).ok_or_else(|| Error::UnknownParameter { name: name.into() })?;
        let mut values = known.kinds().into_iter().map(|parameter| read(&parameter));
        let first = values.next().expect("a parameter has a kind");
        let value = first.or_else(|error| values.find_map(Result::ok).ok_or(error))?;
        self.0.insert(known.parameter.name, value);
        Ok(())
    }

    /// Removes a parameter.
    pub fn unset(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// The value of a parameter, if it was given.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// All values that were given, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.0.iter().map(|(name, value)| (*name, value))
    }

    /// Adds the values of `other` that are not given here.
    pub fn or(mut self, other: &Params) -> Self {
        for (name, value) in other.iter() {
            self.0.entry(name).or_insert_with(|| value.clone());
        }
        self
    }

    /// The values whose names pass.
    pub fn filter(&self, mut passes: impl FnMut(&str) -> bool) -> Self {
        Self(self.0.iter().filter(|(name, _)| passes(name)).map(|(name, value)| (*name, value.clone())).collect())
    }

    /// A number, if it was given.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.get(name)? {
            Value::Number(number) => Some(*number),
            Value::Integer(number) => Some(*number as f64),
            _ => None,
        }
    }

    /// A whole number, if it was given.
    pub fn integer(&self, name: &str) -> Option<usize> {
        match self.get(name)? {
            Value::Integer(number) => usize::try_from(*number).ok(),
            _ => None,
        }
    }

    /// A flag, if it was given.
    pub fn flag(&self, name: &str) -> Option<bool> {
        match self.get(name)? {
            Value::Flag(flag) => Some(*flag),
            _ => None,
        }
    }

    /// A word, if it was given.
    pub fn word(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A list of texts, if one was given.
    pub fn texts(&self, name: &str) -> Option<&[String]> {
        match self.get(name)? {
            Value::Texts(texts) => Some(texts),
            _ => None,
        }
    }

    /// A list of whole numbers, if one was given.
    pub fn integers(&self, name: &str) -> Option<Vec<usize>> {
        match self.get(name)? {
            Value::Integers(numbers) => numbers.iter().map(|number| usize::try_from(*number).ok()).collect(),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Params {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let mut params = Self::new();
        for (name, value) in BTreeMap::<String, Option<Value>>::deserialize(deserializer)? {
            if let Some(value) = value {
                params.set(&name, &value).map_err(serde::de::Error::custom)?;
            }
        }
        Ok(params)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Integer(number as u64)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Integer(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<&[usize]> for Value {
    fn from(numbers: &[usize]) -> Self {
        Self::Integers(numbers.iter().map(|&number| number as u64).collect())
    }
}
