//! Strategies: an order, a pace, perhaps a revision, a window, a length and a cache.

use std::sync::Arc;

use crate::cache::NoCache;
use crate::catalogue::{self, Build, Default, Need, PRESETS, Parameter, Params, Part, PartParams, Section, Value};
use crate::pace::number_of;
use crate::window::InBlocks;
use crate::{Block, Cache, Ends, Error, Fixed, Length, Order, Pace, RankBy, Reads, Result, Revision, StopRule, Window};

/// A way to decode: which positions first, how many at once, which to reopen, where, and what is computed.
///
/// A strategy is a value. One that was made of parts of your own goes wherever a named one goes; a name for its parts is given by
/// [`catalogue::register`].
#[derive(Clone, Debug)]
pub struct Strategy {
    /// Name, as [`Strategy::parse`] takes it.
    pub name: String,
    /// Ranks the masked positions.
    pub order: Arc<dyn Order>,
    /// Decides how many are committed in a step.
    pub pace: Box<dyn Pace>,
    /// Reopens committed positions.
    pub revision: Option<Box<dyn Revision>>,
    /// Limits the positions that may be committed.
    pub window: Arc<dyn Window>,
    /// Sets and changes the length of the canvas.
    pub length: Box<dyn Length>,
    /// Chooses the positions that a forward pass computes.
    pub cache: Box<dyn Cache>,
    /// Temperature at which the order is drawn; 0 takes the highest score.
    pub order_temperature: f64,
}

impl Strategy {
    /// A strategy of an order and a pace, in one block, without cache.
    pub fn new(name: impl Into<String>, order: impl Order + 'static, pace: impl Pace + 'static) -> Self {
        Self {
            name: name.into(),
            order: Arc::new(order),
            pace: Box::new(pace),
            revision: None,
            window: Arc::new(InBlocks { length: None, whole: true }),
            length: Box::new(Fixed),
            cache: Box::new(NoCache),
            order_temperature: 0.0,
        }
    }

    /// The same strategy in blocks of `length`.
    pub fn in_blocks(mut self, length: usize) -> Self {
        self.window = Arc::new(InBlocks { length: Some(length), whole: true });
        self
    }

    /// The strategy called `<order>[+<pace>][+<revision>]`, or a preset's name. A parameter that it does not use is refused;
    /// parameters that go with every strategy are passed over, but for `window`, `length`, `cache` and
    /// `order_temperature`.
    pub fn parse(name: &str, params: &Params) -> Result<Self> {
        let recipe = Recipe::parse(name, params)?;
        recipe.refuse_unused(params)?;
        recipe.build()
    }

    /// The reason why these parts make no sense together, if they do not.
    fn incompatibility(&self) -> Option<&'static str> {
        let known = self.order.ranks_by() == RankBy::Known;
        let drawn = self.order_temperature > 0.0;
        let scheduled = self.pace.is_scheduled();
        let block = Block { index: 0, range: 0..1, step: 0 };
        let by_score = !scheduled && matches!(self.pace.reads(&block, 1), Reads::While(StopRule::Score(_)));
        let ends = self.revision.as_ref().map(|revision| revision.ends());
        if known && by_score {
            Some("the score of an order that is known beforehand says nothing that a threshold could test")
        } else if known && drawn {
            Some("an order that is known beforehand has no scores that a temperature could soften")
        } else if by_score && drawn {
            Some("a temperature adds noise to the scores that the threshold tests")
        } else if scheduled && ends.is_some_and(|ends| ends != Ends::EditsOnly) {
            Some("a schedule promises to end after its steps, but a revision reopens positions")
        } else if scheduled && !self.length.is_fixed() {
            Some("a schedule promises to end after its steps, but the canvas grows")
        } else if ends.is_some() && !self.length.is_fixed() {
            Some("a revision looks back at positions, but they move when the canvas grows")
        } else if self.pace.max_commits() == Some(1) && ends == Some(Ends::ReopensFewer) {
            Some("a revision reopens fewer tokens than a step commits, so top1 leaves it nothing to do")
        } else {
            None
        }
    }
}

/// The parts of a strategy by name, with their parameters, before they are built.
#[derive(Clone, Debug)]
pub struct Recipe {
    name: String,
    order: Arc<Part>,
    pace: Arc<Part>,
    pace_number: usize,
    revision: Option<Arc<Part>>,
    window: Arc<Part>,
    length: Arc<Part>,
    cache: Arc<Part>,
    params: Params,
}

impl Recipe {
    /// Finds the parts of `<order>[+<pace>][+<revision>]` or of a preset.
    pub fn parse(name: &str, params: &Params) -> Result<Self> {
        let preset = PRESETS.iter().find(|preset| preset.name == name);
        let mut params = params.clone();
        for (name, value) in preset.into_iter().flat_map(|preset| preset.values) {
            if params.get(name).is_none() {
                params.set(name, &fixed(*value))?;
            }
        }
        let mut names = preset.map_or(name, |preset| preset.parts(&params)).split('+');
        let order = names.next().unwrap_or_default();
        if find(Section::Pace, order).is_some() || find(Section::Revision, order).is_some() {
            let why = format!(
                "'{order}' says how many positions to fill, not which: write <order>+{order}, for example dos+{order}"
            );
            return Err(Error::Incompatible(why.into()));
        }
        let (pace, revision) = match (names.next(), names.next()) {
            (Some(revision), None) if find(Section::Revision, revision).is_some() => ("top1", Some(revision)),
            (pace, revision) => (pace.unwrap_or("top1"), revision),
        };
        if names.next().is_some() {
            let why = format!("'{name}' has too many parts: a strategy is <order>[+<pace>][+<revision>]");
            return Err(Error::Incompatible(why.into()));
        }
        if let Some(preset) = PRESETS.iter().find(|preset| preset.name == order) {
            let why =
                format!("'{order}' is a preset and stands alone; it means {}: combine these parts instead", preset.is);
            return Err(Error::Incompatible(why.into()));
        }
        let part = |section, name: &str| find(section, name).ok_or_else(|| unknown(name));
        let named = |section, parameter: &str, usual: &str| {
            let name = params.word(parameter).unwrap_or(usual).to_string();
            find(section, &name).ok_or_else(|| unknown(&name))
        };
        if number_of(pace) == Some(0) {
            return Err(Error::Incompatible("'top0' would never fill anything: write top1 or more".into()));
        }
        Ok(Self {
            name: name.into(),
            order: part(Section::Order, order)?,
            pace: part(Section::Pace, pace)?,
            pace_number: number_of(pace).unwrap_or(1),
            revision: revision.map(|revision| part(Section::Revision, revision)).transpose()?,
            window: named(Section::Window, "window", "blocks")?,
            length: named(Section::Length, "length", "fixed")?,
            cache: named(Section::Cache, "cache", "none")?,
            params,
        })
    }

    /// Name of its order.
    pub fn order(&self) -> &str {
        &self.order.name
    }

    fn parts(&self) -> impl Iterator<Item = &Arc<Part>> {
        [&self.order, &self.pace].into_iter().chain(&self.revision).chain([&self.window, &self.length, &self.cache])
    }

    /// The parameters of its parts.
    pub fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        self.parts().flat_map(|part| &part.parameters)
    }

    /// True if a parameter goes with it.
    pub fn uses(&self, parameter: &str) -> bool {
        let general = crate::options::PARAMETERS.iter();
        general.chain(self.parameters()).any(|known| known.name == parameter)
    }

    /// The parameters that make the strategy what it is: those of its parts, and those that name parts.
    pub fn own(&self, params: &Params) -> Params {
        let named = |name: &str| matches!(name, "window" | "length" | "cache" | "order_temperature");
        params.filter(|name| named(name) || self.parameters().any(|known| known.name == name))
    }

    /// True if one of its parts needs this.
    pub fn needs(&self, need: Need) -> bool {
        self.parts().any(|part| part.needs.contains(&need))
    }

    /// Refuses parameters that it does not use.
    pub fn refuse_unused(&self, params: &Params) -> Result<()> {
        match params.iter().find(|(name, _)| !self.uses(name)) {
            Some((name, _)) => {
                let of = catalogue::parameter(name).map(|known| known.users()).unwrap_or_default();
                Err(Error::UnusedParameter { name, by: format!("'{}'", self.name), of, advice: Vec::new() })
            }
            None => Ok(()),
        }
    }

    /// Makes the parts.
    pub fn build(&self) -> Result<Strategy> {
        let given = |part| PartParams::new(part, &self.params);
        let revision = match &self.revision {
            Some(part) => match &part.build {
                Build::Revision(build) => Some(build(&given(part)?)?),
                _ => misplaced(part),
            },
            None => None,
        };
        let strategy = Strategy {
            name: self.name.clone(),
            order: match &self.order.build {
                Build::Order(build) => build(&given(&self.order)?)?,
                _ => misplaced(&self.order),
            },
            pace: match &self.pace.build {
                Build::Pace(build) => build(&given(&self.pace)?)?,
                Build::NumberedPace(build) => build(self.pace_number),
                _ => misplaced(&self.pace),
            },
            revision,
            window: match &self.window.build {
                Build::Window(build) => build(&given(&self.window)?)?,
                _ => misplaced(&self.window),
            },
            length: match &self.length.build {
                Build::Length(build) => build(&given(&self.length)?)?,
                _ => misplaced(&self.length),
            },
            cache: match &self.cache.build {
                Build::Cache(build) => build(&given(&self.cache)?)?,
                _ => misplaced(&self.cache),
            },
            order_temperature: self.params.number("order_temperature").unwrap_or(0.0),
        };
        match strategy.incompatibility() {
            Some(why) => Err(Error::Incompatible(format!("'{}' makes no sense: {why}", self.name).into())),
            None => Ok(strategy),
        }
    }
}

fn misplaced(part: &Part) -> ! {
    unreachable!("'{}' was found in its section", part.name)
}

/// A default that has a fixed value.
fn fixed(default: Default) -> Value {
    match default {
        Default::Number(number) => Value::Number(number),
        Default::Flag(flag) => Value::Flag(flag),
        Default::Word(word) | Default::Depends(word) => Value::Text(word.into()),
        Default::Required => unreachable!("a preset gives values"),
    }
}

fn find(section: Section, name: &str) -> Option<Arc<Part>> {
    let numbered = section == Section::Pace && number_of(name).is_some();
    let name = if numbered { "top1" } else { name };
    catalogue::parts(section).into_iter().find(|part| part.name == name)
}

/// The error for a name that stands where no such part is.
fn unknown(name: &str) -> Error {
    let sections = [(Section::Order, "an order"), (Section::Pace, "a pace"), (Section::Revision, "a revision")];
    if let Some((_, what)) = sections.iter().find(|(section, _)| find(*section, name).is_some()) {
        let why = format!("'{name}' is {what}, which stands elsewhere: a strategy is <order>[+<pace>][+<revision>]");
        return Error::Incompatible(why.into());
    }
    let names =
        |section| -> Vec<String> { catalogue::parts(section).iter().map(|part| part.name.to_string()).collect() };
    let (orders, paces, revisions) = (names(Section::Order), names(Section::Pace), names(Section::Revision));
    let presets: Vec<String> = PRESETS.iter().map(|preset| preset.name.to_string()).collect();
    let known = [&orders, &paces, &revisions, &presets].into_iter().flatten();
    let near = |known: &&String| distance(name, known) <= 1 + name.len() / 3;
    let advice = match known.filter(near).min_by_key(|known| distance(name, known)) {
        Some(nearest) => format!("did you mean '{nearest}'?"),
        None => format!(
            "orders are {}; paces {}; revisions {}; presets {}",
            orders.join(", "),
            paces.join(", "),
            revisions.join(", "),
            presets.join(", ")
        ),
    };
    let name = name.chars().take(64).collect();
    Error::UnknownStrategy { name, advice }
}

/// Edit distance in which swapping two neighbours is one edit.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && (a[i - 1], a[i - 2]) == (b[j - 2], b[j - 1]) {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}
