//! LocalLeap: a lower threshold near sure positions.

use super::{Pace, Reads, THRESHOLD};
use crate::catalogue::{Default, Kind, Parameter, Part, Range};
use crate::{Block, Ranked, Result};

/// LocalLeap: the first of the ranking and every anchor, a position whose confidence reaches a threshold; near an anchor a lower
/// threshold is enough.
#[derive(Clone, Debug)]
pub struct LocalLeap {
    /// Confidence of an anchor.
    pub threshold: f64,
    /// Confidence to reach near an anchor.
    pub relaxed: f64,
    /// Largest distance to an anchor.
    pub radius: usize,
}

const RELAXED_THRESHOLD: Parameter = Parameter::new(
    "relaxed_threshold",
    Kind::Number(Range::closed(0.0, 1.0)),
    Default::Number(0.75),
    "confidence to reach near a position that reaches threshold",
);
const RADIUS: Parameter = Parameter::new(
    "radius",
    Kind::Integer { least: 0, most: 65_536 },
    Default::Number(4.0),
    "largest distance to a position that reaches threshold",
);

pub(super) fn part() -> Part {
    let about =
        "the first, and all whose confidence reaches threshold, or relaxed_threshold near such a one (LocalLeap)";
    Part::pace("localleap", about, |given| {
        let (threshold, relaxed) = (given.number("threshold"), given.number("relaxed_threshold"));
        Ok(Box::new(LocalLeap { threshold, relaxed, radius: given.integer("radius") }))
    })
    .parameters(&[THRESHOLD.default(Default::Number(0.9)), RELAXED_THRESHOLD, RADIUS])
}

impl Pace for LocalLeap {
    fn reads(&self, _block: &Block, _candidates: usize) -> Reads {
        Reads::All
    }

    fn choose(&mut self, ranked: &Ranked<'_>) -> Result<Vec<usize>> {
        let confidence = |rank: usize| ranked.beliefs()[rank].probability;
        let anchors = ranked.filter(|rank| confidence(rank) >= self.threshold);
        // Near an anchor the lower threshold stands for the higher one, also for the anchor itself, as in the official code.
        let near = |position: usize| anchors.iter().any(|anchor| anchor.abs_diff(position) <= self.radius);
        let reaches = |rank: usize| near(ranked.positions()[rank]) && confidence(rank) >= self.relaxed;
        Ok(ranked.filter(|rank| rank == 0 || reaches(rank)))
    }
}
