//! Requests and responses: shapes, texts, refusals.

#[path = "../common/mod.rs"]
mod common;
mod description;
mod formats;
mod refusals;
mod scores;
mod steps;
mod texts;

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";
const SCORE: &str = "/v1/score";
