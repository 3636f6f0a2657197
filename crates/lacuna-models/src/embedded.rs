//! The model that is part of the program.

use crate::{Checkpoint, Result};

impl Checkpoint {
    /// The model that is part of the program: small, in the architecture of LLaDA, and trained for this.
    pub fn embedded() -> Result<Self> {
        Self::from_static(lacuna_mini::FILES)
    }
}
