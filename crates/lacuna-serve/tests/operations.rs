//! What whoever runs a server relies on.

mod common;

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use common::{Odd, QUESTION, ask, chat, config, get, metric, post, send, serve_with, server};
use lacuna_serve::{ApiKey, Config, Limits};
use serde_json::json;

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn only_who_has_a_key_is_served() {
    let keys = ["first-key", "second-key"].map(|key| ApiKey::new(key).unwrap());
    let router = server(Config { api_keys: keys.into(), ..config(Limits::default()) }).router();
    let with = |header: Option<&str>| {
        let request = Request::get("/v1/models");
        let request = match header {
            Some(value) => request.header("authorization", value),
            None => request,
        };
        request.body(Body::empty()).unwrap()
    };
    for good in ["Bearer first-key", "Bearer second-key"] {
        assert_eq!(send(&router, with(Some(good))).await.status, StatusCode::OK);
    }
    for bad in [
        None,
        Some("Bearer "),
        Some("Bearer first-ke"),
        Some("Bearer first-keyy"),
        Some("first-key"),
        Some("Basic Zm9v"),
    ] {
        let answer = send(&router, with(bad)).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{bad:?}");
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
        assert!(!answer.complaint().contains("first-key"));
    }
    let asked = ask(&router, CHAT, chat(QUESTION, &json!({}))).await;
    assert_eq!(asked.status, StatusCode::UNAUTHORIZED);
    for open in ["/", "/health", "/ready", "/metrics", "/openapi.json"] {
        assert_eq!(get(&router, open).await.status, StatusCode::OK, "{open}");
    }
    assert!(get(&router, "/openapi.json").await.json()["components"]["securitySchemes"]["key"].is_object());
    assert!(!format!("{:?}", ApiKey::new("secret")).contains("secret"));
}

#[tokio::test]
async fn limits_hold() {
    let limits = Limits { gen_length: 40, runs: 2, body_bytes: 300, ..Limits::default() };
    let router = server(config(limits)).router();
    for (body, status) in [
        (json!({"prompt": "x", "max_tokens": 40, "strategy": "random+top40"}), StatusCode::OK),
        (json!({"prompt": "x", "max_tokens": 41}), StatusCode::BAD_REQUEST),
        (json!({"text": "<gap:41>"}), StatusCode::BAD_REQUEST),
        (json!({"prompt": ["x", "y"], "max_tokens": 8, "n": 2}), StatusCode::BAD_REQUEST),
        (json!({"prompt": "x".repeat(300), "max_tokens": 8}), StatusCode::PAYLOAD_TOO_LARGE),
    ] {
        let answer = ask(&router, "/v1/completions", body.clone()).await;
        assert_eq!(answer.status, status, "{body}: {}", answer.text());
    }
}

#[tokio::test]
async fn other_pages_may_not_call_unless_they_are_named() {
    let preflight = || {
        Request::options(CHAT)
            .header("origin", "https://example.org")
            .header("access-control-request-method", "POST")
            .body(Body::empty())
            .unwrap()
    };
    let closed = server(config(Limits::default())).router();
    assert!(!send(&closed, preflight()).await.headers.contains_key("access-control-allow-origin"));
    let cors_origins = vec!["https://example.org".to_string()];
    let open = server(Config { cors_origins, ..config(Limits::default()) }).router();
    assert_eq!(send(&open, preflight()).await.headers["access-control-allow-origin"], "https://example.org");
    let checkpoint = lacuna_models::Checkpoint::embedded().unwrap();
    let wrong = Config { cors_origins: vec!["example.org".into()], ..config(Limits::default()) };
    let error = lacuna_serve::Server::new(checkpoint, common::embedded(), wrong).err().unwrap();
    assert!(error.to_string().contains("no origin"), "{error}");
}

#[tokio::test]
async fn the_page_is_whole_and_asks_nobody_else() {
    let router = common::router();
    let page = get(&router, "/").await;
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
    assert!(page.headers["content-security-policy"].to_str().unwrap().starts_with("default-src 'self'"));
    let html = page.text();
    for reference in html.split(['"', '\'']).filter(|part| part.ends_with(".js") || part.ends_with(".css")) {
        let path = format!("/{}", reference.trim_start_matches(['.', '/']));
        let file = get(&router, &path).await;
        assert_eq!(file.status, StatusCode::OK, "{path}");
        assert!(file.headers["content-type"].to_str().unwrap().starts_with("text/"));
    }
    let tag = page.headers["etag"].clone();
    let again = Request::get("/").header("if-none-match", tag).body(Body::empty()).unwrap();
    let again = send(&router, again).await;
    assert_eq!((again.status, again.body.len()), (StatusCode::NOT_MODIFIED, 0));
}

#[tokio::test]
async fn requests_and_steps_are_counted() {
    let router = common::router();
    let body = ask(&router, CHAT, chat(QUESTION, &json!({"gen_length": 32}))).await.json();
    ask(&router, CHAT, json!({})).await;
    assert_eq!(metric(&router, "lacuna_requests_total{route=\"/v1/chat/completions\",status=\"200\"}").await, 1.0);
    assert_eq!(metric(&router, "lacuna_requests_total{route=\"/v1/chat/completions\",status=\"400\"}").await, 1.0);
    assert_eq!(metric(&router, "lacuna_nfe_total").await, body["usage"]["lacuna"]["nfe"].as_f64().unwrap());
    assert_eq!(
        metric(&router, "lacuna_completion_tokens_total").await,
        body["usage"]["completion_tokens"].as_f64().unwrap()
    );
    for histogram in ["batch_runs", "step_seconds", "queue_seconds", "first_token_seconds", "request_seconds"] {
        assert!(metric(&router, &format!("lacuna_{histogram}_count")).await > 0.0, "{histogram}");
    }
    assert!(metric(&router, "process_resident_memory_bytes").await > 1e6);
    let page = get(&router, "/metrics").await;
    assert!(page.headers["content-type"].to_str().unwrap().starts_with("text/plain; version=0.0.4"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_to_end_finishes_its_work_and_takes_no_more() {
    let config = Config { address: ([127, 0, 0, 1], 0).into(), ..config(Limits::default()) };
    let server = serve_with(Odd::slow(20), config);
    let router = server.router();
    let listener = server.listen().await.unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(server.serve(listener, async {
        let _ = stopped.await;
    }));
    let body = chat(QUESTION, &json!({"gen_length": 32, "strategy": "dos", "early_stop": false}));
    let work = tokio::spawn({
        let (router, body) = (router.clone(), body.clone());
        async move { ask(&router, CHAT, body).await }
    });
    common::until(&router, "lacuna_active_runs", |runs| runs == 1.0).await;
    assert_eq!(get(&router, "/ready").await.status, StatusCode::OK);
    stop.send(()).unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let refused = send(&router, post(CHAT, &body)).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.complaint().contains("shutting down"));
    assert_eq!(get(&router, "/ready").await.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(get(&router, "/health").await.status, StatusCode::OK);
    assert!(!serving.is_finished());
    assert_eq!(work.await.unwrap().status, StatusCode::OK);
    tokio::time::timeout(Duration::from_secs(5), serving).await.unwrap().unwrap().unwrap();
}
