//! `/tokenize` and `/detokenize`: between text and tokens, without the model.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::State;
use lacuna::Token;
use lacuna_models::Specials;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::ApiError;
use super::body::{Message, Payload, Prompt, PromptInput, typed};
use super::prepare::{check_model, check_size, prompts};
use crate::service::Service;

/// The body of `/tokenize`: a prompt, or messages.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenizeBody {
    /// The model's name, as /v1/models tells it.
    model: Option<String>,
    /// A text, as it is.
    prompt: Option<String>,
    /// A chat, which the model's template makes a text of.
    messages: Option<Vec<Message>>,
    /// Tell how each token is written, too.
    return_token_strs: Option<bool>,
}

/// The tokens.
#[derive(Serialize, ToSchema)]
pub(crate) struct Tokenized {
    count: usize,
    /// The model's context in tokens.
    max_model_len: usize,
    tokens: Vec<Token>,
    /// The text of each token, if that was asked for.
    #[schema(required)]
    token_strs: Option<Vec<String>>,
}

/// The body of `/detokenize`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DetokenizeBody {
    /// The model's name, as /v1/models tells it.
    model: Option<String>,
    /// Token ids.
    tokens: Vec<Token>,
}

/// The text.
#[derive(Serialize, ToSchema)]
pub(crate) struct Detokenized {
    prompt: String,
}

/// Tell the tokens of a text or a chat
#[utoipa::path(
    post, path = "/tokenize", tag = "lacuna", request_body = TokenizeBody,
    responses((status = 200, description = "The tokens", body = Tokenized))
)]
pub(crate) async fn tokenize(
    State(service): State<Arc<Service>>,
    Payload(mut body): Payload,
) -> Result<Json<Tokenized>, ApiError> {
    super::neutral::take(&mut body)?;
    let body: TokenizeBody = typed(Value::Object(body))?;
    check_model(&service, body.model.as_deref())?;
    let given = match (body.prompt, body.messages) {
        (Some(prompt), None) => PromptInput::Prompt(Prompt::Text(prompt)),
        (None, Some(messages)) => PromptInput::Chat(messages.into_iter().map(Message::pair).collect()),
        _ => return Err(ApiError::bad("give either a prompt or messages").at("prompt")),
    };
    let bytes = check_size(&service, &given, None)?;
    let shared = service.clone();
    let tokenized = service.prepare(Instant::now(), bytes, move || {
        let tokens = prompts(&shared, &given)?.remove(0);
        let written = |token: &Token| Ok(shared.text()?.decode(&[*token], Specials::Keep)?);
        let token_strs = match body.return_token_strs {
            Some(true) => Some(tokens.iter().map(written).collect::<Result<_, ApiError>>()?),
            _ => None,
        };
        Ok(Tokenized { count: tokens.len(), max_model_len: shared.description.context, tokens, token_strs })
    });
    Ok(Json(tokenized.await?))
}

/// Tell the text of tokens
#[utoipa::path(
    post, path = "/detokenize", tag = "lacuna", request_body = DetokenizeBody,
    responses((status = 200, description = "The text", body = Detokenized))
)]
pub(crate) async fn detokenize(
    State(service): State<Arc<Service>>,
    Payload(body): Payload,
) -> Result<Json<Detokenized>, ApiError> {
    let DetokenizeBody { model, tokens } = typed(Value::Object(body))?;
    check_model(&service, model.as_deref())?;
    let vocabulary = service.description.vocabulary;
    if let Some(token) = tokens.iter().find(|token| **token as usize >= vocabulary) {
        let why = format!("the token {token} does not exist: ids go from 0 to {}", vocabulary - 1);
        return Err(ApiError::bad(why).at("tokens"));
    }
    let shared = service.clone();
    let bytes = tokens.len();
    let text = service.prepare(Instant::now(), bytes, move || Ok(shared.text()?.decode(&tokens, Specials::Keep)?));
    Ok(Json(Detokenized { prompt: text.await? }))
}
