//! The text with its gaps.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::{Error, Resize, Result};

/// A token id.
pub type Token = u32;

/// A sequence of tokens, some of them masked.
///
/// Only its *gaps* are ever written: the positions that are masked at the start, and those of a draft, which are decided at the start
/// and may be reopened by a revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Canvas {
    tokens: Vec<Token>,
    gaps: Vec<bool>,
    mask: Token,
    /// True at the gaps that were decided at the start; empty if there is no draft.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    drafts: Vec<bool>,
}

impl Canvas {
    /// A canvas whose gaps are the positions that hold `mask`.
    pub fn new(tokens: Vec<Token>, mask: Token) -> Result<Self> {
        Self::with_drafts(tokens, mask, &[])
    }

    /// A canvas whose gaps are the positions that hold `mask` and those of these drafts.
    pub fn with_drafts(tokens: Vec<Token>, mask: Token, drafts: &[Range<usize>]) -> Result<Self> {
        let mut gaps: Vec<bool> = tokens.iter().map(|&token| token == mask).collect();
        let mut drafted = vec![false; if drafts.is_empty() { 0 } else { tokens.len() }];
        for position in drafts.iter().cloned().flatten() {
            match gaps.get_mut(position) {
                Some(gap) => drafted[position] = !std::mem::replace(gap, true),
                None => return Err(Error::Incompatible("a draft reaches beyond its canvas".into())),
            }
        }
        if !gaps.contains(&true) {
            return Err(Error::NoGaps);
        }
        Ok(Self { tokens, gaps, mask, drafts: drafted })
    }

    /// A prompt followed by `length` masks.
    pub fn with_tail(prompt: &[Token], length: usize, mask: Token) -> Result<Self> {
        let mut tokens = prompt.to_vec();
        tokens.resize(prompt.len() + length, mask);
        Self::new(tokens, mask)
    }

    /// All tokens, the mask token where undecided.
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// Number of positions.
    #[allow(clippy::len_without_is_empty, reason = "a canvas has at least one gap")]
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// The token that stands for "undecided".
    pub fn mask(&self) -> Token {
        self.mask
    }

    /// True if `position` is undecided.
    pub fn is_masked(&self, position: usize) -> bool {
        self.tokens[position] == self.mask
    }

    /// True if `position` is a gap that has been filled.
    pub fn is_decided(&self, position: usize) -> bool {
        position < self.len() && self.is_gap(position) && !self.is_masked(position)
    }

    /// True if `position` was masked at the start, or is one of a draft.
    pub fn is_gap(&self, position: usize) -> bool {
        self.gaps[position]
    }

    /// True if `position` is one of a draft.
    pub fn is_draft(&self, position: usize) -> bool {
        self.drafts.get(position).is_some_and(|&draft| draft)
    }

    /// The positions of drafts in a range, ascending.
    pub fn drafts_in(&self, range: Range<usize>) -> impl Iterator<Item = usize> + '_ {
        range.filter(|&position| self.is_draft(position))
    }

    /// The undecided positions, ascending.
    pub fn masked(&self) -> impl Iterator<Item = usize> + '_ {
        self.masked_before(self.len())
    }

    /// The undecided positions before `end`, ascending.
    pub fn masked_before(&self, end: usize) -> impl Iterator<Item = usize> + '_ {
        (0..end).filter(|&position| self.is_masked(position))
    }

    /// The positions that were masked at the start and those of drafts, ascending.
    pub fn gaps(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.len()).filter(|&position| self.is_gap(position))
    }

    /// The gaps of a range, ascending.
    pub fn gaps_in(&self, range: Range<usize>) -> impl Iterator<Item = usize> + '_ {
        range.filter(|&position| self.is_gap(position))
    }

    /// The decided gaps of a range, ascending.
    pub fn decided_in(&self, range: Range<usize>) -> impl Iterator<Item = usize> + '_ {
        range.filter(|&position| self.is_decided(position))
    }

    /// From the first gap to behind the last one.
    pub fn span(&self) -> Range<usize> {
        let first = self.gaps().next().expect("a canvas has a gap");
        let last = self.gaps().last().expect("a canvas has a gap");
        first..last + 1
    }

    /// All tokens, the mask token also where there was something from the start: what guidance pushes away from.
    pub fn without_prompt(&self) -> Vec<Token> {
        let shown = |position| if self.is_gap(position) { self.tokens[position] } else { self.mask };
        (0..self.len()).map(shown).collect()
    }

    /// Inserts gaps and cuts off what is too long.
    pub fn resize(&mut self, Resize { at, tokens, length }: &Resize) {
        self.gaps.splice(at..at, tokens.iter().map(|_| true));
        self.tokens.splice(at..at, tokens.iter().copied());
        self.tokens.truncate(*length);
        self.gaps.truncate(*length);
        if !self.drafts.is_empty() {
            self.drafts.splice(at..at, tokens.iter().map(|_| false));
            self.drafts.truncate(*length);
        }
    }

    /// Decides a gap.
    pub fn commit(&mut self, position: usize, token: Token) {
        assert!(self.gaps[position] && token != self.mask, "only gaps are written, and never with a mask");
        self.tokens[position] = token;
    }

    /// Makes a gap undecided again.
    pub fn reopen(&mut self, position: usize) {
        assert!(self.gaps[position], "only gaps are reopened");
        self.tokens[position] = self.mask;
    }
}

/// The part of the canvas that is being decoded.
///
/// Blocks are decoded from left to right; a step may fill every masked position before the block's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Index of the block, from 0.
    pub index: usize,
    /// Its positions.
    pub range: Range<usize>,
    /// Number of steps so far.
    pub step: usize,
}
