//! Names that a server answers to.
//!
//! A web page can point a name of its own at 127.0.0.1 (DNS rebinding) and so reach a server that only this machine should. Its
//! requests carry that name, so a server on a loopback address that asks for no key answers only to names that it knows.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::HOST;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::ApiError;
use crate::service::Service;

/// Lets a request pass that calls the server by a name it goes by.
pub(crate) async fn check(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let guarded = service.config.address.ip().is_loopback() && service.keys.is_empty();
    let Some(host) = request.headers().get(HOST).filter(|_| guarded) else { return next.run(request).await };
    let host = host.to_str().unwrap_or_default();
    match is_ours(host, &service.config.allowed_hosts) {
        true => next.run(request).await,
        false => ApiError::foreign_host().into_response(),
    }
}

/// True if a `Host` header names this machine, or is one of those allowed.
fn is_ours(host: &str, allowed: &[String]) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_ascii_lowercase();
    let local = name == "localhost" || name.ends_with(".localhost");
    let loopback = name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    local || loopback || allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(&name))
}

#[cfg(test)]
mod tests {
    use super::is_ours;

    #[test]
    fn only_this_machine_and_what_is_allowed_are_ours() {
        let allowed = ["lacuna.example".to_string()];
        for ours in [
            "localhost",
            "LOCALHOST:8080",
            "a.localhost",
            "127.0.0.1:80",
            "127.9.9.9",
            "[::1]:8080",
            "[::1]",
            "lacuna.example:1",
        ] {
            assert!(is_ours(ours, &allowed), "{ours}");
        }
        for foreign in [
            "",
            "evil.example",
            "localhost.evil.example",
            "evil.example:8080",
            "192.168.0.1",
            "0.0.0.0",
            "127.0.0.1.evil.example",
        ] {
            assert!(!is_ours(foreign, &allowed), "{foreign}");
        }
    }
}
