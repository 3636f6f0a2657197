//! Errors in OpenAI's shape.

use axum::Json;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::scheduler::{Failure, Refusal};

/// Why a request is not answered.
#[derive(Debug)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    kind: &'static str,
    code: Option<&'static str>,
    param: Option<String>,
    message: String,
}

/// An error, as it is sent.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ErrorBody {
    pub(crate) error: ErrorObject,
}

/// What is wrong.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ErrorObject {
    /// What, where, and what to do.
    message: String,
    /// The kind of error.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The field that is wrong, if it is one.
    #[schema(required)]
    param: Option<String>,
    /// A word for programs.
    #[schema(required)]
    code: Option<&'static str>,
}

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, code: Option<&'static str>, message: impl Into<String>) -> Self {
        Self { status, kind, code, param: None, message: message.into() }
    }

    fn invalid(status: StatusCode, code: Option<&'static str>, message: impl Into<String>) -> Self {
        Self::new(status, "invalid_request_error", code, message)
    }

    /// The request asks for something that cannot be.
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::invalid(StatusCode::BAD_REQUEST, None, message)
    }

    /// Names the field that is wrong.
    pub(crate) fn at(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    pub(crate) fn unauthorized() -> Self {
        let message = "the API key is missing or wrong: send it as 'Authorization: Bearer KEY'";
        Self::invalid(StatusCode::UNAUTHORIZED, Some("invalid_api_key"), message)
    }

    pub(crate) fn no_model(asked: &str, served: &str) -> Self {
        let message = format!("the model '{asked}' does not exist: this server has '{served}'");
        Self::invalid(StatusCode::NOT_FOUND, Some("model_not_found"), message).at("model")
    }

    pub(crate) fn no_route(path: &str) -> Self {
        let message = format!("there is nothing at {path}: /openapi.json lists what there is");
        Self::invalid(StatusCode::NOT_FOUND, Some("unknown_url"), message)
    }

    pub(crate) fn wrong_method(method: &str, path: &str) -> Self {
        let message = format!("{path} does not take {method}: /openapi.json lists what it takes");
        Self::invalid(StatusCode::METHOD_NOT_ALLOWED, Some("method_not_allowed"), message)
    }

    pub(crate) fn wrong_type() -> Self {
        let message = "the body must be JSON: send it with 'Content-Type: application/json'";
        Self::invalid(StatusCode::UNSUPPORTED_MEDIA_TYPE, None, message)
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        let message = format!("the body is larger than this server takes, {limit} bytes");
        Self::invalid(StatusCode::PAYLOAD_TOO_LARGE, None, message)
    }

    pub(crate) fn slow_body() -> Self {
        Self::invalid(StatusCode::REQUEST_TIMEOUT, None, "the request's body did not arrive in time")
    }

    pub(crate) fn shutting_down() -> Self {
        let message = "the server is shutting down: ask again, or another one";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "server_error", Some("shutting_down"), message)
    }

    pub(crate) fn unsound() -> Self {
        let message = "the model fails at every step: see the server's log";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "server_error", Some("model_failing"), message)
    }

    pub(crate) fn timed_out(seconds: u64) -> Self {
        let message = format!("the answer took longer than this server allows, {seconds} s: ask for fewer tokens");
        Self::new(StatusCode::GATEWAY_TIMEOUT, "server_error", Some("timeout"), message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", Some("internal_error"), message)
    }

    /// What is sent.
    pub(crate) fn body(self) -> ErrorBody {
        let Self { kind, code, param, message, .. } = self;
        ErrorBody { error: ErrorObject { message, kind, param, code } }
    }
}

impl From<lacuna::Error> for ApiError {
    /// What the core refuses is the request's fault.
    fn from(error: lacuna::Error) -> Self {
        use lacuna::Error::{NotFinite, TooLong};
        let mut bad = Self::bad(error.to_string());
        if let Some(name) = error.about() {
            bad = bad.at(name);
        }
        match error {
            TooLong { .. } => Self { code: Some("context_length_exceeded"), ..bad },
            NotFinite { .. } => Self { code: Some("not_finite"), ..bad },
            lacuna::Error::Predictor(_) => Self::internal("the model failed: see the server's log"),
            _ => bad,
        }
    }
}

impl From<lacuna_models::Error> for ApiError {
    fn from(error: lacuna_models::Error) -> Self {
        Self::bad(error.to_string())
    }
}

impl From<Failure> for ApiError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Step(error) => error.into(),
            Failure::Panic => Self::internal("decoding failed: see the server's log"),
        }
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Full => {
                let message = "the queue is full: ask again a little later";
                Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", Some("queue_full"), message)
            }
            Refusal::Stopped => Self::internal("decoding has stopped: see the server's log"),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = self.status;
        let mut response = (status, Json(self.body())).into_response();
        let header = match status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => (RETRY_AFTER, "1"),
            StatusCode::UNAUTHORIZED => (WWW_AUTHENTICATE, "Bearer"),
            _ => return response,
        };
        response.headers_mut().insert(header.0, HeaderValue::from_static(header.1));
        response
    }
}
