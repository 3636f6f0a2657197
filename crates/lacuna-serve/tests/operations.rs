//! Operations: metrics, keys, limits, shutdown.

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
    for good in ["Bearer first-key", "Bearer second-key", "bearer first-key", "BEARER second-key"] {
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
    let tokens = ask(&router, "/tokenize", json!({"prompt": "x"})).await;
    assert_eq!(tokens.status, StatusCode::UNAUTHORIZED);
    for open in ["/", "/health", "/ready", "/metrics", "/version", "/openapi.json"] {
        assert_eq!(get(&router, open).await.status, StatusCode::OK, "{open}");
    }
    assert!(get(&router, "/openapi.json").await.json()["components"]["securitySchemes"]["key"].is_object());
    assert!(!format!("{:?}", ApiKey::new("secret")).contains("secret"));
}

#[tokio::test]
async fn limits_hold() {
    let limits = Limits { gen_length: 40, runs: 2, body_bytes: Some(300), ..Limits::default() };
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
    // A body that says it is too large is refused before any of it has come.
    let endless = Body::from_stream(futures_util::stream::pending::<Result<&[u8], std::io::Error>>());
    let announced = Request::post("/v1/completions").header("content-type", "application/json");
    let announced = announced.header("content-length", "10000000000").body(endless).unwrap();
    assert_eq!(send(&router, announced).await.status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn prompts_beyond_the_context_are_refused_by_their_bytes() {
    let router = common::router();
    let long = "lorem ipsum ".repeat(8000);
    for (path, body) in [
        ("/v1/completions", json!({"prompt": long})),
        ("/v1/completions", json!({"prompt": ["x", long]})),
        ("/v1/completions", json!({"prompt": "x", "suffix": long})),
        ("/v1/completions", json!({"text": long.clone() + "<gap:2>"})),
        ("/v1/completions", json!({"prompt": vec![20; 2000]})),
        (CHAT, chat(&long, &json!({}))),
        (CHAT, json!({"messages": vec![json!({"role": "user", "content": ""}); 2000]})),
        ("/v1/steps", json!({"prompt": long})),
        ("/tokenize", json!({"prompt": long})),
    ] {
        let answer = ask(&router, path, body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}");
        assert_eq!(answer.json()["error"]["code"], "context_length_exceeded", "{}", answer.text());
        assert!(answer.complaint().contains("more than the model's context of 1024 tokens can hold"));
    }
}

#[tokio::test]
async fn a_key_has_a_name_and_limits_of_its_own() {
    let lines = ["a name=alice requests_per_minute=2", "b name=bob tokens_per_minute=10", "c name=carol concurrent=1"];
    let api_keys = lines.map(|line| ApiKey::parse(line).unwrap());
    let router = serve_with(Odd::slow(10), Config { api_keys: api_keys.into(), ..config(Limits::default()) }).router();
    let body = json!({"prompt": "def add(a, b):", "max_tokens": 8});
    let request = |key: &str, body: &serde_json::Value| {
        let mut request = post("/v1/completions", body);
        request.headers_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
        request
    };
    for (key, good, limit) in [("a", 2, "'alice' may have 2 requests a minute"), ("b", 1, "'bob' may have 10 tokens")] {
        for _ in 0..good {
            assert_eq!(send(&router, request(key, &body)).await.status, StatusCode::OK, "{key}");
        }
        let refused = send(&router, request(key, &body)).await;
        assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS, "{key}");
        assert!(refused.complaint().contains(limit), "{}", refused.complaint());
        let seconds: u64 = refused.headers["retry-after"].to_str().unwrap().parse().unwrap();
        assert!((1..=120).contains(&seconds), "{seconds}");
        assert_eq!(refused.json()["error"]["code"], "rate_limit_exceeded");
    }
    let long = json!({"prompt": "x", "gen_length": 256, "strategy": "dos", "early_stop": false});
    let held = tokio::spawn({
        let (router, request) = (router.clone(), request("c", &long));
        async move { send(&router, request).await }
    });
    common::until(&router, "lacuna_active_runs", |runs| runs == 1.0).await;
    assert_eq!(send(&router, request("c", &body)).await.status, StatusCode::TOO_MANY_REQUESTS);
    held.abort();
    common::until(&router, "lacuna_active_runs", |runs| runs == 0.0).await;
    assert_eq!(send(&router, request("c", &body)).await.status, StatusCode::OK);
}

#[tokio::test]
async fn an_unlocked_server_for_this_machine_answers_to_no_foreign_name() {
    let named = |host: &str| Request::get("/v1/models").header("host", host).body(Body::empty()).unwrap();
    let keys = vec![ApiKey::new("key").unwrap()];
    let open = Config { address: ([0, 0, 0, 0], 8080).into(), ..config(Limits::default()) };
    let allowed = Config { allowed_hosts: vec!["lacuna.example".into()], ..config(Limits::default()) };
    for (config, host, status) in [
        (config(Limits::default()), "localhost:8080", StatusCode::OK),
        (config(Limits::default()), "127.0.0.1", StatusCode::OK),
        (config(Limits::default()), "evil.example", StatusCode::FORBIDDEN),
        (config(Limits::default()), "lacuna.example", StatusCode::FORBIDDEN),
        (allowed, "lacuna.example", StatusCode::OK),
        (open, "evil.example", StatusCode::OK),
        (Config { api_keys: keys, ..config(Limits::default()) }, "evil.example", StatusCode::UNAUTHORIZED),
    ] {
        let answer = send(&server(config).router(), named(host)).await;
        assert_eq!(answer.status, status, "{host}");
    }
}

#[tokio::test]
async fn ids_and_traces_of_clients_are_taken_over() {
    let router = common::router();
    let with = |name: &str, value: &str| Request::get("/version").header(name, value).body(Body::empty()).unwrap();
    assert_eq!(send(&router, with("x-request-id", "mine-1")).await.headers["x-request-id"], "mine-1");
    for forged in ["two words", "a=\"b\"", &"x".repeat(200)] {
        let given = send(&router, with("x-request-id", forged)).await.headers["x-request-id"].clone();
        assert!(given.to_str().unwrap().starts_with("req-"), "{given:?}");
    }
    let answer = send(&router, with("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")).await;
    let parent = answer.headers["traceparent"].to_str().unwrap().to_string();
    assert!(parent.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-") && parent.ends_with("-01"), "{parent}");
    assert!(!parent.contains("00f067aa0ba902b7"), "the span is our own: {parent}");
    assert!(!get(&router, "/version").await.headers.contains_key("traceparent"));
}

#[tokio::test]
async fn pages_and_json_are_compressed_and_event_streams_are_not() {
    let router = common::router();
    let request = |mut request: Request<Body>| {
        request.headers_mut().insert("accept-encoding", "gzip".parse().unwrap());
        request
    };
    for path in ["/", "/app.js", "/openapi.json", "/v1/strategies"] {
        let plain = get(&router, path).await;
        let packed = send(&router, request(Request::get(path).body(Body::empty()).unwrap())).await;
        assert_eq!(packed.headers["content-encoding"], "gzip", "{path}");
        assert!(packed.body.len() < plain.body.len(), "{path}");
        assert!(!plain.headers.contains_key("content-encoding"));
    }
    let body = chat(QUESTION, &json!({"gen_length": 16, "stream": true}));
    let streamed = send(&router, request(post(CHAT, &body))).await;
    assert!(!streamed.headers.contains_key("content-encoding"));
    assert!(!streamed.chunks().is_empty());
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
    let error = lacuna_serve::Server::new(checkpoint, vec![common::embedded()], wrong).err().unwrap();
    assert!(error.to_string().contains("not an origin"), "{error}");
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
    let strategy = "strategy=\"dos+eb\"";
    let mut ended = 0.0;
    for finish in ["stop", "length"] {
        ended += metric(&router, &format!("lacuna_texts_total{{{strategy},finish_reason=\"{finish}\"}}")).await;
    }
    assert_eq!(ended, 1.0);
    assert_eq!(
        metric(&router, &format!("lacuna_text_nfe_total{{{strategy}}}")).await,
        body["usage"]["lacuna"]["nfe"].as_f64().unwrap()
    );
    for path in ["/app.js", "/session.js", "/"] {
        get(&router, path).await;
    }
    assert_eq!(metric(&router, "lacuna_requests_total{route=\"/{file}\",status=\"200\"}").await, 2.0);
    let page = get(&router, "/metrics").await.text();
    let build = format!("lacuna_build_info{{version=\"{}\",model=\"mini\",device=\"", env!("CARGO_PKG_VERSION"));
    assert!(page.contains(&build) && !page.contains("app.js"), "{page}");
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
