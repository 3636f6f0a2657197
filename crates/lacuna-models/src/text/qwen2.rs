//! The tokenizer of Dream, whose repositories hold Qwen2's vocabulary and merges but no tokenizer.json.

use serde_json::{Value, json};

use super::codec::parse;
use crate::checkpoint::{Files, QWEN2_SPLIT};
use crate::{Error, Result};

pub(super) const VOCABULARY: &str = "vocab.json";
pub(super) const MERGES: &str = "merges.txt";
pub(super) const ADDED: &str = "added_tokens.json";

/// The tokenizer.json that a Qwen2 repository would have.
pub(super) fn tokenizer_json(files: &Files, config: &Value) -> Result<Vec<u8>> {
    let (Some(vocabulary), Some(merges)) = (files.read(VOCABULARY)?, files.read(MERGES)?) else {
        return Err(Error::NoTokenizer { place: files.place() });
    };
    let vocabulary = parse(files, VOCABULARY, &vocabulary)?;
    let Ok(merges) = std::str::from_utf8(&merges) else {
        return Err(Error::Tokenizer { file: files.label(MERGES), reason: "it is not UTF-8 text".to_string() });
    };
    let merges: Vec<&str> = merges.lines().filter(|line| !line.is_empty() && !line.starts_with("#version")).collect();
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false});
    let tokenizer = json!({
        "version": "1.0",
        "added_tokens": added_tokens(files, config)?,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": QWEN2_SPLIT}, "behavior": "Isolated", "invert": false},
            byte_level,
        ]},
        "post_processor": byte_level,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": merges},
    });
    Ok(tokenizer.to_string().into_bytes())
}

/// The tokens beyond the vocabulary, in the order of their ids.
fn added_tokens(files: &Files, config: &Value) -> Result<Vec<Value>> {
    let mut tokens: Vec<(u64, Value)> = Vec::new();
    if let Some(added) = config.get("added_tokens_decoder").and_then(Value::as_object) {
        for (id, token) in added {
            let Ok(number) = id.parse() else {
                let reason = format!("'{id}' in added_tokens_decoder is not a token id");
                return Err(Error::Tokenizer { file: files.label("tokenizer_config.json"), reason });
            };
            let flag = |key: &str| token.get(key).and_then(Value::as_bool).unwrap_or(false);
            let token = json!({
                "id": number, "content": token.get("content"), "single_word": flag("single_word"),
                "lstrip": flag("lstrip"), "rstrip": flag("rstrip"), "normalized": flag("normalized"), "special": flag("special"),
            });
            tokens.push((number, token));
        }
    } else if let Some(added) = files.read(ADDED)? {
        for (content, id) in parse(files, ADDED, &added)?.as_object().into_iter().flatten() {
            let number = id.as_u64().unwrap_or(u64::MAX);
            let token = json!({
                "id": id, "content": content, "single_word": false,
                "lstrip": false, "rstrip": false, "normalized": false, "special": true,
            });
            tokens.push((number, token));
        }
    }
    tokens.sort_by_key(|(id, _)| *id);
    Ok(tokens.into_iter().map(|(_, token)| token).collect())
}
