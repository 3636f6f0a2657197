//! Between text and tokens: tokenizer and chat template.

mod bounds;
mod bytes;
mod calendar;
mod codec;
mod guard;
mod json;
mod qwen2;
mod template;

pub use codec::{Specials, Text};
