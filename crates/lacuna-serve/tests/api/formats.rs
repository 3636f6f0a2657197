//! Constraints and tools.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::CHAT;
use super::common::{QUESTION, ask, chat, router};

#[tokio::test]
async fn answers_keep_to_their_format() {
    let router = router();
    let content = |fields: Value| {
        let router = router.clone();
        async move {
            let answer = ask(&router, CHAT, chat(QUESTION, &fields)).await;
            assert_eq!(answer.status, StatusCode::OK, "{}", answer.complaint());
            let choice = answer.json()["choices"][0].clone();
            assert_eq!(choice["finish_reason"], "stop");
            choice["message"]["content"].as_str().unwrap().to_string()
        }
    };
    let schema = json!({"type": "object", "properties": {"left": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["left"], "additionalProperties": false});
    let format = json!({"type": "json_schema", "json_schema": {"name": "left", "schema": schema, "strict": true}});
    for fields in [
        json!({"response_format": format, "max_tokens": 32}),
        json!({"guided_json": schema, "gen_length": 32}),
        json!({"guided_json": schema.to_string(), "gen_length": 32, "strategy": "wino"}),
        json!({"json_schema": schema, "gen_length": 8, "block_length": 4, "strategy": "random+top4"}),
        json!({"regex": r#"\{"left": [0-9]{1,2}\}"#, "max_tokens": 40, "cache": "prefix", "block_length": 8}),
    ] {
        let value: Value = serde_json::from_str(&content(fields.clone()).await).unwrap();
        assert!(value["left"].as_u64().is_some_and(|left| left < 100), "{fields}: {value}");
    }
    let object = content(json!({"response_format": {"type": "json_object"}, "gen_length": 24})).await;
    assert!(serde_json::from_str::<Value>(&object).unwrap().is_object());
    let grammar = "root ::= \"yes\" | \"no\"";
    for fields in [json!({"guided_choice": ["yes", "no"]}), json!({"guided_grammar": grammar, "temperature": 1.0})] {
        assert!(["yes", "no"].contains(&&*content(fields).await));
    }
}

#[tokio::test]
async fn tools_are_called() {
    let router = router();
    let tool = |name: &str| {
        let parameters = json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/digit"}}, "required": ["x"],
            "additionalProperties": false, "$defs": {"digit": {"type": "integer", "minimum": 0, "maximum": 9}}});
        json!({"type": "function", "function": {"name": name, "description": "Adds.", "parameters": parameters}})
    };
    let named = json!({"type": "function", "function": {"name": "second"}});
    for choice in [json!("required"), named] {
        let fields = json!({"tools": [tool("first"), tool("second")], "tool_choice": choice, "max_tokens": 48});
        let body = ask(&router, CHAT, chat(QUESTION, &fields)).await.json();
        let choice = &body["choices"][0];
        assert_eq!(choice["finish_reason"], "tool_calls", "{body}");
        assert_eq!(choice["message"]["content"], Value::Null);
        let call = &choice["message"]["tool_calls"][0];
        assert!(call["id"].as_str().unwrap().starts_with("call_") && call["type"] == "function");
        assert!(call["function"]["name"] == "second" || fields["tool_choice"] == "required");
        let arguments: Value = serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
        assert!(arguments["x"].as_u64().unwrap() < 10);

        // The same in a stream, and a chat that goes on from the call.
        let mut streamed = fields.clone();
        streamed["stream"] = true.into();
        let chunk = ask(&router, CHAT, chat(QUESTION, &streamed)).await.chunks().remove(0);
        assert_eq!(chunk["choices"][0]["delta"]["tool_calls"][0]["function"], call["function"]);
        assert_eq!(chunk["choices"][0]["finish_reason"], "tool_calls");
        let message = choice["message"].clone();
        let result = json!({"role": "tool", "tool_call_id": call["id"], "content": "3"});
        let body = json!({"messages": [{"role": "user", "content": QUESTION}, message, result], "gen_length": 16});
        assert_eq!(ask(&router, CHAT, body).await.status, StatusCode::OK);
    }
    let fields = json!({"tools": [tool("first")], "gen_length": 32});
    let body = ask(&router, CHAT, chat(QUESTION, &fields)).await.json();
    let text = body["choices"][0]["message"]["content"].as_str();
    assert!(text.map_or(body["choices"][0]["finish_reason"] == "tool_calls", |text| !text.starts_with('{')), "{body}");
}
