//! From prompts, and texts in which gaps are written out, to tokens.

use lacuna::Token;

use crate::{Checkpoint, Error, Result};

/// Notation of a gap.
pub const GAP: &str = "<gap:N>, where N is its length in tokens";

const OPENING: &str = "<gap:";

impl Checkpoint {
    /// The tokens of a prompt: in the model's chat template if it has one, unless the prompt is to stay as it is.
    pub fn encode_prompt(&self, prompt: &str, system: Option<&str>, raw: bool) -> Result<Vec<Token>> {
        if prompt.trim().is_empty() {
            return Err(Error::Request("the prompt is empty: give the model some text to answer".into()));
        }
        let text = self.text()?;
        if raw || (!text.can_chat() && system.is_none()) {
            return text.encode(prompt);
        }
        let system = system.map(|content| ("system", content));
        text.chat(&Vec::from_iter(system.into_iter().chain([("user", prompt)])))
    }

    /// The tokens of a text in which `<gap:N>` stands for N masks. What lies between gaps is tokenized on its own.
    pub fn encode_with_gaps(&self, text: &str) -> Result<Vec<Token>> {
        let mut tokens = Vec::new();
        let mut rest = text;
        while let Some(start) = rest.find(OPENING) {
            let (before, marker) = rest.split_at(start);
            let length = marker[OPENING.len()..].split_once('>');
            let parsed = length.and_then(|(digits, after)| Some((digits.parse::<usize>().ok()?, after)));
            let Some((length, after)) = parsed.filter(|(length, _)| *length > 0) else {
                let shown: String = marker.chars().take(12).collect();
                return Err(Error::Request(format!("'{shown}…' is no gap: write {GAP}, 1 or more")));
            };
            if length.saturating_add(tokens.len()) > self.architecture().context {
                return Err(Error::Request(format!("a gap of {length} tokens reaches beyond the model's context")));
            }
            tokens.extend(self.encode_between(before)?);
            tokens.resize(tokens.len() + length, self.mask_token()?);
            rest = after;
        }
        tokens.extend(self.encode_between(rest)?);
        Ok(tokens)
    }

    fn encode_between(&self, text: &str) -> Result<Vec<Token>> {
        if text.is_empty() { Ok(Vec::new()) } else { self.text()?.encode(text) }
    }
}
