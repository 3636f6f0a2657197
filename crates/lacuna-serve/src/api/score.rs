//! `/v1/score`: how likely given texts are.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use lacuna::{Passage, Score, Scoring};
use lacuna_models::{ScoreRecord, ScoreRequest};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;
use utoipa::ToSchema;

use super::ApiError;
use super::body::{Goal, Message, Payload, Prompt, PromptInput, typed};
use super::prepare::{check_model, check_size, prompts};
use crate::service::{Service, Work};

/// The body of `/v1/score`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScoreBody {
    /// The model's name, as /v1/models tells it.
    model: Option<String>,
    /// The text to score, or several.
    text: Texts,
    /// The text before it, as it is; cut from the text as lm-evaluation-harness does.
    prompt: Option<String>,
    /// The chat that it answers.
    messages: Option<Vec<Message>>,
    /// estimate, LLaDA's Monte Carlo estimate, or the order in which tokens are scored one by one.
    #[schema(pattern = "^(estimate|left|right|random)$")]
    order: Option<String>,
    /// The order as steps, each a list of places in the text, from 0. What is in no step is given.
    steps: Option<Vec<Vec<usize>>>,
    /// Samples of the estimate: 1 to 32, or a multiple of 32; 128 if not given.
    #[schema(minimum = 1, maximum = 4096)]
    samples: Option<usize>,
    /// Seed of the estimate's masks, or of the random order; 1234 if not given.
    seed: Option<u64>,
    /// Scale of classifier-free guidance; 0 if not given.
    #[schema(minimum = 0, maximum = 1000)]
    guidance: Option<f64>,
}

/// One text or several.
#[derive(Deserialize, ToSchema)]
#[serde(untagged, expecting = "it must be a text or a list of texts")]
pub(crate) enum Texts {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

/// The scores.
#[derive(Serialize, ToSchema)]
pub(crate) struct Scores {
    #[schema(pattern = "^list$")]
    object: &'static str,
    model: String,
    /// One for each text.
    #[schema(value_type = Vec<Object>)]
    data: Vec<ScoreRecord>,
    usage: ScoreUsage,
}

/// Tokens read.
#[derive(Serialize, ToSchema)]
pub(crate) struct ScoreUsage {
    prompt_tokens: usize,
    total_tokens: usize,
}

/// Tell how likely given texts are
#[utoipa::path(
    post, path = "/v1/score", tag = "lacuna", request_body = ScoreBody,
    responses((status = 200, description = "The scores", body = Scores))
)]
pub(crate) async fn score(
    State(service): State<Arc<Service>>,
    Payload(body): Payload,
) -> Result<Json<Scores>, ApiError> {
    let work = service.admit()?;
    let ScoreBody { model, text, prompt, messages, order, steps, samples, seed, guidance } =
        typed(Value::Object(body))?;
    let request = ScoreRequest { order, steps, samples, seed, guidance };
    check_model(&service, model.as_deref())?;
    let texts = match text {
        Texts::One(text) => vec![text],
        Texts::Several(texts) => texts,
    };
    let most = service.config.limits.runs;
    if texts.is_empty() || texts.len() > most {
        let why = format!("{} texts are to be scored, but a request has 1 to {most}", texts.len());
        return Err(ApiError::bad(why).at("text"));
    }
    let given = match (prompt, messages) {
        (Some(_), Some(_)) => return Err(ApiError::bad("give either a prompt or messages").at("prompt")),
        (Some(prompt), None) => PromptInput::Prompt(Prompt::Text(prompt)),
        (None, Some(messages)) if messages.is_empty() => {
            return Err(ApiError::bad("a chat has at least one message").at("messages"));
        }
        (None, Some(messages)) => PromptInput::Chat(messages.into_iter().map(Message::pair).collect()),
        (None, None) => PromptInput::Nothing,
    };
    let mut bytes = 0;
    for text in &texts {
        bytes += check_size(&service, &given, Some(&Goal::Gaps(text.clone())))?;
    }
    let shared = service.clone();
    let prepared = service.prepare(work.begun, bytes, move || {
        let passages = passages(&shared, &given, &texts)?;
        let likely = |passage: &Passage| Ok((passage.clone(), request.likelihood(passage)?));
        let pairs = passages.iter().map(likely).collect::<Result<Vec<_>, lacuna::Error>>()?;
        let scoring = Scoring::new(pairs, request.scale()?, &shared.description)?;
        Ok((passages, scoring))
    });
    let (passages, scoring) = prepared.await?;
    let tokens = passages.iter().map(|passage| passage.tokens.len()).sum();
    let scores = compute(&service, &work, scoring).await?;
    work.charge(tokens);
    let record = |(score, passage): (&Score, &Passage)| ScoreRecord::of(score, passage, &service.checkpoint);
    let data = scores.iter().zip(&passages).map(record).collect::<Result<Vec<_>, _>>()?;
    service.metrics.prompt_tokens.add(tokens);
    let usage = ScoreUsage { prompt_tokens: tokens, total_tokens: tokens };
    Ok(Json(Scores { object: "list", model: service.config.model_name.clone(), data, usage }))
}

/// The texts behind what is given.
fn passages(service: &Service, given: &PromptInput, texts: &[String]) -> Result<Vec<Passage>, ApiError> {
    let passage = |text: &String| match given {
        PromptInput::Prompt(Prompt::Text(prompt)) => Ok(service.checkpoint.passage(prompt, None, true, text)?),
        PromptInput::Nothing => Ok(service.checkpoint.passage("", None, true, text)?),
        chat => {
            let prompt = prompts(service, chat)?.remove(0);
            let text = if text.is_empty() { Vec::new() } else { service.text()?.encode(text)? };
            Ok(Passage { prompt: prompt.len(), tokens: [prompt, text].concat() })
        }
    };
    texts.iter().map(passage).collect()
}

/// Has the canvases looked at, a batch of them between two steps of whatever is decoded.
async fn compute(service: &Arc<Service>, work: &Work, mut scoring: Scoring) -> Result<Vec<Score>, ApiError> {
    let limits = &service.config.limits;
    let (batch, positions) = (limits.batch, limits.positions);
    while !scoring.is_finished() {
        let (sender, answer) = oneshot::channel();
        service.scheduler.ask(Box::new(move |model| {
            if !sender.is_closed() {
                let taken = scoring.step(batch, positions, model);
                // Whoever asked may have gone meanwhile.
                let _ = sender.send(taken.map(|()| scoring));
            }
        }))?;
        let answer = tokio::time::timeout_at((work.begun + limits.timeout).into(), answer).await;
        let answer = answer.map_err(|_| ApiError::timed_out(limits.timeout.as_secs()))?;
        scoring = answer.map_err(|_| ApiError::internal("the texts could not be scored: see the server's log"))??;
    }
    Ok(scoring.scores())
}
