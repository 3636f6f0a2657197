//! The routes.

mod body;
mod chat;
mod completions;
mod error;
mod exchange;
mod fields;
mod models;
mod openapi;
mod operations;
mod prepare;
mod probe;
mod spell;
mod steps;
mod strategies;

pub(crate) use error::ApiError;

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, Method, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use subtle::{Choice, ConstantTimeEq};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::CorsLayer;

use crate::service::Service;
use crate::{Error, Result, page};

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Everything that is served.
pub(crate) fn router(service: Arc<Service>) -> Result<Router> {
    let description = openapi::describe(&service);
    let v1 = Router::new()
        .route("/v1/completions", post(completions::completions))
        .route("/v1/chat/completions", post(chat::chat))
        .route("/v1/models", get(models::models))
        .route("/v1/models/{id}", get(models::model))
        .route("/v1/probe", post(probe::probe))
        .route("/v1/steps", post(steps::steps))
        .route("/v1/strategies", get(strategies::strategies))
        .route_layer(from_fn_with_state(service.clone(), check_key));
    let router = Router::new()
        .route("/health", get(operations::health))
        .route("/ready", get(operations::ready))
        .route("/metrics", get(operations::metrics))
        .route("/openapi.json", get(async move || Json(description)))
        .merge(page::routes())
        .merge(v1)
        .fallback(async |uri: Uri| ApiError::no_route(uri.path()))
        .method_not_allowed_fallback(async |method: Method, uri: Uri| {
            ApiError::wrong_method(method.as_str(), uri.path())
        })
        .layer(DefaultBodyLimit::max(service.config.limits.body_bytes))
        .layer(CatchPanicLayer::custom(|_| ApiError::internal("something broke: see the server's log").into_response()))
        .layer(from_fn_with_state(service.clone(), record));
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
        .allow_headers([AUTHORIZATION, CONTENT_TYPE])
        .expose_headers([REQUEST_ID.clone(), RETRY_AFTER]);
    Ok(Some(layer))
}

/// Lets a request pass that has one of the keys. Every key is compared, each in constant time.
async fn check_key(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let keys = &service.config.api_keys;
    let given = request.headers().get(AUTHORIZATION).map_or(&b""[..], HeaderValue::as_bytes);
    let given = given.strip_prefix(b"Bearer ").unwrap_or_default();
    let known = keys.iter().fold(Choice::from(0), |known, key| known | key.as_bytes().ct_eq(given));
    if keys.is_empty() || bool::from(known) {
        next.run(request).await
    } else {
        ApiError::unauthorized().into_response()
    }
}

/// Counts and logs a request, and gives it a name.
async fn record(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let (method, path) = (request.method().clone(), request.uri().path().to_string());
    let route = request.extensions().get::<MatchedPath>().map_or("other".into(), |route| route.as_str().to_string());
    let mut response = next.run(request).await;
    let status = response.status().as_u16();
    service.metrics.answered(&route, status);
    let id = service.name("req");
    tracing::info!(id, %method, path, status, seconds = begun.elapsed().as_secs_f64(), "request");
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID.clone(), id);
    }
    response
}
