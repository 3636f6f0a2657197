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

/// The files that a tokenizer and a chat template are read from, where they are there.
pub(crate) const FILES: [&str; 7] = [
    codec::TOKENIZER,
    template::CONFIG,
    template::SEPARATE,
    template::SPECIALS,
    qwen2::VOCABULARY,
    qwen2::MERGES,
    qwen2::ADDED,
];
