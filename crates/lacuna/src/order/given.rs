//! An order that is given from outside.

use std::sync::Arc;

use super::{Order, RankBy};
use crate::catalogue::{Default, Kind, Parameter, Part};
use crate::{Result, StepContext};

/// In the order of a list. Positions that it does not name come last, from left to right.
#[derive(Clone, Debug)]
pub struct Given {
    /// Gaps of the canvas, counted from 0, the first to be decided first.
    pub places: Vec<usize>,
}

const PLACES: Parameter = Parameter::new(
    "places",
    Kind::Integers,
    Default::Required,
    "masked positions in the order to fill them, counted from the first one at 0; those that are not named come last",
);

pub(super) fn part() -> Part {
    Part::order("given", "in the order of a list", |given| {
        Ok(Arc::new(Given { places: given.integers("places").unwrap_or_default() }))
    })
    .parameters(&[PLACES])
}

impl Order for Given {
    fn ranks_by(&self) -> RankBy<'_> {
        RankBy::Known
    }

    fn score(&self, context: &StepContext<'_>) -> Result<Vec<f64>> {
        let mut ranks = vec![self.places.len(); context.canvas().gaps().count()];
        for (rank, &place) in self.places.iter().enumerate() {
            if let Some(slot) = ranks.get_mut(place) {
                *slot = rank;
            }
        }
        let gaps: Vec<usize> = context.canvas().gaps().collect();
        let score = |position: &usize| -(gaps.binary_search(position).map_or(0, |place| ranks[place]) as f64);
        Ok(context.candidates().iter().map(score).collect())
    }
}
