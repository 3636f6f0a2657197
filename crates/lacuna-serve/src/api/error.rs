//! Errors in OpenAI's shape.

use axum::Json;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::keys::Exceeded;
use crate::scheduler::{Failure, Refusal};

/// The reason for not answering a request.
#[derive(Debug)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    kind: &'static str,
    code: Option<&'static str>,
    param: Option<String>,
    message: String,
    /// After how many seconds the same may be possible.
    retry_after: Option<u64>,
}

/// An error, as it is sent.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ErrorBody {
    pub(crate) error: ErrorObject,
}

/// The error itself.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ErrorObject {
    /// One sentence: the mistake, its place, and the remedy.
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
        Self { status, kind, code, param: None, message: message.into(), retry_after: None }
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

    pub(crate) fn foreign_host() -> Self {
        let message = "the Host header does not name this machine: a server without API keys that listens on a loopback \
                       address answers only to localhost, to loopback addresses and to names that its operator allows";
        Self::invalid(StatusCode::FORBIDDEN, Some("foreign_host"), message)
    }

    /// More than the model's context can hold, however it is tokenized.
    pub(crate) fn too_long(what: &str, length: usize, unit: &str, context: usize) -> Self {
        let message = format!("{what} has {length} {unit}, more than the model's context of {context} tokens can hold");
        Self::invalid(StatusCode::BAD_REQUEST, Some("context_length_exceeded"), message)
    }

    fn rate_limited(code: &'static str, message: impl Into<String>, retry_after: u64) -> Self {
        let error = Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", Some(code), message);
        Self { retry_after: Some(retry_after), ..error }
    }

    pub(crate) fn no_model(asked: &str, served: &str) -> Self {
        let message = format!("the model '{asked}' does not exist: this server has '{served}'");
        Self::invalid(StatusCode::NOT_FOUND, Some("model_not_found"), message).at("model")
    }

    pub(crate) fn no_route(path: &str) -> Self {
        let message = format!("there is no route {path}: /openapi.json lists the routes");
        Self::invalid(StatusCode::NOT_FOUND, Some("unknown_url"), message)
    }

    pub(crate) fn wrong_method(method: &str, path: &str) -> Self {
        let message = format!("{path} does not take {method}: /openapi.json lists the methods");
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
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, "server_error", Some("shutting_down"), message);
        Self { retry_after: Some(1), ..error }
    }

    pub(crate) fn unhealthy() -> Self {
        let message = "the model fails at every step: see the server's log";
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, "server_error", Some("model_failing"), message);
        Self { retry_after: Some(1), ..error }
    }

    pub(crate) fn timed_out(seconds: u64) -> Self {
        let message = format!("the answer took longer than this server allows, {seconds} s: ask for fewer tokens");
        Self::new(StatusCode::GATEWAY_TIMEOUT, "server_error", Some("timeout"), message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", Some("internal_error"), message)
    }

    /// The body to send.
    pub(crate) fn body(self) -> ErrorBody {
        let Self { kind, code, param, message, .. } = self;
        ErrorBody { error: ErrorObject { message, kind, param, code } }
    }
}

impl From<lacuna::Error> for ApiError {
    /// Refusals of the core are the request's fault.
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
            Refusal::Full { retry_after } => {
                let message = format!("the queue is full: ask again in {retry_after} s");
                Self::rate_limited("queue_full", message, retry_after)
            }
            Refusal::Stopped => Self::internal("decoding has stopped: see the server's log"),
        }
    }
}

impl From<Exceeded> for ApiError {
    fn from(Exceeded { message, retry_after }: Exceeded) -> Self {
        Self::rate_limited("rate_limit_exceeded", message, retry_after)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, retry_after) = (self.status, self.retry_after);
        let mut response = (status, Json(self.body())).into_response();
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
