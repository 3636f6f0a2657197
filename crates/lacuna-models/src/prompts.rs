//! Keys and values of texts that have ended, for runs whose texts begin alike.

use lacuna::{Borders, Token};

/// Finished blocks of block-causal texts, those used last at the end. They take a bounded amount of memory. `T` is what holds the keys and
/// values of a text.
pub(crate) struct Prompts<T> {
    limit: usize,
    bytes: usize,
    texts: Vec<Stored<T>>,
}

/// The finished blocks of a text: their tokens, and their keys and values.
struct Stored<T> {
    tokens: Vec<Token>,
    blocks: Borders,
    bytes: usize,
    rows: T,
}

impl<T> Stored<T> {
    /// Leading positions in whole blocks that it shares with a text.
    fn shared(&self, tokens: &[Token], blocks: Borders) -> usize {
        let same = self.tokens.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        if self.blocks == blocks { blocks.start(same) } else { 0 }
    }
}

impl<T> Default for Prompts<T> {
    fn default() -> Self {
        Self { limit: 0, bytes: 0, texts: Vec::new() }
    }
}

impl<T> Prompts<T> {
    /// Sets how many bytes they may take; none at first.
    pub(crate) fn limit(&mut self, bytes: usize) {
        self.limit = bytes;
        self.evict();
    }

    /// Bytes that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Stores the finished blocks of a text: `copy` makes a copy of their keys and values, which takes `bytes` bytes, if there is
    /// memory for it.
    pub(crate) fn store(&mut self, tokens: &[Token], blocks: Borders, bytes: usize, copy: impl FnOnce() -> Option<T>) {
        if tokens.is_empty() || bytes > self.limit {
            return;
        }
        if let Some(known) = self.texts.iter().position(|text| text.shared(tokens, blocks) == tokens.len()) {
            return self.mark_used(known);
        }
        // What is the beginning of this text is part of it now.
        for text in self.texts.extract_if(.., |text| blocks == text.blocks && tokens.starts_with(&text.tokens)) {
            self.bytes -= text.bytes;
        }
        let Some(rows) = copy() else { return };
        self.texts.push(Stored { tokens: tokens.to_vec(), blocks, bytes, rows });
        self.bytes += bytes;
        self.evict();
    }

    /// The longest beginning of a text that is stored in whole blocks: its length, how many positions are stored with it, and the
    /// keys and values of these.
    pub(crate) fn find(&mut self, tokens: &[Token], blocks: Borders) -> Option<(usize, usize, &T)> {
        let shared = |text: &Stored<T>| text.shared(tokens, blocks);
        let best = (0..self.texts.len()).max_by_key(|&text| shared(&self.texts[text]))?;
        let length = shared(&self.texts[best]);
        if length == 0 {
            return None;
        }
        self.mark_used(best);
        self.texts.last().map(|text| (length, text.tokens.len(), &text.rows))
    }

    fn mark_used(&mut self, text: usize) {
        let text = self.texts.remove(text);
        self.texts.push(text);
    }

    /// Drops what was not used for longest until the rest fits.
    fn evict(&mut self) {
        while self.bytes > self.limit {
            self.bytes -= self.texts.remove(0).bytes;
        }
    }
}
