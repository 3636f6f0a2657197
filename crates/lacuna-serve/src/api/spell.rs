//! Spelling of single tokens.

use lacuna::Token;
use lacuna_models::{Specials, Text};

use super::ApiError;

/// The character that a decoder writes for bytes that are not, or not yet, a character.
pub(crate) const UNFINISHED: char = '\u{fffd}';
/// A character of UTF-8 has no more bytes, so no more tokens.
const MAX_TOKENS: usize = 4;

/// The text of some tokens that stand together.
pub(crate) fn spell(tokens: &[Token], text: &Text) -> Result<String, ApiError> {
    Ok(text.decode(tokens, Specials::Keep)?)
}

/// The text that each token adds to a canvas. Where several tokens are one character, the last of them has it and the others
/// have nothing; so have gaps.
pub(crate) fn spell_all(
    tokens: &[Token],
    is_gap: impl Fn(usize) -> bool,
    text: &Text,
) -> Result<Vec<String>, ApiError> {
    let mut texts = vec![String::new(); tokens.len()];
    let mut first = 0;
    for position in 0..tokens.len() {
        if is_gap(position) {
            first = position + 1;
            continue;
        }
        let written = spell(&tokens[first..=position], text)?;
        let last = position + 1 == tokens.len() || is_gap(position + 1) || position + 1 - first == MAX_TOKENS;
        if !written.ends_with(UNFINISHED) || last {
            texts[position] = written;
            first = position + 1;
        }
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use lacuna_models::Checkpoint;

    use super::*;

    #[test]
    fn characters_of_several_tokens_stand_at_their_last() {
        let checkpoint = Checkpoint::embedded().unwrap();
        let text = checkpoint.text().unwrap();
        for written in ["Grüße, 世界! 🎈 naïve", "plain", "é", "👩‍🚀"] {
            let tokens = text.encode(written).unwrap();
            let texts = spell_all(&tokens, |_| false, text).unwrap();
            assert_eq!(texts.len(), tokens.len());
            assert_eq!(texts.concat(), written);
        }
        let tokens = text.encode("é").unwrap();
        assert!(tokens.len() > 1, "it takes several tokens");
        let cut = spell_all(&tokens, |position| position == 1, text).unwrap();
        assert_eq!(cut[1], "");
    }
}
