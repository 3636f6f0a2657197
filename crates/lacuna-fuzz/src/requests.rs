//! Bodies of requests to the server.

use std::sync::OnceLock;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use lacuna_models::{Checkpoint, Device, load};
use lacuna_serve::{Config, Limits, Server};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;

/// The routes that take a body. An input's first letter says which.
const ROUTES: [(u8, &str); 6] = [
    (b'c', "/v1/chat/completions"),
    (b't', "/v1/completions"),
    (b's', "/v1/steps"),
    (b'p', "/v1/probe"),
    (b'k', "/tokenize"),
    (b'd', "/detokenize"),
];

/// A server of the embedded model that writes few tokens.
fn server() -> &'static (Runtime, Router) {
    static SERVER: OnceLock<(Runtime, Router)> = OnceLock::new();
    SERVER.get_or_init(|| {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let limits = Limits { gen_length: 4, runs: 2, timeout: Duration::from_secs(20), ..Limits::default() };
        let config = Config { model_name: "mini".into(), limits, ..Config::default() };
        let checkpoint = Checkpoint::embedded().expect("the embedded model");
        let model = load(&checkpoint, None, &Device::Cpu).expect("the embedded model");
        let server = runtime.block_on(async { Server::new(checkpoint, vec![model], config) }).expect("a server");
        (runtime, server.router())
    })
}

/// A letter for the route, and a body.
pub(crate) fn request(input: &[u8]) -> bool {
    let Some((letter, body)) = input.split_first() else { return false };
    let Some((_, path)) = ROUTES.iter().find(|(known, _)| known == letter) else { return false };
    let (runtime, router) = server();
    let request = Request::post(*path).header("content-type", "application/json");
    let request = request.body(Body::from(body.to_vec())).expect("a request");
    runtime.block_on(async {
        let response = router.clone().oneshot(request).await.expect("the router always answers");
        let status = response.status();
        // The server catches panics of its own; here each is a bug.
        let body = response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        assert_ne!(status, 500, "{}", String::from_utf8_lossy(&body));
        status.is_success()
    })
}

pub(crate) fn bodies() -> Vec<Vec<u8>> {
    let messages = json!([{"role": "user", "content": "2 + 3?"}]);
    let schema = json!({"type": "integer", "minimum": 1, "maximum": 9});
    let bodies = [
        ("c", json!({"messages": messages, "max_tokens": 2, "strategy": "dos+eb", "gamma": 0.01, "seed": 3, "n": 2})),
        (
            "c",
            json!({"messages": messages, "gen_length": 4, "stream": true, "temperature": 0.5, "top_p": 0.9, "stop": ["x"]}),
        ),
        (
            "c",
            json!({"messages": messages, "max_tokens": 4, "response_format": {"type": "json_schema",
            "json_schema": {"name": "n", "schema": schema}}}),
        ),
        ("t", json!({"prompt": ["a", "b"], "max_tokens": 1, "echo": false, "logprobs": 0})),
        ("t", json!({"prompt": [1, 2, 3], "suffix": "b", "max_tokens": 2})),
        ("t", json!({"text": "a <gap:2> b", "strategy": "confidence+top2"})),
        ("s", json!({"messages": messages, "gen_length": 2, "watch": {"attention": true, "beliefs": true}})),
        ("p", json!({"tokens": [1, 2, 5, 5], "position": 2, "candidates": 3, "attention": true})),
        ("k", json!({"prompt": "ab"})),
        ("d", json!({"tokens": [1, 2, 3]})),
    ];
    bodies.map(|(letter, body)| format!("{letter}{body}").into_bytes()).into()
}
