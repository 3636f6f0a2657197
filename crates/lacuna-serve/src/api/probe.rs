//! `/v1/probe`: what the model makes of one open slot of a canvas.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use lacuna::catalogue::Params;
use lacuna::{AttentionSource, Draw, Row, Sampling, Target, Token, TokenSet, View, most_probable};
use lacuna_models::{Model, PlanContext};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;
use utoipa::ToSchema;

use super::ApiError;
use super::body::{Payload, typed};
use super::spell::{spell, spell_all};
use super::steps::rounded;
use crate::service::Service;

const DEFAULT_CANDIDATES: usize = 5;
const MAX_CANDIDATES: usize = 20;
/// Attention weights that are sent, the largest first.
const MAX_WEIGHTS: usize = 24;

/// The body of `/v1/probe`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProbeBody {
    /// The canvas, with the mask token for open slots.
    tokens: Vec<Token>,
    /// The open slot.
    position: usize,
    /// Number of candidates; 5 if not given.
    #[schema(minimum = 0, maximum = 20)]
    candidates: Option<usize>,
    /// Return the positions that the slot attends to.
    #[serde(default)]
    attention: bool,
    /// The layers whose attention is averaged; the model's own if not given.
    #[schema(value_type = Option<Vec<usize>>)]
    layer: Option<Value>,
    /// Tokens that may not be chosen.
    #[serde(default)]
    suppressed: Vec<Token>,
    /// A text to tell the tokens of.
    text: Option<String>,
}

/// The model's beliefs and attention at the slot.
#[derive(Serialize, ToSchema)]
pub(crate) struct ProbeAnswer {
    position: usize,
    /// In nats.
    entropy: f64,
    /// The most probable tokens, the first of them first.
    candidates: Vec<Candidate>,
    /// The positions that the slot attends to and the weights, the largest first; null if it was not asked for or the
    /// device does not give single weights.
    #[schema(required)]
    attention: Option<Vec<(usize, f32)>>,
    /// The tokens of the text that was given.
    tokens: Vec<Candidate>,
}

/// A token that the slot could become.
#[derive(Serialize, ToSchema)]
pub(crate) struct Candidate {
    token: Token,
    text: String,
    /// Null for the tokens of a text that was given.
    #[schema(required)]
    probability: Option<f64>,
}

/// Look at one open slot of a canvas
#[utoipa::path(
    post, path = "/v1/probe", tag = "lacuna",
    request_body(content = ProbeBody),
    responses((status = 200, description = "What the model makes of it", body = ProbeAnswer))
)]
pub(crate) async fn probe(
    State(service): State<Arc<Service>>,
    Payload(body): Payload,
) -> Result<Json<ProbeAnswer>, ApiError> {
    let work = service.admit()?;
    let probe: ProbeBody = typed(Value::Object(body))?;
    let text = service.text()?;
    let task = ProbeTask::new(&service, &probe)?;
    let given = probe.text.as_deref().map_or(Ok(Vec::new()), |given| text.encode(given))?;
    let (sender, answer) = oneshot::channel();
    service.scheduler.ask(Box::new(move |model| {
        if !sender.is_closed() {
            // The client may have gone meanwhile.
            let _ = sender.send(task.answer(model));
        }
    }))?;
    let limit = service.config.limits.timeout;
    let answer = tokio::time::timeout_at((work.begun + limit).into(), answer).await;
    let answer = answer.map_err(|_| ApiError::timed_out(limit.as_secs()))?;
    let ProbeResult { entropy, candidates, attention } =
        answer.map_err(|_| ApiError::internal("the position could not be computed: see the server's log"))??;
    let candidate = |(token, probability): (Token, f64)| {
        Ok(Candidate { token, text: spell(&[token], text)?, probability: Some(rounded(probability)) })
    };
    let spelled = spell_all(&given, |_| false, text)?;
    Ok(Json(ProbeAnswer {
        position: probe.position,
        entropy: rounded(entropy),
        candidates: candidates.into_iter().map(candidate).collect::<Result<_, ApiError>>()?,
        attention,
        tokens: given
            .into_iter()
            .zip(spelled)
            .map(|(token, text)| Candidate { token, text, probability: None })
            .collect(),
    }))
}

/// A question to the model, checked.
struct ProbeTask {
    tokens: Vec<Token>,
    position: usize,
    candidates: usize,
    allowed: TokenSet,
    /// Empty if attention is not wanted.
    sources: Vec<AttentionSource>,
}

/// The model's answer.
struct ProbeResult {
    entropy: f64,
    candidates: Vec<(Token, f64)>,
    attention: Option<Vec<(usize, f32)>>,
}

impl ProbeTask {
    fn new(service: &Service, probe: &ProbeBody) -> Result<Self, ApiError> {
        let model = &service.description;
        if probe.tokens.len() > model.context {
            return Err(lacuna::Error::TooLong { length: probe.tokens.len(), context: model.context }.into());
        }
        match probe.tokens.get(probe.position) {
            None => return Err(ApiError::bad("the position is not on the canvas").at("position")),
            Some(&token) if token != model.mask => {
                let why = format!("the position is not masked: the mask token is {}", model.mask);
                return Err(ApiError::bad(why).at("position"));
            }
            Some(_) => {}
        }
        if let Some(token) = probe.suppressed.iter().find(|token| **token as usize >= model.vocabulary) {
            return Err(ApiError::bad(format!("there is no token {token}")).at("suppressed"));
        }
        let candidates = probe.candidates.unwrap_or(DEFAULT_CANDIDATES);
        if candidates > MAX_CANDIDATES {
            return Err(ApiError::bad(format!("at most {MAX_CANDIDATES} candidates are returned")).at("candidates"));
        }
        let mut params = Params::new();
        if let Some(layer) = &probe.layer {
            let shown = layer.to_string();
            let value = serde_json::from_value(layer.clone());
            params.set("layer", &value.map_err(|_| lacuna::Error::parameter("layer", shown, "must name layers"))?)?;
        }
        let sources = PlanContext::of(&service.checkpoint).attention_for(&params);
        if let Some(source) = sources.iter().find(|source| source.layer >= model.layers) {
            return Err(lacuna::Error::NoSuchLayer { layer: source.layer, layers: model.layers }.into());
        }
        let mut allowed = TokenSet::all_but(model.vocabulary, &probe.suppressed);
        allowed.remove(model.mask);
        Ok(Self {
            tokens: probe.tokens.clone(),
            position: probe.position,
            candidates,
            allowed,
            sources: if probe.attention { sources } else { Vec::new() },
        })
    }

    /// One forward pass.
    fn answer(self, model: &mut dyn Model) -> lacuna::Result<ProbeResult> {
        let Self { tokens, position, allowed, sources, .. } = self;
        let sampling = Sampling::default();
        model.observe(&[View { tokens: &tokens, ..View::default() }])?;
        let row = Row::new(0, Target::Position(position), &sampling, &allowed, Draw::new(0, 0, position));
        let entropy = model.read(&[row])?.remove(0).entropy;
        let candidates = most_probable(&[row], self.candidates, model)?.0.remove(0);
        let candidates = candidates.into_iter().map(|(token, logprob)| (token, logprob.exp())).collect();
        let attention = if sources.is_empty() { None } else { model.attention(&tokens, position, &sources)? };
        Ok(ProbeResult { entropy, candidates, attention: attention.map(largest) })
    }
}

/// The largest weights and their positions.
fn largest(weights: Vec<f32>) -> Vec<(usize, f32)> {
    let mut ranked: Vec<(usize, f32)> = weights.into_iter().enumerate().collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    ranked.truncate(MAX_WEIGHTS);
    ranked
}
