//! WINO's first half.

use super::{Pace, Reads, THRESHOLD};
use crate::catalogue::{Default, Part};
use crate::{Block, Ranked, Result};

/// WINO's wide-in: every position whose confidence exceeds the threshold, up to a share of what is masked; meant to be followed
/// by [`Verify`](crate::Verify).
#[derive(Clone, Debug)]
pub struct Draft(pub f64);

pub(super) fn part() -> Part {
    Part::pace("draft", "all above threshold, up to a share of what is masked (WINO's first half)", |given| {
        Ok(Box::new(Draft(given.number("threshold"))))
    })
    .parameters(&[THRESHOLD.default(Default::Number(0.6))])
}

impl Pace for Draft {
    fn reads(&self, _block: &Block, _candidates: usize) -> Reads {
        Reads::All
    }

    fn choose(&mut self, ranked: &Ranked<'_>) -> Result<Vec<usize>> {
        let most = (ranked.positions().len() * 7 / 10).clamp(5, 20);
        let mut accepted = ranked.filter(|rank| ranked.beliefs()[rank].probability > self.0);
        accepted.truncate(most);
        Ok(if accepted.is_empty() { ranked.first(1) } else { accepted })
    }
}
