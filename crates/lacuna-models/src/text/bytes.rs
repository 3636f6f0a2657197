//! Tokens as bytes.

use lacuna::Token;
use lacuna_constrain::{Vocabulary, token_bytes};
use serde_json::Value;

use super::codec::{Specials, Text};
use crate::{Error, Result};

impl Text {
    /// The bytes that a token stands for. A character may be spread over several tokens.
    pub fn token_bytes(&self, token: Token) -> Vec<u8> {
        let decoded = self.decode(&[token], Specials::Keep).unwrap_or_default();
        if !decoded.contains(char::REPLACEMENT_CHARACTER) {
            return decoded.into_bytes();
        }
        let written = self.tokenizer.id_to_token(token).unwrap_or_default();
        let byte = written.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
        if let Some(byte) = byte.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            return vec![byte];
        }
        written.chars().map(byte_of).collect::<Option<_>>().unwrap_or_else(|| decoded.into_bytes())
    }

    /// All tokens of a model with `size` of them as bytes, for constraints; `ends` end a text.
    pub(crate) fn vocabulary(&self, size: usize, ends: &[Token]) -> Result<Vocabulary> {
        let unfit = |reason: String| Error::Tokenizer { file: self.file.clone(), reason };
        let written = self.tokenizer.to_string(false).map_err(|error| unfit(error.to_string()))?;
        let tokenizer: Value = serde_json::from_str(&written).map_err(|error| unfit(error.to_string()))?;
        let bytes = token_bytes(&tokenizer, size).map_err(|error| unfit(error.to_string()))?;
        Ok(Vocabulary::new(bytes, ends))
    }

    /// The length of the longest token in bytes, or a little more.
    pub fn longest_token(&self) -> usize {
        self.tokenizer.get_vocab(true).keys().map(String::len).max().unwrap_or(1).max(1)
    }
}

/// The byte that a character stands for in a byte-level vocabulary: printable ones for themselves, the others follow from
/// U+0100 on.
fn byte_of(character: char) -> Option<u8> {
    let printable = |byte: &u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    match u32::from(character) {
        code @ 0..=0xff => u8::try_from(code).ok().filter(printable),
        code => (0..=0xff).filter(|byte| !printable(byte)).nth(code as usize - 0x100),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Checkpoint;

    #[test]
    fn the_bytes_of_tokens_are_those_of_their_text() {
        let checkpoint = Checkpoint::embedded().unwrap();
        let text = checkpoint.text().unwrap();
        let written = "naïve 日本語 🦀\n\tand\u{0} plain text";
        let tokens = text.encode(written).unwrap();
        let bytes: Vec<u8> = tokens.iter().flat_map(|&token| text.token_bytes(token)).collect();
        assert_eq!(String::from_utf8(bytes).unwrap(), written);
        assert!(tokens.iter().all(|&token| text.token_bytes(token).len() <= text.longest_token()));
        assert_eq!(("Ġ".chars().next().and_then(byte_of), byte_of('é')), (Some(b' '), Some(0xe9)));
    }
}
