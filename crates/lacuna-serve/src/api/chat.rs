//! `/v1/chat/completions`: a chat answered.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::ApiError;
use super::body::{Payload, TextRequest};
use super::exchange::{Head, Piece, Usage, accept};
use super::tools::ToolCall;
use crate::service::Service;
use crate::transcript::{Alternative, Finish, Scored, TextDelta};
use crate::watch::Watch;

/// An answer.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChatCompletion {
    id: String,
    #[schema(pattern = "^chat\\.completion$")]
    object: &'static str,
    created: u64,
    model: String,
    choices: Vec<ChatChoice>,
    usage: Usage,
}

/// One of the answers.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChatChoice {
    index: usize,
    message: Answer,
    #[schema(required)]
    logprobs: Option<ChatLogprobs>,
    #[schema(required)]
    finish_reason: Option<Finish>,
}

/// The model's message.
#[derive(Serialize, ToSchema)]
pub(crate) struct Answer {
    #[schema(pattern = "^assistant$")]
    role: &'static str,
    /// Null if a function is called.
    #[schema(required)]
    content: Option<String>,
    /// The function that is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<[ToolCall; 1]>,
    /// Always null: this server writes no refusals.
    #[schema(value_type = Option<String>, required)]
    refusal: Option<()>,
}

/// Log probabilities of the tokens in the steps that decided them.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChatLogprobs {
    content: Vec<ChatLogprob>,
}

/// One token.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChatLogprob {
    token: String,
    logprob: f64,
    /// The token's bytes: a character may be spread over several tokens.
    bytes: Vec<u8>,
    /// The most probable tokens in that step, as many as top_logprobs asked for, the most probable first.
    top_logprobs: Vec<TopLogprob>,
}

/// One of the most probable tokens.
#[derive(Serialize, ToSchema)]
pub(crate) struct TopLogprob {
    token: String,
    logprob: f64,
    bytes: Vec<u8>,
}

/// A part of a streamed answer.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChatChunk {
    id: String,
    #[schema(pattern = "^chat\\.completion\\.chunk$")]
    object: &'static str,
    created: u64,
    model: String,
    choices: Vec<ChatDelta>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Usage>)]
    usage: Option<Option<Usage>>,
}

/// An addition to one of the answers.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChatDelta {
    index: usize,
    delta: Delta,
    #[schema(required)]
    logprobs: Option<ChatLogprobs>,
    #[schema(required)]
    finish_reason: Option<Finish>,
}

/// The new words.
#[derive(Serialize, ToSchema)]
pub(crate) struct Delta {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// The function that is called, whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<[ToolCall; 1]>,
}

impl ChatLogprobs {
    fn of(scored: Vec<Scored>) -> Option<Self> {
        let top = |Alternative { text: token, bytes, logprob }| TopLogprob { token, logprob, bytes };
        let token = |scored: Scored| ChatLogprob {
            token: scored.text,
            logprob: scored.logprob,
            bytes: scored.bytes,
            top_logprobs: scored.alternatives.into_iter().map(top).collect(),
        };
        (!scored.is_empty()).then(|| Self { content: scored.into_iter().map(token).collect() })
    }
}

/// Answer a chat
#[utoipa::path(
    post, path = "/v1/chat/completions", tag = "OpenAI",
    request_body = super::body::ChatBody,
    responses((status = 200, description = "The answers; with stream, as they become final", content(
        (ChatCompletion = "application/json"), (String = "text/event-stream"),
    )))
)]
pub(crate) async fn chat(State(service): State<Arc<Service>>, Payload(body): Payload) -> Result<Response, ApiError> {
    let (query, exchange, _) = accept(service, TextRequest::chat(body)?, Watch::default(), "chatcmpl").await?;
    let offers = query.offer.is_some();
    if query.stream {
        let mut held: Vec<TextDelta> = Vec::new();
        return Ok(exchange.stream(move |head, piece, usage| match piece {
            Some(piece) if offers => Some(chunk(head, Some(hold(&mut held, piece)?), true, usage)),
            piece => Some(chunk(head, piece, false, usage)),
        }));
    }
    let (Head { id, created, model }, texts, usage) = exchange.finish(&query).await?;
    let choice = |(index, delta): (usize, TextDelta)| {
        let call = ToolCall::parse(&delta.text, &format!("{id}-{index}"), None).filter(|_| offers);
        ChatChoice {
            index,
            finish_reason: if call.is_some() { Some(Finish::ToolCalls) } else { delta.finish },
            message: Answer {
                role: "assistant",
                content: call.is_none().then_some(delta.text),
                tool_calls: call.map(|call| [call]),
                refusal: None,
            },
            logprobs: ChatLogprobs::of(delta.tokens),
        }
    };
    let choices = texts.into_iter().enumerate().map(choice).collect();
    Ok(Json(ChatCompletion { id, object: "chat.completion", created, model, choices, usage }).into_response())
}

/// Holds the pieces of a call back until it is whole.
fn hold(held: &mut Vec<TextDelta>, mut piece: Piece) -> Option<Piece> {
    if held.len() <= piece.index {
        held.resize_with(piece.index + 1, TextDelta::default);
    }
    let before = &mut held[piece.index];
    before.text.push_str(&piece.delta.text);
    if !before.text.starts_with('{') {
        return Some(piece);
    }
    before.tokens.append(&mut piece.delta.tokens);
    piece.delta.finish?;
    let TextDelta { text, tokens, .. } = std::mem::take(before);
    Some(Piece { first: true, delta: TextDelta { text, tokens, finish: piece.delta.finish }, ..piece })
}

/// A part of a streamed answer, which may be a call if functions are offered.
fn chunk(head: &Head, piece: Option<Piece>, offers: bool, usage: Option<Option<Usage>>) -> ChatChunk {
    let Head { id, created, model } = head.clone();
    let delta = |Piece { index, first, delta }: Piece| {
        let call = ToolCall::parse(&delta.text, &format!("{id}-{index}"), Some(0)).filter(|_| offers);
        ChatDelta {
            index,
            finish_reason: if call.is_some() { Some(Finish::ToolCalls) } else { delta.finish },
            delta: Delta {
                role: first.then_some("assistant"),
                content: call.is_none().then_some(delta.text),
                tool_calls: call.map(|call| [call]),
            },
            logprobs: ChatLogprobs::of(delta.tokens),
        }
    };
    let choices = piece.map(delta).into_iter().collect();
    ChatChunk { id, object: "chat.completion.chunk", created, model, choices, usage }
}
