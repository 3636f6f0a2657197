//! `/v1/completions`: text continued, or gaps filled.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::ApiError;
use super::body::{Payload, TextRequest};
use super::exchange::{Head, Piece, Usage, accept};
use crate::service::Service;
use crate::transcript::{Finish, Scored, TextDelta};
use crate::watch::Watch;

/// A text, or a part of one.
#[derive(Serialize, ToSchema)]
pub(crate) struct Completion {
    id: String,
    #[schema(pattern = "^text_completion$")]
    object: &'static str,
    created: u64,
    model: String,
    choices: Vec<CompletionChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Usage>)]
    usage: Option<Option<Usage>>,
}

/// One of the texts.
#[derive(Serialize, ToSchema)]
pub(crate) struct CompletionChoice {
    index: usize,
    text: String,
    #[schema(required)]
    logprobs: Option<CompletionLogprobs>,
    #[schema(required)]
    finish_reason: Option<Finish>,
}

/// Log probabilities of the tokens in the steps that decided them.
#[derive(Serialize, ToSchema)]
pub(crate) struct CompletionLogprobs {
    tokens: Vec<String>,
    token_logprobs: Vec<f64>,
    /// For each token the most probable ones in that step and their log probabilities, and the token itself; null if none were asked
    /// for.
    #[schema(required)]
    top_logprobs: Option<Vec<BTreeMap<String, f64>>>,
    /// Each token's start in the text, in characters.
    text_offset: Vec<usize>,
}

impl CompletionLogprobs {
    fn of(scored: &[Scored]) -> Option<Self> {
        // Tokens that are written alike, parts of characters among them, share an entry: the most probable of them has it.
        let top = |token: &Scored| {
            let others = token.alternatives.iter().rev().map(|other| (other.text.clone(), other.logprob));
            let mut all: BTreeMap<String, f64> = others.collect();
            all.entry(token.text.clone()).or_insert(token.logprob);
            all
        };
        let asked = scored.iter().any(|token| !token.alternatives.is_empty());
        let logprobs = Self {
            tokens: scored.iter().map(|token| token.text.clone()).collect(),
            token_logprobs: scored.iter().map(|token| token.logprob).collect(),
            top_logprobs: asked.then(|| scored.iter().map(top).collect()),
            text_offset: scored.iter().map(|token| token.offset).collect(),
        };
        (!scored.is_empty()).then_some(logprobs)
    }
}

impl CompletionChoice {
    fn new(index: usize, delta: TextDelta) -> Self {
        let logprobs = CompletionLogprobs::of(&delta.tokens);
        Self { index, text: delta.text, logprobs, finish_reason: delta.finish }
    }
}

/// Continue a text, or fill its gaps
#[utoipa::path(
    post, path = "/v1/completions", tag = "OpenAI",
    request_body = super::body::CompletionBody,
    responses((status = 200, description = "The texts; with stream, as they become final", content(
        (Completion = "application/json"), (String = "text/event-stream"),
    )))
)]
pub(crate) async fn completions(
    State(service): State<Arc<Service>>,
    Payload(body): Payload,
) -> Result<Response, ApiError> {
    let (query, exchange, _) = accept(service, TextRequest::completion(body)?, Watch::default(), "cmpl").await?;
    if query.stream {
        return Ok(exchange.stream(chunk));
    }
    let (head, texts, usage) = exchange.finish(&query).await?;
    let choices = texts.into_iter().enumerate().map(|(index, delta)| CompletionChoice::new(index, delta)).collect();
    Ok(Json(completion(&head, choices, Some(Some(usage)))).into_response())
}

fn chunk(head: &Head, piece: Option<Piece>, usage: Option<Option<Usage>>) -> Option<Completion> {
    let choices = piece.into_iter().map(|piece| CompletionChoice::new(piece.index, piece.delta)).collect();
    Some(completion(head, choices, usage))
}

fn completion(head: &Head, choices: Vec<CompletionChoice>, usage: Option<Option<Usage>>) -> Completion {
    let Head { id, created, model } = head.clone();
    Completion { id, object: "text_completion", created, model, choices, usage }
}
