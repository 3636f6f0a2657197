//! The bytes that the tokens of real tokenizers stand for.

use std::collections::HashMap;

use serde_json::Value;

/// A `tokenizer.json` from which the bytes of tokens cannot be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes of this tokenizer's tokens are not known: {0}")]
pub struct TokenizerError(String);

/// The bytes of every token of a `tokenizer.json`, by id; `None` for special tokens and for ids without a token. `len` is the
/// size of the vocabulary of the model, which may be larger than that of the tokenizer.
///
/// Two kinds of tokenizers are known by their decoders: byte-level (GPT-2's alphabet for bytes) and those in the manner of
/// SentencePiece (`▁` for a space, `<0x0A>` for a byte). Added tokens that are not special stand for their own text.
///
/// # Errors
/// If the decoder is of another kind or the file has no vocabulary.
pub fn token_bytes(tokenizer: &Value, len: usize) -> Result<Vec<Option<Vec<u8>>>, TokenizerError> {
    let error = |what: &str| TokenizerError(what.to_owned());
    let spelling = Spelling::of(&tokenizer["decoder"])?;
    let mut tokens: Vec<Option<Vec<u8>>> = vec![None; len];
    let mut put = |id: u64, bytes: Option<Vec<u8>>| {
        let places = tokens.len();
        match tokens.get_mut(id as usize) {
            Some(place) => {
                *place = bytes;
                Ok(())
            }
            None => Err(TokenizerError(format!("token {id} lies outside a vocabulary of {places}"))),
        }
    };
    match &tokenizer["model"]["vocab"] {
        Value::Object(vocabulary) => {
            for (text, id) in vocabulary {
                put(id.as_u64().ok_or_else(|| error("a token's id is not a number"))?, Some(spelling.bytes(text)))?;
            }
        }
        Value::Array(pieces) => {
            for (id, piece) in pieces.iter().enumerate() {
                let text = piece[0].as_str().ok_or_else(|| error("a token is not a text"))?;
                put(id as u64, Some(spelling.bytes(text)))?;
            }
        }
        _ => return Err(error("it has no vocabulary")),
    }
    let unknown = &tokenizer["model"]["unk_token"];
    for added in tokenizer["added_tokens"].as_array().into_iter().flatten() {
        let (Some(id), Some(text)) = (added["id"].as_u64(), added["content"].as_str()) else {
            return Err(error("an added token has no id or no text"));
        };
        let special = added["special"].as_bool().unwrap_or(false) || unknown == text;
        put(id, (!special).then(|| text.as_bytes().to_vec()))?;
    }
    Ok(tokens)
}

/// The way a tokenizer writes bytes as text.
enum Spelling {
    /// GPT-2's alphabet: a character for each byte.
    ByteLevel(HashMap<char, u8>),
    /// Text with `▁` for spaces, and tokens such as `<0x0A>` for single bytes.
    SentencePiece,
}

impl Spelling {
    fn of(decoder: &Value) -> Result<Self, TokenizerError> {
        let single = std::slice::from_ref(decoder);
        let steps = decoder["decoders"].as_array().map_or(single, Vec::as_slice);
        let kinds: Vec<&str> = steps.iter().filter_map(|step| step["type"].as_str()).collect();
        let spaces = |step: &Value| {
            step["type"] == "Metaspace" || (step["type"] == "Replace" && step["pattern"]["String"] == "▁")
        };
        if kinds.contains(&"ByteLevel") {
            Ok(Self::ByteLevel(byte_alphabet()))
        } else if steps.iter().any(spaces) || kinds.contains(&"ByteFallback") {
            Ok(Self::SentencePiece)
        } else {
            Err(TokenizerError(format!("its decoder is neither byte-level nor SentencePiece's ({})", kinds.join(", "))))
        }
    }

    fn bytes(&self, text: &str) -> Vec<u8> {
        match self {
            // A character outside the alphabet stands for itself.
            Self::ByteLevel(alphabet) => {
                let mut bytes = Vec::with_capacity(text.len());
                for character in text.chars() {
                    match alphabet.get(&character) {
                        Some(&byte) => bytes.push(byte),
                        None => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
                    }
                }
                bytes
            }
            Self::SentencePiece => {
                let byte = text.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
                match byte.filter(|hex| hex.len() == 2).and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
                    Some(byte) => vec![byte],
                    None => text.replace('▁', " ").into_bytes(),
                }
            }
        }
    }
}

/// Printable bytes stand for themselves, the others for the characters from U+0100 on.
fn byte_alphabet() -> HashMap<char, u8> {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let shifted = (0..=255u8).filter(|&byte| !printable(byte)).zip('\u{100}'..);
    let same = (0..=255u8).filter(|&byte| printable(byte)).map(|byte| (char::from(byte), byte));
    same.chain(shifted.map(|(byte, character)| (character, byte))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn byte_level_tokens_stand_for_bytes() {
        let tokenizer = json!({
            "decoder": {"type": "ByteLevel"},
            "added_tokens": [{"id": 4, "content": "<end>", "special": true}, {"id": 5, "content": "<tool>", "special": false}],
            "model": {"vocab": {"a": 0, "Ġb": 1, "Ċ": 2, "Ã¤": 3, "<end>": 4}},
        });
        let tokens = token_bytes(&tokenizer, 7).expect("known");
        let expected: [Option<&[u8]>; 7] =
            [Some(b"a"), Some(b" b"), Some(b"\n"), Some("ä".as_bytes()), None, Some(b"<tool>"), None];
        assert!(tokens.iter().map(Option::as_deref).eq(expected));
        assert!(token_bytes(&tokenizer, 5).is_err());
    }

    #[test]
    fn sentencepiece_tokens_stand_for_text_and_bytes() {
        let tokenizer = json!({
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]},
            "added_tokens": [{"id": 0, "content": "<unk>", "special": true}],
            "model": {"unk_token": "<unk>", "vocab": [["<unk>", 0.0], ["▁the", -1.0], ["<0xE4>", -2.0], ["é", -3.0]]},
        });
        let tokens = token_bytes(&tokenizer, 4).expect("known");
        let expected: [Option<&[u8]>; 4] = [None, Some(b" the"), Some(b"\xe4"), Some("é".as_bytes())];
        assert!(tokens.iter().map(Option::as_deref).eq(expected));
    }

    #[test]
    fn other_decoders_are_refused() {
        let tokenizer = json!({"decoder": {"type": "WordPiece"}, "model": {"vocab": {}}});
        assert!(token_bytes(&tokenizer, 1).unwrap_err().to_string().contains("WordPiece"));
    }
}
