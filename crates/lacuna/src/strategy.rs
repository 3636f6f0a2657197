//! Strategies: an order, a pace and perhaps a revision, by name.

use serde::{Deserialize, Serialize};

use crate::{
    Adaptive, AttentionSource, Backtrack, Confidence, Dependency, Draft, Entropy, EntropyBound, Error, Factor, Margin,
    Order, Pace, Random, Result, Revision, Schedule, ScoreThreshold, Stability, Threshold, Timetable, TopK, Verify,
};

/// The names of the orders.
pub const ORDERS: [&str; 5] = ["random", "confidence", "entropy", "margin", "dos"];
/// The names of the paces; `top1` stands for `top<k>` with any k.
pub const PACES: [&str; 9] =
    ["top1", "schedule", "eb", "threshold", "score-threshold", "factor", "klass", "draft", "adaptive"];
/// The names of the revisions.
pub const REVISIONS: [&str; 2] = ["verify", "backtrack"];
/// Published methods and what they are made of.
pub const PRESETS: [(&str, &str); 5] = [
    ("llada", "confidence+schedule"),
    ("fast-dllm", "confidence+threshold"),
    ("klass", "confidence+klass"),
    ("wino", "confidence+draft+verify"),
    ("saber", "confidence+adaptive+backtrack"),
];

/// The numbers behind the names. Each applies to the parts that use it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// `dos`: the layers whose attention is averaged.
    pub layers: Vec<usize>,
    /// `dos`: the heads that are averaged in each layer; all if empty.
    pub heads: Vec<usize>,
    /// `schedule`, and the fallback of `klass`: steps for the whole canvas.
    pub steps: Option<usize>,
    /// `schedule`: whether it follows Dream's timesteps instead of LLaDA's even spread.
    pub dream_schedule: bool,
    /// `schedule` by timesteps: the last timestep.
    pub eps: f32,
    /// `eb`: the entropy bound in nats.
    pub gamma: f64,
    /// `threshold` (0.95), `draft` (0.6) and `score-threshold` (no default).
    pub threshold: Option<f64>,
    /// `verify`: tokens with less support are reopened.
    pub threshold_back: f64,
    /// `factor`: the factor.
    pub factor: f64,
    /// `klass`: the confidence to exceed.
    pub conf_threshold: f64,
    /// `klass`: the divergence to stay below.
    pub kl_threshold: f64,
    /// `klass`: for how many steps.
    pub history: usize,
    /// `adaptive` and `backtrack`: the least number of tokens in a step.
    pub saber_n: usize,
    /// Draws the order at this temperature instead of taking the best (Dream's `alg_temp`); 0 takes the best.
    pub order_temperature: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            layers: vec![0],
            heads: Vec::new(),
            steps: None,
            dream_schedule: false,
            eps: 1e-3,
            gamma: 0.01,
            threshold: None,
            threshold_back: 0.9,
            factor: 1.0,
            conf_threshold: 0.9,
            kl_threshold: 0.01,
            history: 2,
            saber_n: 2,
            order_temperature: 0.0,
        }
    }
}

/// How to decode: which positions first, how many at once, and which to reopen.
#[derive(Debug)]
pub struct Strategy {
    /// What it is called.
    pub name: String,
    /// Which positions first.
    pub order: Box<dyn Order>,
    /// How many at once.
    pub pace: Box<dyn Pace>,
    /// Which to reopen.
    pub revision: Option<Box<dyn Revision>>,
    /// The temperature at which the order is drawn; 0 takes the best.
    pub order_temperature: f64,
}

impl Strategy {
    /// The strategy called `<order>[+<pace>][+<revision>]`, or a preset's name.
    pub fn parse(name: &str, settings: &Settings) -> Result<Self> {
        settings.check()?;
        let spelled = PRESETS.iter().find(|(preset, _)| *preset == name).map_or(name, |(_, parts)| parts);
        let mut parts = spelled.split('+');
        let order = parts.next().unwrap_or_default();
        if PACES.contains(&order) || REVISIONS.contains(&order) {
            return Err(Error::Incompatible(format!(
                "'{order}' says how many positions to fill, not which: write <order>+{order}, for example dos+{order}"
            )));
        }
        let (pace, revision) = match (parts.next(), parts.next()) {
            (Some(revision), None) if REVISIONS.contains(&revision) => ("top1", Some(revision)),
            (pace, revision) => (pace.unwrap_or("top1"), revision),
        };
        if parts.next().is_some() {
            return Err(Error::Incompatible(format!(
                "'{name}' has too many parts: a strategy is <order>[+<pace>][+<revision>]"
            )));
        }
        if let Some((preset, parts)) = PRESETS.iter().find(|(preset, _)| *preset == order) {
            let why = format!("'{preset}' is a preset and stands alone; it means {parts}: combine these parts instead");
            return Err(Error::Incompatible(why));
        }
        if let Some(why) = unfit(order, pace, revision, settings) {
            return Err(Error::Incompatible(format!("'{name}' makes no sense: {why}")));
        }
        Ok(Self {
            name: name.into(),
            order: settings.order(order)?,
            pace: settings.pace(pace)?,
            revision: revision.map(|revision| settings.revision(revision)).transpose()?,
            order_temperature: settings.order_temperature,
        })
    }
}

impl Settings {
    fn order(&self, name: &str) -> Result<Box<dyn Order>> {
        Ok(match name {
            "random" => Box::new(Random),
            "confidence" => Box::new(Confidence),
            "entropy" => Box::new(Entropy),
            "margin" => Box::new(Margin),
            "dos" => {
                let source = |&layer: &usize| AttentionSource { layer, heads: self.heads.clone() };
                Box::new(Dependency { sources: self.layers.iter().map(source).collect() })
            }
            _ => return Err(unknown(name)),
        })
    }

    fn pace(&self, name: &str) -> Result<Box<dyn Pace>> {
        let timetable = if self.dream_schedule { Timetable::Dream { eps: self.eps } } else { Timetable::Llada };
        Ok(match name {
            "schedule" => Box::new(Schedule::new(timetable, self.steps)),
            "eb" => Box::new(EntropyBound { gamma: self.gamma }),
            "threshold" => Box::new(Threshold(self.threshold.unwrap_or(0.95))),
            "score-threshold" => {
                let missing =
                    "'score-threshold' compares with the order's own score, which has no usual value: give a threshold";
                Box::new(ScoreThreshold(self.threshold.ok_or_else(|| Error::Incompatible(missing.into()))?))
            }
            "factor" => Box::new(Factor(self.factor)),
            "klass" => {
                let fallback = Schedule::new(Timetable::Llada, self.steps);
                Box::new(Stability::new(self.conf_threshold, self.kl_threshold, self.history, fallback))
            }
            "draft" => Box::new(Draft(self.threshold.unwrap_or(0.6))),
            "adaptive" => Box::new(Adaptive::new(self.saber_n)),
            _ => match name.strip_prefix("top").and_then(|count| count.parse().ok()) {
                Some(0) => {
                    return Err(Error::Incompatible("'top0' would never fill anything: write top1 or more".into()));
                }
                Some(count) => Box::new(TopK(count)),
                None => return Err(unknown(name)),
            },
        })
    }

    fn revision(&self, name: &str) -> Result<Box<dyn Revision>> {
        Ok(match name {
            "verify" => Box::new(Verify::new(self.threshold_back)),
            "backtrack" => Box::new(Backtrack::new(self.saber_n)),
            _ => return Err(unknown(name)),
        })
    }

    /// Refuses numbers that mean nothing.
    fn check(&self) -> Result<()> {
        let share = |number: f64| (0.0..=1.0).contains(&number);
        let steps = self.steps.unwrap_or(1);
        let rules = [
            ("gamma", self.gamma, self.gamma >= 0.0, "be 0 or more"),
            ("eps", self.eps.into(), self.eps > 0.0 && self.eps < 1.0, "lie between 0 and 1"),
            ("threshold", self.threshold.unwrap_or(0.0), self.threshold.is_none_or(f64::is_finite), "be a number"),
            ("threshold_back", self.threshold_back, share(self.threshold_back), "lie between 0 and 1"),
            ("factor", self.factor, self.factor > 0.0, "be more than 0"),
            ("conf_threshold", self.conf_threshold, share(self.conf_threshold), "lie between 0 and 1"),
            ("kl_threshold", self.kl_threshold, self.kl_threshold > 0.0, "be more than 0"),
            ("history", self.history as f64, self.history > 0, "be 1 or more"),
            ("saber_n", self.saber_n as f64, self.saber_n > 0, "be 1 or more"),
            ("steps", steps as f64, (1..=65_536).contains(&steps), "lie between 1 and 65536"),
            ("layer", self.layers.len() as f64, !self.layers.is_empty(), "name at least one layer"),
            ("order_temperature", self.order_temperature, (0.0..1e9).contains(&self.order_temperature), "be 0 or more"),
        ];
        match rules.into_iter().find(|(_, _, holds, _)| !holds) {
            Some((name, value, _, rule)) => {
                Err(Error::Parameter { name, value: value.to_string(), expected: format!("it must {rule}") })
            }
            None => Ok(()),
        }
    }
}

/// Why these parts make no sense together, if they do not.
fn unfit(order: &str, pace: &str, revision: Option<&str>, settings: &Settings) -> Option<&'static str> {
    let drawn = settings.order_temperature > 0.0;
    match (order, pace, revision) {
        ("random", "score-threshold", _) => Some("a random score says nothing that a threshold could test"),
        ("random", _, _) if drawn => Some("a random order has no scores that a temperature could soften"),
        (_, "score-threshold", _) if drawn => Some("a temperature adds noise to the scores that the threshold tests"),
        (_, "schedule", Some(_)) => {
            Some("a schedule promises to end after its steps, but a revision reopens positions")
        }
        (_, "top1", Some(_)) => {
            Some("a revision reopens fewer tokens than a step commits, so top1 leaves it nothing to do")
        }
        _ => None,
    }
}

fn unknown(name: &str) -> Error {
    let presets = PRESETS.map(|(preset, _)| preset);
    let known = ORDERS.into_iter().chain(PACES).chain(REVISIONS).chain(presets);
    let near = |known: &&str| distance(name, known) <= 1 + name.len() / 3;
    let advice = match known.filter(near).min_by_key(|known| distance(name, known)) {
        Some(nearest) => format!("did you mean '{nearest}'?"),
        None => format!(
            "orders are {}; paces {}; revisions {}; presets {}",
            ORDERS.join(", "),
            PACES.join(", "),
            REVISIONS.join(", "),
            presets.join(", ")
        ),
    };
    Error::UnknownStrategy { name: name.into(), advice }
}

/// Levenshtein's edit distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let cost = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
