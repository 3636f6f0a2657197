//! `/v1/steps`: every step of a canvas as it happens.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use axum::response::sse::Event;
use lacuna::{Canvas, Token, Trace};
use lacuna_models::{Detail, Ended, Kind, Plan, Record, Specials, Text};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::ApiError;
use super::body::{Ask, Payload};
use super::exchange::{Exchange, Usage, named, respond, take_on};
use super::prepare::kind_of;
use crate::scheduler::Progress;
use crate::service::Service;
use crate::transcript::Finish;

/// The first event.
#[derive(Serialize, ToSchema)]
pub(crate) struct StartEvent {
    id: String,
    model: String,
    strategy: String,
    /// The layers whose attention is watched.
    layers: Vec<usize>,
    /// `answer`, or `fill` for a text with gaps.
    #[schema(value_type = String, pattern = "^(answer|fill)$")]
    kind: Kind,
    /// The text that is shown starts at this position.
    prompt_tokens: usize,
    mask_token: Token,
    #[schema(required)]
    block_length: Option<usize>,
    canvas: Vec<Place>,
}

/// A position of the canvas before the first step.
#[derive(Serialize, ToSchema)]
pub(crate) struct Place {
    token: Token,
    /// How the token is written; nothing for a mask.
    text: String,
    gap: bool,
}

/// One event for each step.
#[derive(Serialize, ToSchema)]
pub(crate) struct StepEvent {
    /// From 0.
    step: usize,
    block: usize,
    /// Forward passes so far.
    nfe: usize,
    /// Since the run was begun.
    seconds: f64,
    #[schema(value_type = Vec<Object>)]
    committed: Vec<Detail>,
    remasked: Vec<usize>,
    /// The position and dependency score of everything that was masked before the step, the mean over the watched layers.
    dependency: Vec<(usize, f32)>,
    /// How many positions from the start are decided for good.
    settled: usize,
}

/// The last event: the record that `lacuna replay` reads, and what OpenAI's answers say.
#[derive(Serialize)]
struct DoneEvent {
    #[serde(flatten)]
    record: Record,
    model: String,
    usage: Usage,
    finish_reason: Finish,
}

/// Watch a text being decoded
#[utoipa::path(
    post, path = "/v1/steps", tag = "lacuna",
    request_body(content = super::body::CompletionBody, description =
        "A completion's or a chat's body for one text; watch: false leaves the dependency scores out"),
    responses((status = 200, content_type = "text/event-stream", body = String, description =
        "Events: start (StartEvent), step (StepEvent, one for each step), done (what `lacuna generate --format json` \
         prints, with details), or error (ErrorBody)"))
)]
pub(crate) async fn steps(
    State(service): State<Arc<Service>>,
    Payload(mut body): Payload,
) -> Result<Response, ApiError> {
    let watch = match body.remove("watch") {
        None | Some(Value::Null) => true,
        Some(Value::Bool(watch)) => watch,
        Some(_) => return Err(ApiError::bad("watch is true or false").at("watch")),
    };
    let ask = if body.contains_key("messages") { Ask::chat(body)? } else { Ask::completion(body)? };
    if ask.echo || ask.logprobs {
        return Err(ApiError::bad("echo and logprobs are for completions: every step tells probabilities anyway"));
    }
    if ask.n > 1 || ask.given.count() > 1 {
        return Err(ApiError::bad("the steps of one text can be watched, not of several").at("n"));
    }
    let (ask, exchange, plan) = take_on(service.clone(), ask, watch, "steps").await?;
    let mut watcher = Watcher::new(service, &exchange, plan, kind_of(&ask.goal), watch);
    let mut start = Some(watcher.start(&exchange)?);
    let events = exchange.events(move |exchange, step, events| {
        events.extend(start.take());
        let event = match step {
            Some(Ok((progress, piece))) => watcher.step(progress, piece.news.finish),
            Some(Err(error)) => Err(error),
            None => watcher.done(exchange),
        };
        events.push_back(event.unwrap_or_else(|error| named("error", &error.body())));
    });
    Ok(respond(events))
}

/// Keeps what the last event will say.
struct Watcher {
    service: Arc<Service>,
    plan: Plan,
    kind: Kind,
    from: usize,
    watch: bool,
    trace: Trace,
    canvas: Canvas,
    steps: Vec<StepEvent>,
    rows_read: usize,
    finish: Finish,
}

impl Watcher {
    fn new(service: Arc<Service>, exchange: &Exchange, plan: Plan, kind: Kind, watch: bool) -> Self {
        let transcript = &exchange.transcripts[0];
        let canvas = transcript.canvas().clone();
        Self {
            service,
            plan,
            kind,
            from: transcript.from(),
            watch,
            trace: Trace { start: canvas.clone(), deltas: Vec::new() },
            canvas,
            steps: Vec::new(),
            rows_read: 0,
            finish: Finish::Length,
        }
    }

    fn start(&self, exchange: &Exchange) -> Result<Event, ApiError> {
        let text = self.service.text()?;
        let place = |(position, &token): (usize, &Token)| {
            let gap = self.canvas.is_gap(position);
            Ok(Place { token, text: if gap { String::new() } else { written(token, text)? }, gap })
        };
        let canvas = self.canvas.tokens().iter().enumerate().map(place).collect::<Result<_, ApiError>>()?;
        let watched = self.plan.options.watch.iter().map(|source| source.layer);
        let layers = self.plan.layers().into_iter().chain(watched).collect();
        let event = StartEvent {
            id: exchange.head.id.clone(),
            model: exchange.head.model.clone(),
            strategy: self.plan.strategy.name.clone(),
            layers,
            kind: self.kind,
            prompt_tokens: self.from,
            mask_token: self.canvas.mask(),
            block_length: self.plan.params.integer("block_length"),
            canvas,
        };
        Ok(named("start", &event))
    }

    fn step(&mut self, progress: Progress, finish: Option<Finish>) -> Result<Event, ApiError> {
        let text = self.service.text()?;
        let Progress { delta, seen, settled, nfe, rows_read, seconds, .. } = progress;
        let sources = seen.unwrap_or_default().dependency;
        let mean = |position: usize| sources.iter().map(|scores| scores[position]).sum::<f32>() / sources.len() as f32;
        let masked = self.canvas.masked().filter(|_| !sources.is_empty());
        let committed = delta.committed.iter().map(|commit| Ok(Detail::of(commit, written(commit.token, text)?)));
        let event = StepEvent {
            step: self.steps.len(),
            block: delta.block,
            nfe,
            seconds,
            committed: committed.collect::<Result<_, ApiError>>()?,
            remasked: delta.reopened.clone(),
            dependency: masked.map(|position| (position, mean(position))).collect(),
            settled,
        };
        delta.apply(&mut self.canvas);
        self.trace.deltas.push(delta);
        self.rows_read = rows_read;
        self.finish = finish.unwrap_or(self.finish);
        let sent = named("step", &event);
        self.steps.push(event);
        Ok(sent)
    }

    fn done(&mut self, exchange: &Exchange) -> Result<Event, ApiError> {
        let last = self.steps.last();
        let ended = Ended {
            trace: &self.trace,
            canvas: &self.canvas,
            plan: &self.plan,
            from: self.from,
            kind: self.kind,
            nfe: last.map_or(0, |step| step.nfe),
            rows_read: self.rows_read,
            seconds: last.map_or(0.0, |step| step.seconds),
        };
        let mut record = Record::of(&ended, &self.service.checkpoint)?;
        record.id = Some(exchange.head.id.clone().into());
        for (record, step) in record.steps.iter_mut().zip(self.steps.drain(..)) {
            record.details = Some(step.committed);
            record.dependency = Some(step.dependency).filter(|_| self.watch);
        }
        let model = exchange.head.model.clone();
        let event = DoneEvent { record, model, usage: exchange.usage(), finish_reason: self.finish };
        Ok(named("done", &event))
    }
}

/// How one token is written.
fn written(token: Token, text: &Text) -> Result<String, ApiError> {
    Ok(text.decode(&[token], Specials::Keep)?)
}
