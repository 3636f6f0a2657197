//! Texts of chats and completions.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::common::{QUESTION, alone, ask, chat, embedded, get, router};
use super::{CHAT, COMPLETIONS};

#[tokio::test]
async fn a_chat_is_answered_as_the_engine_alone_would() {
    let router = router();
    let (text, run) = alone(embedded().as_mut(), QUESTION, &json!({}));
    let body = ask(&router, CHAT, chat(QUESTION, &json!({"model": "mini"}))).await.json();
    assert_eq!(body["object"], "chat.completion");
    assert_eq!(body["model"], "mini");
    assert!(body["id"].as_str().unwrap().starts_with("chatcmpl-") && body["created"].is_u64());
    let choice = &body["choices"][0];
    assert_eq!(choice["message"], json!({"role": "assistant", "content": text, "refusal": null}));
    assert_eq!((&choice["index"], &choice["finish_reason"]), (&json!(0), &json!("stop")));
    let usage = &body["usage"];
    let prompt = run.canvas().len() - run.canvas().gaps().count();
    assert_eq!(usage["prompt_tokens"], prompt);
    let written = usage["completion_tokens"].as_u64().unwrap();
    assert_eq!(usage["total_tokens"].as_u64().unwrap(), prompt as u64 + written);
    assert_eq!(usage["lacuna"]["nfe"], run.forwards());
    assert_eq!(usage["lacuna"]["rows_read"], run.rows_read());
    assert_eq!(usage["lacuna"]["steps"], run.trace().deltas.len());
}

#[tokio::test]
async fn a_streamed_text_only_grows_and_ends_as_the_whole_one() {
    let router = router();
    for strategy in ["dos+eb", "confidence", "random+top4", "wino", "saber", "klass", "margin+threshold"] {
        for block in [json!(null), json!(16)] {
            let fields = json!({"strategy": strategy, "gen_length": 32, "block_length": block, "seed": 3});
            let whole = ask(&router, CHAT, chat(QUESTION, &fields)).await.json();
            let mut streamed = chat(QUESTION, &fields);
            streamed["stream"] = true.into();
            streamed["stream_options"] = json!({"include_usage": true});
            let chunks = ask(&router, CHAT, streamed).await.chunks();
            let (usage, chunks) = chunks.split_last().unwrap();
            assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
            let pieces = chunks.iter().map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().unwrap());
            assert_eq!(pieces.collect::<String>(), whole["choices"][0]["message"]["content"], "{strategy}");
            for (number, chunk) in chunks.iter().enumerate() {
                assert_eq!(chunk["object"], "chat.completion.chunk");
                assert_eq!(chunk["usage"], Value::Null);
                let finish = &chunk["choices"][0]["finish_reason"];
                let last = number + 1 == chunks.len();
                assert_eq!(finish, if last { &whole["choices"][0]["finish_reason"] } else { &Value::Null });
            }
            assert_eq!(usage["choices"], json!([]));
            for field in ["prompt_tokens", "completion_tokens", "total_tokens"] {
                assert_eq!(usage["usage"][field], whole["usage"][field]);
            }
            assert_eq!(usage["usage"]["lacuna"]["nfe"], whole["usage"]["lacuna"]["nfe"]);
        }
    }
}

#[tokio::test]
async fn characters_of_several_tokens_are_streamed_whole() {
    let router = router();
    // The model knows no such text, so it is told to fill one token between parts of it; the rest is given.
    let text = "naïve 日本語 🦀 <gap:1> ünïcödé 🦀🦀";
    let body = json!({"text": text, "stream": true, "strategy": "random"});
    let chunks = ask(&router, COMPLETIONS, body.clone()).await.chunks();
    let streamed: String = chunks.iter().map(|chunk| chunk["choices"][0]["text"].as_str().unwrap()).collect();
    assert!(streamed.starts_with("naïve 日本語 🦀 ") && streamed.ends_with(" ünïcödé 🦀🦀"), "{streamed}");
    assert!(!streamed.contains('\u{fffd}'));
}

#[tokio::test]
async fn stop_strings_end_the_text_before_them_in_both_ways() {
    let router = router();
    let whole = ask(&router, CHAT, chat(QUESTION, &json!({}))).await.json();
    let whole_text = whole["choices"][0]["message"]["content"].as_str().unwrap().to_string();
    assert!(whole_text.contains("####"), "{whole_text}");
    for stop in [json!("####"), json!(["no such text", "###"]), json!("\n"), json!(whole_text.get(..3).unwrap())] {
        let first = stop.as_array().map_or(stop.as_str(), |stops| stops[1].as_str()).unwrap();
        let expected = &whole_text[..whole_text.find(first).unwrap()];
        let body = ask(&router, CHAT, chat(QUESTION, &json!({"stop": stop}))).await.json();
        assert_eq!(body["choices"][0]["message"]["content"], expected, "{stop}");
        assert_eq!(body["choices"][0]["finish_reason"], "stop");
        assert!(body["usage"]["completion_tokens"].as_u64() <= whole["usage"]["completion_tokens"].as_u64());
        assert!(body["usage"]["lacuna"]["nfe"].as_u64() <= whole["usage"]["lacuna"]["nfe"].as_u64());
        let chunks = ask(&router, CHAT, chat(QUESTION, &json!({"stop": stop, "stream": true}))).await.chunks();
        let pieces = chunks.iter().map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().unwrap());
        assert_eq!(pieces.collect::<String>(), expected, "{stop}");
    }
}

#[tokio::test]
async fn prompts_come_in_every_shape_and_texts_are_numbered() {
    let router = router();
    let checkpoint = lacuna_models::Checkpoint::embedded().unwrap();
    let tokens = checkpoint.text().unwrap().encode("def add(a, b):").unwrap();
    let texts = async |prompt: Value, n: usize| -> Vec<String> {
        let body = json!({"prompt": prompt, "max_tokens": 16, "n": n});
        let body = ask(&router, COMPLETIONS, body).await.json();
        assert_eq!(body["object"], "text_completion", "{body}");
        let choices = body["choices"].as_array().unwrap();
        assert!(choices.iter().enumerate().all(|(index, choice)| choice["index"] == index));
        choices.iter().map(|choice| choice["text"].as_str().unwrap().to_string()).collect()
    };
    let one = texts(json!("def add(a, b):"), 1).await;
    assert_eq!(texts(json!(tokens), 1).await, one);
    let both = texts(json!(["def add(a, b):", "def square(x):"]), 1).await;
    assert_eq!(both[0], one[0]);
    assert_ne!(both[1], one[0]);
    assert_eq!(texts(json!([tokens, tokens]), 1).await, [one[0].clone(), one[0].clone()]);
    assert_eq!(
        texts(json!(["def add(a, b):", "def square(x):"]), 2).await,
        [one[0].clone(), one[0].clone(), both[1].clone(), both[1].clone()]
    );
}

#[tokio::test]
async fn n_texts_draw_from_seeds_of_their_own() {
    let router = router();
    let fields = json!({"temperature": 1.5, "gen_length": 24, "early_stop": false});
    let several = ask(
        &router,
        CHAT,
        chat(QUESTION, &{
            let mut f = fields.clone();
            f["n"] = 3.into();
            f["seed"] = 10.into();
            f
        }),
    )
    .await
    .json();
    for index in 0..3 {
        let mut fields = fields.clone();
        fields["seed"] = (10 + index).into();
        let single = ask(&router, CHAT, chat(QUESTION, &fields)).await.json();
        assert_eq!(several["choices"][index]["message"], single["choices"][0]["message"]);
    }
    let mut streamed = chat(QUESTION, &fields);
    (streamed["n"], streamed["seed"], streamed["stream"]) = (3.into(), 10.into(), true.into());
    let chunks = ask(&router, CHAT, streamed).await.chunks();
    for index in 0..3 {
        let own = chunks.iter().map(|chunk| &chunk["choices"][0]).filter(|choice| choice["index"] == index);
        let text: String = own.clone().map(|choice| choice["delta"]["content"].as_str().unwrap()).collect();
        assert_eq!(text, several["choices"][index]["message"]["content"]);
        assert_eq!(own.filter(|choice| choice["delta"]["role"] == "assistant").count(), 1);
    }
}

#[tokio::test]
async fn gaps_are_filled_between_prompt_and_suffix_and_in_texts() {
    let router = router();
    let body = json!({"prompt": "def square(x):\n    return", "suffix": "\n", "max_tokens": 6});
    let body = ask(&router, COMPLETIONS, body).await.json();
    assert_eq!(body["usage"]["completion_tokens"], 6);
    assert_eq!(body["choices"][0]["finish_reason"], "stop");
    assert!(body["usage"]["prompt_tokens"].as_u64().unwrap() > 6);

    let text = "Sara still has <gap:5> = 15 pens.";
    let prompt = "Sara has 24 pens and gives 9 away. How many are left?";
    let body = ask(&router, CHAT, chat(prompt, &json!({"text": text}))).await.json();
    let filled = body["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(filled.starts_with("Sara still has ") && filled.ends_with(" = 15 pens."), "{filled}");
    assert_eq!(body["usage"]["completion_tokens"], 5);

    // Lengths are found, whether the text is streamed or not.
    let found = json!({"text": "Sara still has<gap> = 15 pens.", "max_gap": 8});
    let body = ask(&router, CHAT, chat(prompt, &found)).await.json();
    assert_eq!(body["choices"][0]["message"]["content"], "Sara still has 24 - 9 = 15 pens.");
    assert_eq!(body["usage"]["completion_tokens"], 6);
    let body = ask(&router, CHAT, chat(prompt, &json!({"text": "24<gap>"}))).await.json();
    assert_eq!(body["choices"][0]["message"]["content"], "24 - 9 = 15\n#### 15");
    // Drafts in texts, and at the beginning of answers.
    for extra in
        [json!({"text": "<draft>24 - 9 = 13</draft>\n#### 15"}), json!({"draft": "24 - 9 = 13", "gen_length": 32})]
    {
        let body = ask(&router, CHAT, chat(prompt, &extra)).await.json();
        assert_eq!(body["choices"][0]["message"]["content"], "24 - 9 = 15\n#### 15", "{extra}");
    }

    let body = ask(&router, COMPLETIONS, json!({"text": "def square(x):<gap:8>x * x", "echo": true})).await.json();
    assert!(body["choices"][0]["text"].as_str().unwrap().starts_with("def square(x):"), "{body}");
}

#[tokio::test]
async fn texts_become_tokens_and_texts_again() {
    let router = router();
    let checkpoint = lacuna_models::Checkpoint::embedded().unwrap();
    let text = checkpoint.text().unwrap();
    let answer =
        ask(&router, "/tokenize", json!({"prompt": "def add(a, b): # é", "return_token_strs": true})).await.json();
    let expected = text.encode("def add(a, b): # é").unwrap();
    assert_eq!((&answer["tokens"], &answer["count"]), (&json!(expected), &json!(expected.len())));
    assert_eq!(answer["max_model_len"], 1024);
    assert_eq!(answer["token_strs"].as_array().unwrap().len(), expected.len());
    let back = ask(&router, "/detokenize", json!({"tokens": expected})).await.json();
    assert_eq!(back["prompt"], "def add(a, b): # é");
    let mut messages = chat(QUESTION, &json!({}));
    messages["add_generation_prompt"] = true.into();
    let tokens = ask(&router, "/tokenize", messages).await.json()["tokens"].clone();
    assert_eq!(tokens, json!(text.chat(&[("user", QUESTION)]).unwrap()));
    for (path, body, word) in [
        ("/tokenize", json!({}), "either"),
        ("/tokenize", json!({"prompt": 3}), "must be a text"),
        ("/detokenize", json!({"tokens": [999_999]}), "does not exist"),
        ("/detokenize", json!({}), "'tokens' is missing"),
    ] {
        let answer = ask(&router, path, body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        assert!(answer.complaint().contains(word), "{}", answer.complaint());
    }
    assert_eq!(get(&router, "/version").await.json()["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(get(&router, "/v1/models").await.json()["data"][0]["max_model_len"], 1024);
}
