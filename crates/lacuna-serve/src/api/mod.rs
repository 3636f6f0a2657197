//! The routes.

mod body;
mod chat;
mod completions;
mod error;
mod exchange;
mod fields;
mod host;
mod models;
mod neutral;
mod openapi;
mod operations;
mod prepare;
mod probe;
mod score;
mod spell;
mod steps;
mod strategies;
mod tokenize;
mod tools;

pub(crate) use error::ApiError;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::StreamExt;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::cors::CorsLayer;

use crate::context::{Context, Trace, client_id};
use crate::service::Service;
use crate::{Error, Result, page};

/// The part of a refused body that is still read, so that its client gets to the answer.
const DRAIN_BYTES: usize = 8 << 20;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
static TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

/// Everything that is served.
pub(crate) fn router(service: Arc<Service>) -> Result<Router> {
    let description = openapi::describe(&service);
    let v1 = Router::new()
        .route("/v1/completions", post(completions::completions))
        .route("/v1/chat/completions", post(chat::chat))
        .route("/v1/models", get(models::models))
        .route("/v1/models/{id}", get(models::model))
        .route("/v1/probe", post(probe::probe))
        .route("/v1/score", post(score::score))
        .route("/v1/steps", post(steps::steps))
        .route("/v1/strategies", get(strategies::strategies))
        .route("/tokenize", post(tokenize::tokenize))
        .route("/detokenize", post(tokenize::detokenize))
        .route_layer(from_fn_with_state(service.clone(), check_key));
    let router = Router::new()
        .route("/health", get(operations::health))
        .route("/ready", get(operations::ready))
        .route("/metrics", get(operations::metrics))
        .route("/version", get(operations::version))
        .route("/openapi.json", get(async move || Json(description)))
        .merge(page::routes())
        .merge(v1)
        .fallback(async |uri: Uri| ApiError::no_route(uri.path()))
        .method_not_allowed_fallback(async |method: Method, uri: Uri| {
            ApiError::wrong_method(method.as_str(), uri.path())
        })
        .layer(DefaultBodyLimit::max(service.body_bytes))
        .layer(from_fn_with_state(service.clone(), check_length))
        .layer(from_fn_with_state(service.clone(), host::check))
        .layer(CatchPanicLayer::custom(|_| ApiError::internal("internal error: see the server's log").into_response()))
        .layer(from_fn_with_state(service.clone(), record))
        // Event streams are left as they are, so that each event is sent when it comes.
        .layer(CompressionLayer::new());
    let router = match cors(&service.config.cors_origins)? {
        Some(cors) => router.layer(cors),
        None => router,
    };
    Ok(router.with_state(service))
}

/// Lets pages of these origins call the API.
fn cors(origins: &[String]) -> Result<Option<CorsLayer>> {
    if origins.is_empty() {
        return Ok(None);
    }
    let origin = |origin: &String| {
        let plausible = origin.contains("://") && !origin.ends_with('/');
        let value = HeaderValue::from_str(origin).ok().filter(|_| plausible);
        value.ok_or_else(|| Error::Origin(origin.clone()))
    };
    let layer = CorsLayer::new()
        .allow_origin(origins.iter().map(origin).collect::<Result<Vec<_>>>()?)
        .allow_methods([Method::GET, Method::POST])
        .allow_headers([AUTHORIZATION, CONTENT_TYPE, REQUEST_ID.clone(), TRACE_PARENT.clone()])
        .expose_headers([REQUEST_ID.clone(), TRACE_PARENT.clone(), RETRY_AFTER]);
    Ok(Some(layer))
}

/// Lets a request pass that has one of the keys.
async fn check_key(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    if service.keys.is_empty() {
        return next.run(request).await;
    }
    match bearer(request.headers()).and_then(|secret| service.keys.find(secret)) {
        Some(key) => {
            let _ = Context::current().key.set(key);
            next.run(request).await
        }
        None => ApiError::unauthorized().into_response(),
    }
}

/// The key in `Authorization: Bearer KEY`; the scheme is not case-sensitive.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, secret) = value.split_at_checked(b"Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| secret.trim_ascii_start())
}

/// Refuses a body that says it is too large, before any of it is read.
async fn check_length(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let length = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_none_or(|length| length <= service.body_bytes as u64) {
        return next.run(request).await;
    }
    // A connection that is closed while its client still sends would lose the answer, so a little more is read.
    let (most, mut rest) = (DRAIN_BYTES, request.into_body().into_data_stream());
    tokio::spawn(tokio::time::timeout(DRAIN_TIMEOUT, async move {
        let mut read = 0;
        while let Some(Ok(bytes)) = rest.next().await {
            read += bytes.len();
            if read > most {
                break;
            }
        }
    }));
    ApiError::too_large(service.body_bytes).into_response()
}

/// A request's id and trace: the client's, else our own.
fn context(service: &Service, headers: &HeaderMap) -> Arc<Context> {
    let header = |name: &HeaderName| headers.get(name).map(HeaderValue::as_bytes);
    let name = header(&REQUEST_ID).and_then(client_id).map_or_else(|| service.name("req"), str::to_string);
    let span = (service.created << 20).wrapping_add(service.number());
    Context::new(&name, header(&TRACE_PARENT).and_then(|header| Trace::parse(header, span)))
}

/// Gives a request its id, the client's own if it sent one, and counts and logs it.
async fn record(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let (method, path) = (request.method().clone(), request.uri().path().to_string());
    let route = request.extensions().get::<MatchedPath>().map_or("other", |route| route.as_str());
    let route = page::series(route).unwrap_or(route).to_string();
    let context = context(&service, request.headers());
    let mut response = context.scope(next.run(request)).await;
    let status = response.status().as_u16();
    service.metrics.answered(&route, status);
    tracing::info!(
        request_id = &*context.id,
        trace_id = context.trace_id(),
        span_id = context.trace.as_ref().map(|trace| trace.span.as_str()),
        parent_id = context.trace.as_ref().map(|trace| trace.parent.as_str()),
        key = context.key_name(),
        %method,
        path,
        status,
        seconds = begun.elapsed().as_secs_f64(),
        "request"
    );
    let trace = context.trace.as_ref().map(Trace::header);
    for (header, value) in [(&REQUEST_ID, Some(&*context.id)), (&TRACE_PARENT, trace.as_deref())] {
        if let Some(Ok(value)) = value.map(HeaderValue::from_str) {
            response.headers_mut().insert(header.clone(), value);
        }
    }
    response
}
