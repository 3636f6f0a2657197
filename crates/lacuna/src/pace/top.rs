//! Always the same number.

use super::{Pace, Reads};
use crate::catalogue::{Build, Part};
use crate::{Block, Ranked, Result};

/// Always the same number of positions.
#[derive(Clone, Debug)]
pub struct TopK(pub usize);

pub(super) fn part() -> Part {
    let about = "a fixed number of positions: top1, top2, ...; top1 if no pace is named";
    Part::new("top1", about, Build::NumberedPace(|count| Box::new(TopK(count))))
}

/// The number in a name such as `top4`.
pub(crate) fn number_of(name: &str) -> Option<usize> {
    name.strip_prefix("top")?.parse().ok()
}

impl Pace for TopK {
    fn reads(&self, _block: &Block, _candidates: usize) -> Reads {
        Reads::First(self.0)
    }

    fn choose(&mut self, ranked: &Ranked<'_>) -> Result<Vec<usize>> {
        Ok(ranked.first(self.0))
    }

    fn max_commits(&self) -> Option<usize> {
        Some(self.0)
    }
}
