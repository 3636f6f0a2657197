//! `/v1/steps`: every step of a canvas as it happens.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use axum::response::sse::Event;
use lacuna::{Canvas, Delta, Pass, Resize, Token, Trace, Tried};
use lacuna_models::{Detail, Kind, Moment, Plan, Record, RunSummary, Text};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::ApiError;
use super::body::{Goal, Payload, TextRequest, typed};
use super::exchange::{Exchange, Usage, accept, named, respond};
use super::prepare::kind_of;
use super::spell::{UNFINISHED, spell, spell_all};
use crate::scheduler::Progress;
use crate::service::Service;
use crate::transcript::Finish;
use crate::watch::{Slot, Watch};

/// Extras of every step: the attention, or each by its name.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(untagged, expecting = "watch is true, false, or an object with the booleans attention, beliefs and scores")]
pub(crate) enum WatchField {
    /// Dependency scores, or nothing.
    All(bool),
    /// Each by its name.
    Named(WatchNamed),
}

/// Extras of every step.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WatchNamed {
    /// The dependency score of every open slot; true if not given.
    attention: Option<bool>,
    /// The model's belief at every open slot: it reads every row, which a strategy may not need.
    #[serde(default)]
    beliefs: bool,
    /// The score by which the order ranked every candidate.
    #[serde(default)]
    scores: bool,
}

impl From<WatchField> for Watch {
    fn from(field: WatchField) -> Self {
        match field {
            WatchField::All(attention) => Self { attention, ..Self::default() },
            WatchField::Named(WatchNamed { attention, beliefs, scores }) => {
                Self { attention: attention.unwrap_or(true), beliefs, scores }
            }
        }
    }
}

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
    canvas: Vec<Cell>,
}

/// A position of the canvas before the first step.
#[derive(Serialize, ToSchema)]
pub(crate) struct Cell {
    token: Token,
    /// The text it adds; nothing for a mask, and for a token that holds only a part of a character: the token that completes
    /// it has the whole.
    text: String,
    /// True if it may be written: a mask, or a token of a draft.
    gap: bool,
}

/// One event for each step.
#[derive(Serialize, ToSchema)]
pub(crate) struct StepEvent {
    /// From 0.
    step: usize,
    block: usize,
    /// Purpose of the forward pass, if it is not to decide positions: `prefill` or `store`.
    #[serde(skip_serializing_if = "Pass::denoises")]
    #[schema(value_type = Option<String>)]
    kind: Pass,
    /// Forward passes so far.
    nfe: usize,
    /// Since the run was begun.
    seconds: f64,
    /// Seconds of computing that were this run's own: of each step its share of the positions.
    computed: f64,
    #[schema(value_type = Vec<Object>)]
    committed: Vec<Detail>,
    remasked: Vec<usize>,
    /// Change of the canvas's length after that.
    #[schema(required)]
    resized: Option<Resized>,
    /// Lengths that were tried for a gap of unknown length, each with its score: the mean of ln p of the most probable tokens.
    #[schema(value_type = Vec<Object>)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tried: Vec<Tried>,
    /// The position and dependency score of everything that was masked before the step, the mean over the watched layers.
    dependency: Vec<(usize, f32)>,
    /// The belief at every slot that was open before the step, if that is watched: position, most probable token, its
    /// probability, the second token's probability, entropy in nats.
    beliefs: Vec<(usize, Token, f64, f64, f64)>,
    /// Every candidate and the score by which the order ranked it, the highest first, if that is watched; scores that are not
    /// finite are left out.
    scores: Vec<(usize, f64)>,
    /// Spelling of the tokens of `beliefs`, each the first time it is named.
    texts: BTreeMap<Token, String>,
    /// Number of leading positions that are final.
    settled: usize,
}

/// A change of the canvas's length.
#[derive(Serialize, ToSchema)]
pub(crate) struct Resized {
    /// Position before which tokens are inserted.
    at: usize,
    /// The inserted tokens.
    tokens: Vec<Token>,
    /// Length of the canvas after that; what lies behind it is cut off.
    length: usize,
}

impl From<Resize> for Resized {
    fn from(Resize { at, tokens, length }: Resize) -> Self {
        Self { at, tokens, length }
    }
}

/// The last event: the record that `lacuna replay` reads, with what each step changed and no more, and what OpenAI's answers
/// say.
#[derive(Serialize)]
struct DoneEvent {
    #[serde(flatten)]
    record: Record,
    model: String,
    usage: Usage,
    finish_reason: Finish,
    /// Notable steps, with a caption each.
    moments: Vec<Moment>,
}

/// Watch a text being decoded
#[utoipa::path(
    post, path = "/v1/steps", tag = "lacuna",
    request_body(content = super::body::CompletionBody, description =
        "A completion's or a chat's body for one text. watch says what comes with every step. canvas, the tokens behind a \
         prompt that is given as tokens, with the mask token for open slots, goes on from a text that is decided in part"),
    responses((status = 200, content_type = "text/event-stream", body = String, description =
        "Events: start (StartEvent), step (StepEvent, one for each step), done (what `lacuna generate --format json` \
         prints, and moments: steps that are worth looking at, each with a sentence), or error (ErrorBody)"))
)]
pub(crate) async fn steps(
    State(service): State<Arc<Service>>,
    Payload(mut body): Payload,
) -> Result<Response, ApiError> {
    let watch =
        take::<WatchField>(&mut body, "watch")?.map_or(Watch { attention: true, ..Watch::default() }, Watch::from);
    let canvas = take::<Vec<Token>>(&mut body, "canvas")?;
    let mut query =
        if body.contains_key("messages") { TextRequest::chat(body)? } else { TextRequest::completion(body)? };
    if let Some(canvas) = canvas {
        if !matches!(query.goal, Goal::Answer) {
            return Err(ApiError::bad("canvas goes on from a prompt, not with a text or suffix").at("canvas"));
        }
        query.goal = Goal::Canvas(canvas);
    }
    if query.echo || query.logprobs {
        return Err(ApiError::bad("echo and logprobs are for completions: every step has probabilities anyway"));
    }
    if query.n > 1 || query.given.count() > 1 {
        return Err(ApiError::bad("only one text can be watched: give one prompt and leave out n").at("n"));
    }
    let (query, exchange, plan) = accept(service.clone(), query, watch, "steps").await?;
    let mut watcher = Follower::new(service, &exchange, plan, kind_of(&query.goal));
    let mut start = Some(watcher.start(&exchange)?);
    let events = exchange.events(move |exchange, step, events| {
        events.extend(start.take());
        let event = match step {
            Some(Ok((progress, piece))) => watcher.step(progress, piece.delta.finish),
            Some(Err(error)) => Err(error),
            None => watcher.done(exchange),
        };
        events.push_back(event.unwrap_or_else(|error| named("error", &error.body())));
    });
    Ok(respond(events))
}

/// Takes a field of this endpoint's own out of a body.
fn take<T: serde::de::DeserializeOwned>(
    body: &mut Map<String, Value>,
    name: &'static str,
) -> Result<Option<T>, ApiError> {
    match body.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => typed(value).map(Some).map_err(|error| error.at(name)),
    }
}

/// Follows a run and keeps what the last event will say.
struct Follower {
    service: Arc<Service>,
    plan: Plan,
    kind: Kind,
    from: usize,
    /// The position that the text never goes beyond.
    to: usize,
    trace: Trace,
    canvas: Canvas,
    /// Tokens whose text was sent.
    spelled: HashSet<Token>,
    nfe: usize,
    seconds: f64,
    rows_read: usize,
    rows_computed: usize,
    finish: Finish,
}

impl Follower {
    fn new(service: Arc<Service>, exchange: &Exchange, plan: Plan, kind: Kind) -> Self {
        let transcript = &exchange.transcripts[0];
        let canvas = transcript.canvas().clone();
        Self {
            service,
            plan,
            kind,
            from: transcript.from(),
            to: transcript.longest(),
            trace: Trace { start: canvas.clone(), deltas: Vec::new() },
            canvas,
            spelled: HashSet::new(),
            nfe: 0,
            seconds: 0.0,
            rows_read: 0,
            rows_computed: 0,
            finish: Finish::Length,
        }
    }

    fn start(&self, exchange: &Exchange) -> Result<Event, ApiError> {
        let tokens = self.canvas.tokens();
        let texts = spell_all(tokens, |position| self.canvas.is_masked(position), self.service.text()?)?;
        let cell = |((position, &token), text)| Cell { token, text, gap: self.canvas.is_gap(position) };
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
            canvas: tokens.iter().enumerate().zip(texts).map(cell).collect(),
        };
        Ok(named("start", &event))
    }

    fn step(&mut self, progress: Progress, finish: Option<Finish>) -> Result<Event, ApiError> {
        let Progress { delta, seen, slots, scores, settled, nfe, seconds, computed, .. } = progress;
        let sources = seen.unwrap_or_default().dependency;
        let mean = |position: usize| sources.iter().map(|scores| scores[position]).sum::<f32>() / sources.len() as f32;
        let masked = self.canvas.masked().filter(|_| !sources.is_empty());
        let dependency = masked.map(|position| (position, mean(position))).collect();
        delta.apply(&mut self.canvas);
        let service = self.service.clone();
        let text = service.text()?;
        let event = StepEvent {
            step: self.trace.deltas.len(),
            block: delta.block,
            kind: delta.kind,
            nfe,
            seconds,
            computed,
            committed: self.committed(&delta, text)?,
            remasked: delta.reopened.clone(),
            resized: delta.resized.clone().map(Resized::from),
            tried: delta.tried.clone(),
            dependency,
            texts: self.texts(&slots, text)?,
            beliefs: slots.iter().map(belief).collect(),
            scores: scores.into_iter().map(|(position, score)| (position, rounded(score))).collect(),
            settled,
        };
        self.trace.deltas.push(delta);
        (self.nfe, self.seconds) = (nfe, seconds);
        (self.rows_read, self.rows_computed) = (progress.rows_read, progress.rows_computed);
        self.finish = finish.unwrap_or(self.finish);
        Ok(named("step", &event))
    }

    /// The step's decisions with their texts. A token that completes a character gets the whole of it.
    fn committed(&self, delta: &Delta, text: &Text) -> Result<Vec<Detail>, ApiError> {
        let committed = delta.committed.iter().chain(&delta.edited).map(|commit| {
            let mut written = spell(&[commit.token], text)?;
            if written.contains(UNFINISHED) {
                written = self.completed(commit.position, text)?;
            }
            let mut detail = Detail::of(commit, written);
            for top in &mut detail.top_logprobs {
                top.text = spell(&[top.token], text)?;
            }
            Ok(detail)
        });
        committed.collect()
    }

    /// The text of the tokens around a position that are parts of characters, if together they are whole.
    fn completed(&self, position: usize, text: &Text) -> Result<String, ApiError> {
        let tokens = self.canvas.tokens();
        let part = |&at: &usize| {
            let token = tokens[at];
            token != self.canvas.mask() && spell(&[token], text).is_ok_and(|alone| alone.contains(UNFINISHED))
        };
        let first = (0..=position).rev().take_while(part).last().unwrap_or(position);
        let last = (position..tokens.len()).take_while(part).last().unwrap_or(position);
        Ok(Some(spell(&tokens[first..=last], text)?).filter(|whole| !whole.contains(UNFINISHED)).unwrap_or_default())
    }

    /// The texts of tokens that were not named before.
    fn texts(&mut self, slots: &[Slot], text: &Text) -> Result<BTreeMap<Token, String>, ApiError> {
        let new = slots.iter().map(|slot| slot.token).filter(|token| self.spelled.insert(*token));
        new.map(|token| Ok((token, spell(&[token], text)?))).collect()
    }

    fn done(&mut self, exchange: &Exchange) -> Result<Event, ApiError> {
        let summary = RunSummary {
            trace: &self.trace,
            canvas: &self.canvas,
            plan: &self.plan,
            from: self.from,
            to: self.to.min(self.canvas.len()),
            kind: self.kind,
            nfe: self.nfe,
            rows_read: self.rows_read,
            rows_computed: self.rows_computed,
            seconds: self.seconds,
        };
        let moments = summary.moments(self.service.text()?);
        let mut record = Record::of(&summary, &self.service.checkpoint)?;
        record.id = Some(exchange.head.id.clone().into());
        // They were sent with the steps.
        record.steps.iter_mut().for_each(|step| step.details = None);
        let model = exchange.head.model.clone();
        let event = DoneEvent { record, model, usage: exchange.usage(), finish_reason: self.finish, moments };
        Ok(named("done", &event))
    }
}

/// A belief as it is sent: five digits are enough to rank and to draw by.
fn belief(slot: &Slot) -> (usize, Token, f64, f64, f64) {
    (slot.position, slot.token, rounded(slot.first), rounded(slot.second), rounded(slot.entropy))
}

/// Five significant digits.
pub(crate) fn rounded(number: f64) -> f64 {
    if number == 0.0 || !number.is_finite() {
        return 0.0;
    }
    let scale = 10f64.powi(4 - number.abs().log10().floor() as i32);
    if scale.is_finite() { (number * scale).round() / scale } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_five_digits() {
        for (number, kept) in [(0.123_456_78, 0.123_46), (1.0, 1.0), (3.2e-9, 3.2e-9), (0.0, 0.0), (1e-320, 0.0)] {
            assert!((rounded(number) - kept).abs() <= 1e-12 * kept.abs(), "{number}");
        }
        assert_eq!(rounded(f64::NAN), 0.0);
    }
}
