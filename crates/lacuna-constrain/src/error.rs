/// A constraint that cannot be used, in one sentence: it cannot be read, asks for something that no automaton can
/// hold, or is too large.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub(crate) String);

impl Refused {
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

/// A canvas that no choice of tokens can complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impossible {
    /// The length of the canvas in tokens.
    pub length: usize,
    /// The shortest length in tokens that would do, with every run of masks made as long or as short as it must be and
    /// the decided tokens kept. `None` when no length would do.
    pub shortest: Option<usize>,
}

impl std::error::Error for Impossible {}

impl std::fmt::Display for Impossible {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let length = self.length;
        match self.shortest {
            Some(shortest) => write!(
                f,
                "the constraint cannot be met in {length} tokens; the shortest length that would do is {shortest}"
            ),
            None => write!(
                f,
                "the constraint cannot be met in any number of tokens: no token spells it, or the text already decided \
                 contradicts it"
            ),
        }
    }
}

/// A token that cannot stand where it was to be written: the canvas could not be completed with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("token {token} at position {position} leaves no way to meet the constraint")]
pub struct NotAllowed {
    /// The position in the canvas.
    pub position: usize,
    /// The token's id.
    pub token: u32,
}
