//! `/v1/models`: what is served.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use serde::Serialize;
use utoipa::ToSchema;

use super::ApiError;
use crate::service::Service;

/// Every model there is: one.
#[derive(Serialize, ToSchema)]
pub(crate) struct ModelList {
    #[schema(pattern = "^list$")]
    object: &'static str,
    data: Vec<ModelObject>,
}

/// A model.
#[derive(Serialize, ToSchema)]
pub(crate) struct ModelObject {
    id: String,
    #[schema(pattern = "^model$")]
    object: &'static str,
    created: u64,
    owned_by: &'static str,
    /// The model's context in tokens: what is given and what is written together.
    max_model_len: usize,
}

/// List the models
#[utoipa::path(get, path = "/v1/models", tag = "OpenAI", responses((status = 200, description = "What is served", body = ModelList)))]
pub(crate) async fn models(State(service): State<Arc<Service>>) -> Json<ModelList> {
    Json(ModelList { object: "list", data: vec![object(&service)] })
}

/// Describe a model
#[utoipa::path(
    get, path = "/v1/models/{id}", tag = "OpenAI",
    params(("id" = String, Path, description = "The model's name", min_length = 1)),
    responses((status = 200, description = "The model", body = ModelObject))
)]
pub(crate) async fn model(
    State(service): State<Arc<Service>>,
    Path(id): Path<String>,
) -> Result<Json<ModelObject>, ApiError> {
    match id == service.config.model_name {
        true => Ok(Json(object(&service))),
        false => Err(ApiError::no_model(&id, &service.config.model_name)),
    }
}

fn object(service: &Service) -> ModelObject {
    ModelObject {
        id: service.config.model_name.clone(),
        object: "model",
        created: service.created,
        owned_by: "lacuna",
        max_model_len: service.description.context,
    }
}
