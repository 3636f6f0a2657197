//! Allowed tokens per position.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::{Canvas, Options, Result, Token};

/// A set of tokens: bit `t % 32` of word `t / 32` for token `t`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSet(Arc<[u32]>);

impl TokenSet {
    /// All tokens of a vocabulary but these.
    pub fn all_but(vocabulary: usize, tokens: &[Token]) -> Self {
        let full = |word: usize| u32::MAX >> (32 * (word + 1)).saturating_sub(vocabulary);
        let mut set = Self((0..vocabulary.div_ceil(32)).map(full).collect());
        tokens.iter().for_each(|&token| set.remove(token));
        set
    }

    /// The words.
    pub fn words(&self) -> &[u32] {
        &self.0
    }

    /// True if a token is in the set.
    pub fn contains(&self, token: Token) -> bool {
        self.0.get(token as usize / 32).is_some_and(|word| word >> (token % 32) & 1 == 1)
    }

    /// Removes a token.
    pub fn remove(&mut self, token: Token) {
        if let Some(word) = Arc::make_mut(&mut self.0).get_mut(token as usize / 32) {
            *word &= !(1 << (token % 32));
        }
    }

    /// Makes the logits of all other tokens −∞; false if one of those was NaN.
    pub fn keep(&self, logits: &mut [f32]) -> bool {
        let mut numbers = true;
        for (logits, &word) in logits.chunks_mut(32).zip(self.words()) {
            if word == u32::MAX {
                continue;
            }
            for (bit, logit) in logits.iter_mut().enumerate() {
                if word >> bit & 1 == 0 {
                    numbers &= !logit.is_nan();
                    *logit = f32::NEG_INFINITY;
                }
            }
        }
        numbers
    }
}

impl From<Arc<[u32]>> for TokenSet {
    fn from(words: Arc<[u32]>) -> Self {
        Self(words)
    }
}

/// The texts that a run may write.
pub trait Constraint: Debug + Send + Sync {
    /// The constraint on a canvas. Refuses a canvas that cannot be completed.
    fn begin(&self, canvas: &Canvas) -> Result<Box<dyn Fit>>;
}

/// A canvas under a constraint. It can always be completed.
pub trait Fit: Debug + Send {
    /// The tokens with which the canvas can be completed at a gap, everything else being as it is; at least one. `None` where the
    /// constraint says nothing.
    fn allowed(&mut self, position: usize) -> Option<TokenSet>;

    /// Writes a token into a gap, over a mask or another token. False if the canvas could not be completed with it: nothing has then
    /// changed.
    fn write(&mut self, position: usize, token: Token) -> bool;

    /// Makes a gap undecided again.
    fn reopen(&mut self, position: usize);
}

/// The tokens that may stand at each position of a run's canvas.
#[derive(Debug)]
pub(crate) struct Allowed {
    /// All tokens but suppressed ones.
    any: TokenSet,
    fit: Option<Mutex<Box<dyn Fit>>>,
    /// The sets of a step, as they are asked for. They are those of the canvas before it.
    sets: Vec<OnceLock<TokenSet>>,
}

impl Allowed {
    pub(crate) fn new(canvas: &Canvas, options: &Options, vocabulary: usize) -> Result<Self> {
        let mut any = TokenSet::all_but(vocabulary, &options.suppressed);
        any.remove(canvas.mask());
        let fit = options.constraint.as_ref().map(|constraint| constraint.begin(canvas)).transpose()?;
        let mut allowed = Self { any, fit: fit.map(Mutex::new), sets: Vec::new() };
        allowed.begin_step(canvas.len());
        Ok(allowed)
    }

    /// A step begins: the canvas has `length` positions and stands as it was written.
    pub(crate) fn begin_step(&mut self, length: usize) {
        if self.fit.is_some() {
            self.sets.clear();
            self.sets.resize_with(length, OnceLock::new);
        }
    }

    /// The tokens that may stand at a position.
    pub(crate) fn at(&self, position: usize) -> &TokenSet {
        let Some(fit) = &self.fit else { return &self.any };
        let ask = || fit.lock().unwrap_or_else(PoisonError::into_inner).allowed(position);
        self.sets[position].get_or_init(|| ask().unwrap_or_else(|| self.any.clone()))
    }

    /// Writes a token, if the canvas can be completed with it.
    pub(crate) fn write(&mut self, position: usize, token: Token) -> bool {
        self.fit().is_none_or(|fit| fit.write(position, token))
    }

    /// Makes a position undecided again.
    pub(crate) fn reopen(&mut self, position: usize) {
        if let Some(fit) = self.fit() {
            fit.reopen(position);
        }
    }

    fn fit(&mut self) -> Option<&mut dyn Fit> {
        let fit = self.fit.as_mut()?;
        Some(fit.get_mut().unwrap_or_else(PoisonError::into_inner).as_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_tokens_of_its_vocabulary() {
        for vocabulary in [1, 31, 32, 33, 70] {
            let set = TokenSet::all_but(vocabulary, &[0, 40]);
            let found: Vec<Token> = (0..100).filter(|&token| set.contains(token)).collect();
            let expected: Vec<Token> = (1..vocabulary as Token).filter(|&token| token != 40).collect();
            assert_eq!(found, expected);
            let mut logits = vec![1.0; vocabulary];
            assert!(set.keep(&mut logits));
            assert!((0..).zip(&logits).all(|(token, logit)| (*logit == 1.0) == set.contains(token)));
        }
    }

    #[test]
    fn what_is_lost_must_be_a_number() {
        let set = TokenSet::all_but(40, &[33]);
        let mut logits = vec![f32::NAN; 40];
        logits[33] = 1.0;
        assert!(set.keep(&mut logits));
        logits[33] = f32::NAN;
        assert!(!set.keep(&mut logits));
    }
}
