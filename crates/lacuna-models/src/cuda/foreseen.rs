//! What was read of the views observed last before it was asked for.

use lacuna::{Belief, Result};

use super::kernel::NOBODY;
use crate::layout::Layout;

/// Beliefs by the keys of a layout.
#[derive(Default)]
pub(crate) struct Foreseen {
    beliefs: Vec<Option<Result<Belief>>>,
    /// For each key, where its belief is.
    places: Vec<u32>,
}

impl Foreseen {
    /// Forgets everything, to begin with a new layout.
    pub(crate) fn clear(&mut self, layout: &Layout) {
        self.beliefs.clear();
        self.places.clear();
        self.places.resize(layout.keys(), NOBODY);
    }

    pub(crate) fn insert(&mut self, key: usize, belief: Result<Belief>) {
        self.places[key] = self.beliefs.len() as u32;
        self.beliefs.push(Some(belief));
    }

    pub(crate) fn take(&mut self, key: usize) -> Option<Result<Belief>> {
        self.beliefs.get_mut(self.places[key] as usize)?.take()
    }
}
