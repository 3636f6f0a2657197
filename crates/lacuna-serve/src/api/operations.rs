//! Health, metrics and version.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use serde::Serialize;
use utoipa::ToSchema;

use super::ApiError;
use crate::service::Service;

/// The server's state.
#[derive(Serialize, ToSchema)]
pub(crate) struct Health {
    #[schema(pattern = "^(ok|ready)$")]
    status: &'static str,
}

/// Tell whether the server works; if not, restart it
#[utoipa::path(get, path = "/health", tag = "operations", responses((status = 200, description = "It works", body = Health)))]
pub(crate) async fn health(State(service): State<Arc<Service>>) -> Result<Json<Health>, ApiError> {
    match service.scheduler.is_healthy() {
        true => Ok(Json(Health { status: "ok" })),
        false => Err(ApiError::unhealthy()),
    }
}

/// Tell whether the server takes new work; if not, send it elsewhere
#[utoipa::path(get, path = "/ready", tag = "operations", responses((status = 200, description = "It takes work", body = Health)))]
pub(crate) async fn ready(State(service): State<Arc<Service>>) -> Result<Json<Health>, ApiError> {
    match (service.is_draining(), service.scheduler.is_healthy()) {
        (true, _) => Err(ApiError::shutting_down()),
        (false, false) => Err(ApiError::unhealthy()),
        (false, true) => Ok(Json(Health { status: "ready" })),
    }
}

/// Tell what is counted and measured, for Prometheus
#[utoipa::path(
    get, path = "/metrics", tag = "operations",
    responses((status = 200, description = "Prometheus's text format", content_type = "text/plain", body = String))
)]
pub(crate) async fn metrics(State(service): State<Arc<Service>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], service.metrics.render())
}

/// Name and version of the program.
#[derive(Serialize, ToSchema)]
pub(crate) struct Version {
    version: &'static str,
}

/// Tell the program's version
#[utoipa::path(get, path = "/version", tag = "operations", responses((status = 200, description = "The version", body = Version)))]
pub(crate) async fn version() -> Json<Version> {
    Json(Version { version: env!("CARGO_PKG_VERSION") })
}
