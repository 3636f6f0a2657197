//! The text side of a model.

use lacuna::Token;

use crate::Result;
use crate::task::Prompt;

/// Tokenizer and chat template: prompts to tokens, tokens to answers.
pub trait TextCodec: Sync {
    /// The text of a chat of (role, content) turns, up to where the answer begins.
    fn render(&self, turns: &[(&str, &str)]) -> Result<String>;

    /// The tokens of a text.
    fn encode(&self, text: &str) -> Result<Vec<Token>>;

    /// The text of tokens, without special ones.
    fn decode(&self, tokens: &[Token]) -> Result<String>;

    /// The tokens that end an answer.
    fn ends(&self) -> &[Token];
}

/// The tokens of a prompt, with the beginning of the answer.
pub(super) fn encode(codec: &dyn TextCodec, prompt: &Prompt) -> Result<Vec<Token>> {
    let turns: Vec<(&str, &str)> = prompt.turns.iter().map(|turn| (turn.role, turn.content.as_str())).collect();
    codec.encode(&(codec.render(&turns)? + &prompt.prefix))
}
