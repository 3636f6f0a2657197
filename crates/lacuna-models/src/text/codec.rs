//! Text to tokens and back.

use lacuna::Token;
use serde_json::Value;
use tokenizers::Tokenizer;

use super::guard::catch;
use super::qwen2;
use super::template::Template;
use crate::checkpoint::Files;
use crate::{Error, Result, json};

pub(super) const TOKENIZER: &str = "tokenizer.json";
/// Text that every part of a tokenizer has something to do with.
const TEST_TEXT: &str = " A trial, 1\n\u{e9}";
/// The tokens that end a turn of a chat, where a model has one.
const END_OF_TURN: [&str; 2] = ["<|eot_id|>", "<|im_end|>"];

/// The tokenizer and the chat template of a checkpoint.
#[derive(Debug)]
pub struct Text {
    place: String,
    pub(super) file: String,
    pub(super) tokenizer: Tokenizer,
    template: Option<Template>,
}

/// Treatment of special tokens in decoded text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Specials {
    /// They are written out.
    Keep,
    /// They are left out.
    Skip,
}

impl Text {
    pub(crate) fn load(files: &Files) -> Result<Self> {
        let config = match files.read("tokenizer_config.json")? {
            Some(config) => parse(files, "tokenizer_config.json", &config)?,
            None => Value::Null,
        };
        let (name, json) = match files.read(TOKENIZER)? {
            Some(json) => (TOKENIZER, json.into_owned()),
            None => (qwen2::VOCABULARY, qwen2::tokenizer_json(files, &config)?),
        };
        let file = files.label(name);
        let tokenizer = guarded(&file, || {
            let mut tokenizer = Tokenizer::from_bytes(json)?;
            // Settings that the tokenizer was saved with; transformers passes over them too.
            tokenizer.with_padding(None).with_truncation(None)?;
            // Some malformed parts panic only when they are used. Errors are another matter: not all tokenizers know all text.
            let tokens = tokenizer.encode(TEST_TEXT, false).map(|encoding| encoding.get_ids().to_vec());
            let _ = tokenizer.decode(&tokens.unwrap_or_default(), false);
            Ok(tokenizer)
        })?;
        let text = Self { place: files.place(), file, tokenizer, template: Template::load(files, &config)? };
        if name == qwen2::VOCABULARY {
            text.check_added_tokens(&config)?;
        }
        Ok(text)
    }

    /// Added tokens must have got the ids the configuration gives them, or prompts would mean something else.
    fn check_added_tokens(&self, config: &Value) -> Result<()> {
        let Some(added) = config.get("added_tokens_decoder").and_then(Value::as_object) else { return Ok(()) };
        for (id, token) in added {
            let content = token.get("content").and_then(Value::as_str).unwrap_or_default();
            let found = self.tokenizer.token_to_id(content);
            if found.map(|found| found.to_string()).as_ref() != Some(id) {
                let found = found.map_or("has none for it".to_string(), |found| format!("gives it {found}"));
                let reason = format!("tokenizer_config.json gives '{content}' the id {id}, but the tokenizer {found}");
                return Err(Error::Tokenizer { file: self.file.clone(), reason });
            }
        }
        Ok(())
    }

    /// The tokens of a text. Special tokens that are written out in it are recognized; none are added.
    pub fn encode(&self, text: &str) -> Result<Vec<Token>> {
        Ok(guarded(&self.file, || self.tokenizer.encode(text, false))?.get_ids().to_vec())
    }

    /// The tokens of a chat of `(role, content)` messages, up to where the model's answer begins.
    pub fn chat(&self, messages: &[(&str, &str)]) -> Result<Vec<Token>> {
        self.encode(&self.render(messages)?)
    }

    /// The text of a chat, as the model's template has it.
    pub fn render(&self, messages: &[(&str, &str)]) -> Result<String> {
        match &self.template {
            Some(template) => template.render(messages),
            None => Err(Error::NoTemplate { place: self.place.clone() }),
        }
    }

    /// True if the model has a chat template.
    pub fn can_chat(&self) -> bool {
        self.template.is_some()
    }

    /// The text of tokens.
    pub fn decode(&self, tokens: &[Token], specials: Specials) -> Result<String> {
        guarded(&self.file, || self.tokenizer.decode(tokens, specials == Specials::Skip))
    }

    /// The id of a token that is written like this.
    pub fn token(&self, written: &str) -> Option<Token> {
        self.tokenizer.token_to_id(written)
    }

    /// The token that ends a turn of a chat, if the model has one.
    pub fn end_of_turn(&self) -> Option<Token> {
        END_OF_TURN.into_iter().find_map(|written| self.token(written))
    }
}

/// Calls the tokenizer library; its errors and panics are the file's fault.
fn guarded<T>(file: &str, call: impl FnOnce() -> std::result::Result<T, tokenizers::Error>) -> Result<T> {
    let reason = match catch(call) {
        Ok(Ok(done)) => return Ok(done),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => format!("the tokenizer library fails on it ({})", panic.replace('\n', " ")),
    };
    Err(Error::Tokenizer { file: file.to_string(), reason })
}

/// Parses a JSON file.
pub(super) fn parse(files: &Files, name: &str, content: &[u8]) -> Result<Value> {
    json::parse(&files.label(name), content)
}
