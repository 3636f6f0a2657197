//! Keys and values of texts that have ended, for runs whose texts begin alike.

use lacuna::{Borders, Token};

use super::kernel::Lines;

/// Finished blocks of block-causal texts, those used last at the end. They take a bounded amount of memory.
#[derive(Default)]
pub(crate) struct Prompts {
    limit: usize,
    bytes: usize,
    texts: Vec<Stored>,
}

/// The finished blocks of a text: their tokens, and the rows of keys and values of each layer.
struct Stored {
    tokens: Vec<Token>,
    blocks: Borders,
    layers: Vec<Lines<f32>>,
}

impl Stored {
    fn bytes(&self) -> usize {
        self.layers.iter().map(|rows| rows.len() * size_of::<f32>()).sum()
    }

    /// Leading positions in whole blocks that it shares with a text.
    fn shared(&self, tokens: &[Token], blocks: Borders) -> usize {
        let same = self.tokens.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        if self.blocks == blocks { blocks.start(same) } else { 0 }
    }
}

impl Prompts {
    /// Sets how many bytes they may take; none at first.
    pub(crate) fn limit(&mut self, bytes: usize) {
        self.limit = bytes;
        self.shrink();
    }

    /// Bytes that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Stores the finished blocks of a text, whose rows come first in each of `layers`.
    pub(crate) fn store(&mut self, tokens: &[Token], blocks: Borders, layers: &[Lines<f32>], width: usize) {
        let size = tokens.len() * width;
        let bytes = layers.len() * size * size_of::<f32>();
        if tokens.is_empty() || bytes > self.limit {
            return;
        }
        if let Some(known) = self.texts.iter().position(|text| text.shared(tokens, blocks) == tokens.len()) {
            return self.use_again(known);
        }
        // What is the beginning of this text is part of it now.
        for text in self.texts.extract_if(.., |text| blocks == text.blocks && tokens.starts_with(&text.tokens)) {
            self.bytes -= text.bytes();
        }
        let copy = |rows: &Lines<f32>| {
            let mut copy = Lines::new(size);
            copy.copy_from_slice(&rows[..size]);
            copy
        };
        self.texts.push(Stored { tokens: tokens.to_vec(), blocks, layers: layers.iter().map(copy).collect() });
        self.bytes += bytes;
        self.shrink();
    }

    /// The longest beginning of a text that is stored in whole blocks: its length, and its rows of each layer.
    pub(crate) fn find(&mut self, tokens: &[Token], blocks: Borders) -> Option<(usize, Vec<&[f32]>)> {
        let shared = |text: &Stored| text.shared(tokens, blocks);
        let best = (0..self.texts.len()).max_by_key(|&text| shared(&self.texts[text]))?;
        let length = shared(&self.texts[best]);
        if length == 0 {
            return None;
        }
        self.use_again(best);
        let text = self.texts.last()?;
        let leading = |rows: &'_ Lines<f32>| rows.len() / text.tokens.len() * length;
        Some((length, text.layers.iter().map(|rows| &rows[..leading(rows)]).collect()))
    }

    fn use_again(&mut self, text: usize) {
        let text = self.texts.remove(text);
        self.texts.push(text);
    }

    /// Drops what was not used for longest until the rest fits.
    fn shrink(&mut self) {
        while self.bytes > self.limit {
            self.bytes -= self.texts.remove(0).bytes();
        }
    }
}
