//! From runs to their texts: what both shapes of OpenAI's API have in common.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use futures_util::stream::unfold;
use lacuna_models::Plan;
use serde::Serialize;
use utoipa::ToSchema;

use super::ApiError;
use super::body::TextRequest;
use super::prepare::{Prepared, check_size, prepare};
use crate::scheduler::{Progress, Ticket, Update};
use crate::service::{Service, Work, now};
use crate::transcript::{TextDelta, Transcript};
use crate::watch::Watch;

/// Silent connections are closed by what lies between; a comment now and then keeps them.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A request that is being answered.
pub(crate) struct Exchange {
    pub(crate) head: Head,
    pub(crate) transcripts: Vec<Transcript>,
    service: Arc<Service>,
    work: Work,
    ticket: Ticket,
    strategy: String,
    usage: Usage,
    /// Tokens decided so far, those of texts that have not ended included.
    decided: usize,
    /// The number of texts that have not ended.
    open: usize,
    /// The start of each text.
    echoes: Vec<Option<String>>,
    /// Texts that have sent nothing yet.
    silent: Vec<bool>,
    include_usage: bool,
}

/// The part that all pieces of an answer share.
#[derive(Clone)]
pub(crate) struct Head {
    pub(crate) id: String,
    pub(crate) created: u64,
    pub(crate) model: String,
}

/// Something new in one of the texts.
pub(crate) struct Piece {
    pub(crate) index: usize,
    /// True for the first piece of this text that the client sees.
    pub(crate) first: bool,
    pub(crate) delta: TextDelta,
}

/// Tokens read and written, and the computation they took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub(crate) struct Usage {
    /// Tokens that were given: prompts, suffixes, texts around gaps.
    pub(crate) prompt_tokens: usize,
    /// Tokens of the texts returned, without those that end them.
    pub(crate) completion_tokens: usize,
    /// Both.
    pub(crate) total_tokens: usize,
    pub(crate) lacuna: Computed,
}

/// The computation that an answer took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub(crate) struct Computed {
    /// Forward passes (function evaluations), each counted for the run that took part in it.
    pub(crate) nfe: usize,
    /// Rows of the model's output that were read.
    pub(crate) rows_read: usize,
    /// Positions that forward passes computed.
    pub(crate) rows_computed: usize,
    /// Decoding steps.
    pub(crate) steps: usize,
    /// Seconds from the first step's beginning to the last one's end.
    pub(crate) seconds: f64,
}

impl Exchange {
    /// Queues the runs.
    fn begin(
        service: Arc<Service>,
        work: Work,
        prepared: Prepared,
        kind: &str,
        include_usage: bool,
    ) -> Result<Self, ApiError> {
        let Prepared { plan, runs, transcripts, echoes, prompt_tokens } = prepared;
        let ticket = service.scheduler.submit(runs, &work.context.id)?;
        Ok(Self {
            head: Head { id: service.name(kind), created: now(), model: service.config.model_name.clone() },
            open: transcripts.len(),
            transcripts,
            work,
            ticket,
            strategy: plan.strategy.name,
            decided: 0,
            usage: Usage { prompt_tokens, ..Usage::default() },
            silent: vec![true; echoes.len()],
            echoes,
            include_usage,
            service,
        })
    }

    /// The next step of any run, with what it adds to its text; none when all texts have ended.
    pub(crate) async fn step(&mut self) -> Option<Result<(Progress, Piece), ApiError>> {
        while self.open > 0 {
            let limit = self.service.config.limits.timeout;
            let deadline = self.work.begun + limit;
            let update = tokio::time::timeout_at(deadline.into(), self.ticket.updates.recv());
            let Update { index, outcome } = match update.await {
                Ok(Some(update)) => update,
                Ok(None) => return Some(Err(ApiError::internal("decoding has ended early: see the server's log"))),
                Err(_) => return Some(Err(ApiError::timed_out(limit.as_secs()))),
            };
            // A text that a stop string ended may still have been stepped.
            if self.transcripts[index].is_finished() {
                continue;
            }
            return Some(match outcome {
                Ok(progress) => self.follow(index, &progress).map(|piece| (progress, piece)),
                Err(failure) => Err(failure.into()),
            });
        }
        None
    }

    fn follow(&mut self, index: usize, progress: &Progress) -> Result<Piece, ApiError> {
        let text = self.service.checkpoint.text()?;
        let mut delta = self.transcripts[index].follow(progress, text)?;
        let told = !delta.text.is_empty() || delta.finish.is_some();
        let first = told && std::mem::replace(&mut self.silent[index], false);
        if first {
            self.service.metrics.first_token_seconds.add(self.work.begun.elapsed().as_secs_f64());
            delta.text.insert_str(0, self.echoes[index].as_deref().unwrap_or_default());
        }
        self.decided += progress.delta.committed.len();
        let computed = &mut self.usage.lacuna;
        computed.steps += 1;
        computed.seconds = computed.seconds.max(progress.seconds);
        if let Some(finish) = delta.finish {
            self.open -= 1;
            self.ticket.cancel(index);
            computed.nfe += progress.nfe;
            computed.rows_read += progress.rows_read;
            computed.rows_computed += progress.rows_computed;
            let written = self.transcripts[index].completion_tokens();
            self.usage.completion_tokens += written;
            self.service.metrics.ended(&self.strategy, finish, written, progress.nfe);
        }
        if self.open == 0 {
            self.usage.total_tokens = self.usage.prompt_tokens + self.usage.completion_tokens;
            self.close();
        }
        Ok(Piece { index, first, delta })
    }

    /// Counts and logs what is done.
    fn close(&self) {
        let Self { service, usage, work, .. } = self;
        let seconds = work.begun.elapsed().as_secs_f64();
        service.metrics.prompt_tokens.add(usage.prompt_tokens);
        service.metrics.completion_tokens.add(usage.completion_tokens);
        service.metrics.tokens_per_second.add(usage.completion_tokens as f64 / seconds.max(f64::MIN_POSITIVE));
        tracing::info!(
            request_id = &*work.context.id,
            trace_id = work.context.trace_id(),
            key = work.context.key_name(),
            id = self.head.id,
            strategy = self.strategy,
            texts = self.transcripts.len(),
            prompt_tokens = usage.prompt_tokens,
            completion_tokens = usage.completion_tokens,
            nfe = usage.lacuna.nfe,
            rows_read = usage.lacuna.rows_read,
            seconds,
            "answered"
        );
    }

    /// The usage, complete once all texts have ended.
    pub(crate) fn usage(&self) -> Usage {
        self.usage.clone()
    }

    /// All texts that were asked for, whole.
    pub(crate) async fn finish(mut self, query: &TextRequest) -> Result<(Head, Vec<TextDelta>, Usage), ApiError> {
        let mut texts: Vec<TextDelta> = self.transcripts.iter().map(|_| TextDelta::default()).collect();
        while let Some(step) = self.step().await {
            let (_, Piece { index, delta, .. }) = step?;
            let whole = &mut texts[index];
            whole.text.push_str(&delta.text);
            whole.tokens.extend(delta.tokens);
            whole.finish = delta.finish;
        }
        if query.best_of > query.n {
            let mut ranked: Vec<(f64, TextDelta)> =
                self.transcripts.iter().map(Transcript::mean_logprob).zip(texts).collect();
            for samples in ranked.chunks_mut(query.best_of) {
                samples.sort_by(|(a, _), (b, _)| b.total_cmp(a));
            }
            let chosen = ranked.into_iter().enumerate().filter(|(place, _)| place % query.best_of < query.n);
            texts = chosen.map(|(_, (_, delta))| delta).collect();
        }
        if !query.logprobs {
            texts.iter_mut().for_each(|delta| delta.tokens.clear());
        }
        Ok((self.head.clone(), texts, self.usage()))
    }

    /// The texts as they grow, as OpenAI streams them. `chunk` writes a piece, if it is to be sent now, or with none the usage, which
    /// is left out, null, or there.
    pub(crate) fn stream<C: Serialize + 'static>(
        self,
        mut chunk: impl FnMut(&Head, Option<Piece>, Option<Option<Usage>>) -> Option<C> + Send + 'static,
    ) -> Response {
        let include_usage = self.include_usage;
        let events = self.events(move |exchange, step, events| match step {
            Some(Ok((_, piece))) if piece.delta.text.is_empty() && piece.delta.finish.is_none() => {}
            Some(Ok((_, piece))) => {
                events.extend(
                    chunk(&exchange.head, Some(piece), include_usage.then_some(None)).map(|chunk| data(&chunk)),
                );
            }
            Some(Err(error)) => events.push_back(data(&error.body())),
            None => {
                if include_usage {
                    events.extend(chunk(&exchange.head, None, Some(Some(exchange.usage()))).map(|chunk| data(&chunk)));
                }
                events.push_back(Event::default().data("[DONE]"));
            }
        });
        respond(events)
    }

    /// One event stream: `speak` turns each step, an error, or the end into events. After an error nothing follows.
    pub(crate) fn events(
        self,
        speak: impl FnMut(&mut Exchange, Option<Result<(Progress, Piece), ApiError>>, &mut VecDeque<Event>) + Send,
    ) -> impl Stream<Item = Result<Event, Infallible>> + Send {
        let state = (Some(self), speak, VecDeque::new());
        unfold(state, |(mut exchange, mut speak, mut events)| async move {
            loop {
                if let Some(event) = events.pop_front() {
                    return Some((Ok(event), (exchange, speak, events)));
                }
                let mut going = exchange.take()?;
                let step = going.step().await;
                let last = !matches!(step, Some(Ok(_)));
                speak(&mut going, step, &mut events);
                exchange = Some(going).filter(|_| !last);
            }
        })
    }
}

impl Drop for Exchange {
    /// Counts what was read and written against the limits of the key; of texts that have not ended, what was decided.
    fn drop(&mut self) {
        let written = if self.open == 0 { self.usage.completion_tokens } else { self.decided };
        self.work.charge(self.usage.prompt_tokens + written);
    }
}

/// An event without a name, as OpenAI's are, that carries JSON.
fn data(value: &impl Serialize) -> Event {
    Event::default().data(serde_json::to_string(value).expect("our own values are JSON"))
}

/// An event with a name that carries JSON.
pub(crate) fn named(name: &str, value: &impl Serialize) -> Event {
    Event::default().event(name).data(serde_json::to_string(value).expect("our own values are JSON"))
}

/// Sends events as they come.
pub(crate) fn respond(events: impl Stream<Item = Result<Event, Infallible>> + Send + 'static) -> Response {
    let alive = KeepAlive::new().interval(KEEP_ALIVE);
    // Proxies that buffer would hold the text back.
    ([("x-accel-buffering", "no")], Sse::new(events).keep_alive(alive)).into_response()
}

/// Takes a request on: prepares its runs away from the threads that serve connections, and queues them.
pub(crate) async fn accept(
    service: Arc<Service>,
    query: TextRequest,
    watch: Watch,
    kind: &str,
) -> Result<(TextRequest, Exchange, Plan), ApiError> {
    let work = service.admit()?;
    let bytes = check_size(&service, &query.given, Some(&query.goal))?;
    let shared = service.clone();
    let prepared = service.prepare(work.begun, bytes, move || {
        let prepared = prepare(&shared, &query, watch)?;
        Ok((query, prepared))
    });
    let (query, prepared) = prepared.await?;
    let plan = prepared.plan.clone();
    let exchange = Exchange::begin(service, work, prepared, kind, query.include_usage)?;
    Ok((query, exchange, plan))
}
