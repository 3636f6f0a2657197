//! Bad requests, and neutral values that are accepted.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::json;

use super::common::{QUESTION, ask, chat, post, router, send};
use super::{CHAT, COMPLETIONS};

#[tokio::test]
async fn values_that_ask_for_nothing_are_let_pass() {
    let router = router();
    let plain = ask(&router, CHAT, chat(QUESTION, &json!({"gen_length": 32}))).await.json();
    let fields = json!({"gen_length": 32, "min_p": 0, "repetition_penalty": 1.0, "top_k": -1, "ignore_eos": false,
        "skip_special_tokens": true, "add_generation_prompt": true, "chat_template_kwargs": {}, "length_penalty": 1,
        "use_beam_search": false, "stop_token_ids": [], "min_tokens": 0, "guided_json": null});
    let habits = ask(&router, CHAT, chat(QUESTION, &fields)).await.json();
    assert_eq!(habits["choices"], plain["choices"]);
    for (field, value) in [("min_p", json!(0.1)), ("repetition_penalty", json!(1.2)), ("ignore_eos", json!(true))] {
        let answer = ask(&router, CHAT, chat(QUESTION, &json!({field: value}))).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        assert!(answer.complaint().contains(&format!("'{field}' is not supported")), "{}", answer.complaint());
    }
}

#[tokio::test]
async fn what_asks_for_nothing_is_let_pass() {
    let router = router();
    let plain = ask(&router, CHAT, chat(QUESTION, &json!({"gen_length": 32}))).await.json();
    let fields = json!({
        "max_completion_tokens": 32, "max_tokens": null, "user": "me", "metadata": {"a": "b"}, "n": 1, "seed": null,
        "stream": false, "stream_options": null, "logit_bias": null, "tools": [], "tool_choice": "none", "store": false,
        "response_format": {"type": "text"}, "frequency_penalty": 0, "presence_penalty": 0.0, "top_p": 1, "temperature": 0,
        "modalities": ["text"], "logprobs": false, "stop": null, "top_k": 0, "layer": "0", "strategy": null,
    });
    let dressed = ask(&router, CHAT, chat(QUESTION, &fields)).await.json();
    assert_eq!(dressed["choices"], plain["choices"]);
    let parts = json!([{"type": "text", "text": &QUESTION[..20]}, {"type": "text", "text": &QUESTION[20..]}]);
    let message = json!({"role": "user", "content": parts, "name": "me", "type": "text"});
    let body = ask(&router, CHAT, json!({"messages": [message], "max_tokens": 32})).await.json();
    assert_eq!(body["choices"], plain["choices"]);
}

#[tokio::test]
async fn messages_name_neither_types_nor_commands() {
    let router = router();
    for (body, message) in [
        (json!({"prompt": "x", "n": -1}), "n is -1, but it must be a whole number, 0 or more"),
        (json!({"prompt": "x", "max_tokens": 1.5}), "max_tokens is 1.5, but it must be a whole number, 0 or more"),
        (json!({"prompt": "x", "stream": "yes"}), "stream is \"yes\", but it must be true or false"),
        (json!({"prompt": "x", "nope": 1}), "there is no field 'nope': /openapi.json lists the fields"),
        (
            json!({"prompt": "a <|mdm_mask|> b"}),
            "the prompt has the model's mask token in it: leave it out, or write gaps into the field text",
        ),
    ] {
        let answer = ask(&router, COMPLETIONS, body).await;
        assert_eq!(answer.complaint(), message);
    }
    let role = json!({"messages": [{"role": "robot", "content": "x"}]});
    let answer = ask(&router, CHAT, role).await;
    assert_eq!(answer.complaint(), "messages[0].role: 'robot' is none of system, developer, user, assistant, tool");
}

#[tokio::test]
async fn what_cannot_be_done_is_refused_by_name() {
    let router = router();
    let long = "x".repeat(200);
    for (field, value, word) in [
        ("logit_bias", json!({"5": 1}), "logits"),
        ("tools", json!([{"type": "function"}]), "tools"),
        ("tools", json!([{"type": "function", "function": {"name": "a b"}}]), "not a function name"),
        ("tool_choice", json!("required"), "there are no tools"),
        ("response_format", json!({"type": "xml"}), "response_format"),
        ("response_format", json!({"type": "json_schema", "json_schema": {"schema": {"not": {}}}}), "json_schema: "),
        ("guided_regex", json!("(a"), "regex: the pattern"),
        ("guided_regex", json!("(a|b)*a(a|b){40}"), "too large"),
        ("guided_choice", json!([]), "a list of texts"),
        ("regex", json!("x{2000}"), "must be at least"),
        ("frequency_penalty", json!(0.5), "penalize"),
        ("presence_penalty", json!(-1), "penalize"),
        ("modalities", json!(["text", "audio"]), "text only"),
        ("reasoning_effort", json!("high"), "strategy"),
        ("store", json!(true), "stores nothing"),
        ("top_logprobs", json!(2), "logprobs: true"),
        ("top_logprobs", json!(21), "20"),
        ("frobnicate", json!(1), "there is no field"),
        ("n", json!(0), "1 or more"),
        ("n", json!(1000), "128"),
        ("n", json!("two"), "n"),
        ("gen_length", json!(0), "a whole number from 1"),
        ("max_tokens", json!(0), "1 or more"),
        ("max_tokens", json!(-1), "max_tokens"),
        ("max_tokens", json!(1u64 << 20), "context"),
        ("strategy", json!("dosx"), "did you mean"),
        ("strategy", json!(long), "at most"),
        ("layer", json!(99), "layers 0 to 7"),
        ("layer", json!("5-2"), "layer is 5-2"),
        ("layer", json!([0, 0]), "layer is 0,0"),
        ("heads", json!([7]), "heads 0 to 4"),
        ("block_length", json!(48), "divide"),
        ("gamma", json!(-1), "0 or more"),
        ("temperature", json!(-0.5), "0 or more"),
        ("guidance", json!(1e300), "0 or more"),
        ("top_p", json!(0), "more than 0"),
        ("seed", json!(-4), "seed"),
        ("seed", json!(1.5), "seed"),
        ("stop", json!(""), "1 to 256"),
        ("stop", json!([1]), "stop"),
        ("stop", json!(vec!["x"; 17]), "16"),
        ("stream_options", json!({"what": 1}), "there is no field"),
        ("allow_eos", json!(true), "gaps"),
        ("sampling", json!("openai"), "llada"),
    ] {
        let answer = ask(&router, CHAT, chat(QUESTION, &json!({field: value.clone()}))).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{field}: {value}");
        let complaint = answer.complaint();
        assert!(complaint.contains(word), "{field}: {value}: {complaint}");
    }
    for (body, word) in [
        (json!({}), "no prompt"),
        (json!({"prompt": ""}), "empty"),
        (json!({"prompt": []}), "empty"),
        (json!({"prompt": {"a": 1}}), "a prompt is"),
        (json!({"prompt": [[1], ["x"]]}), "a prompt is"),
        (json!({"prompt": [5, 5]}), "mask"),
        (json!({"prompt": [99999]}), "out of range"),
        (json!({"prompt": "x".repeat(9000)}), "context"),
        (json!({"prompt": "x", "best_of": 3}), "best_of"),
        (json!({"prompt": "x", "logprobs": 6}), "at most 5"),
        (json!({"prompt": "x", "top_logprobs": 2}), "is for chats"),
        (json!({"prompt": "x", "logprobs": 0, "echo": true}), "/v1/score"),
        (json!({"prompt": "x", "suffix": "y", "text": "<gap:1>"}), "text"),
        (json!({"prompt": "x", "suffix": "y", "max_tokens": 1u64 << 50}), "context"),
        (json!({"prompt": "x", "max_tokens": 5, "gen_length": 6}), "at most the limit of 5"),
        (json!({"text": "no gaps at all"}), "<gap:N>"),
        (json!({"text": "a <gap:0> b"}), "not a gap"),
        (json!({"text": "a <gap:18446744073709551615> b"}), "context"),
        (json!({"text": "a <gap:2> b", "logprobs": 0}), "gaps"),
    ] {
        let answer = ask(&router, COMPLETIONS, body.clone()).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{body}");
        let complaint = answer.complaint();
        assert!(complaint.contains(word), "{body}: {complaint}");
    }
    for (messages, word) in [
        (json!([]), "at least one"),
        (json!([{"role": "robot", "content": "x"}]), "role"),
        (json!([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]), "text"),
        (json!([{"role": "user"}]), "content"),
    ] {
        let answer = ask(&router, CHAT, json!({"messages": messages})).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{messages}");
        assert!(answer.complaint().contains(word), "{messages}: {}", answer.complaint());
    }
}

#[tokio::test]
async fn what_is_not_http_as_it_should_be_is_refused_in_the_same_shape() {
    let router = router();
    let raw = |kind: &str, body: &str| {
        Request::post(CHAT).header("content-type", kind).body(Body::from(body.to_string())).unwrap()
    };
    for (request, status) in [
        (raw("application/json", "{\"messages\": [}"), StatusCode::BAD_REQUEST),
        (raw("application/json", "[1]"), StatusCode::BAD_REQUEST),
        (raw("application/json", ""), StatusCode::BAD_REQUEST),
        (raw("application/json", "\u{1F980}"), StatusCode::BAD_REQUEST),
        (raw("application/json", &"[".repeat(100_000)), StatusCode::BAD_REQUEST),
        (raw("text/plain", "{}"), StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (raw("application/json", &format!("\"{}\"", "x".repeat(2 << 20))), StatusCode::PAYLOAD_TOO_LARGE),
        (Request::post("/v1/models").body(Body::empty()).unwrap(), StatusCode::METHOD_NOT_ALLOWED),
        (Request::get(CHAT).body(Body::empty()).unwrap(), StatusCode::METHOD_NOT_ALLOWED),
        (Request::get("/v1/nothing").body(Body::empty()).unwrap(), StatusCode::NOT_FOUND),
        (Request::get("/v1/models/other").body(Body::empty()).unwrap(), StatusCode::NOT_FOUND),
        (post(CHAT, &chat(QUESTION, &json!({"model": "gpt-4"}))), StatusCode::NOT_FOUND),
    ] {
        let answer = send(&router, request).await;
        assert_eq!(answer.status, status, "{}", answer.text());
        answer.complaint();
        assert_eq!(answer.headers.contains_key("allow"), status == StatusCode::METHOD_NOT_ALLOWED);
        assert!(answer.headers.contains_key("x-request-id"));
    }
}
