//! Requests and responses: shapes, texts, refusals.

mod common;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use common::{QUESTION, alone, ask, chat, embedded, get, post, read_some, router, send};
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";
const SCORE: &str = "/v1/score";

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
async fn echo_and_logprobs_tell_what_they_can() {
    let router = router();
    let plain = json!({"prompt": "def add(a, b):", "max_tokens": 16});
    let text =
        ask(&router, COMPLETIONS, plain.clone()).await.json()["choices"][0]["text"].as_str().unwrap().to_string();
    let with = |name: &str, value: Value| {
        let mut body = plain.clone();
        body[name] = value;
        body
    };
    let echoed = ask(&router, COMPLETIONS, with("echo", true.into())).await.json();
    assert_eq!(echoed["choices"][0]["text"], format!("def add(a, b):{text}"));

    let scored = ask(&router, COMPLETIONS, with("logprobs", 0.into())).await.json();
    let logprobs = &scored["choices"][0]["logprobs"];
    let tokens: Vec<&str> =
        logprobs["tokens"].as_array().unwrap().iter().map(|token| token.as_str().unwrap()).collect();
    assert_eq!(tokens.concat(), text);
    assert_eq!(tokens.len() as u64, scored["usage"]["completion_tokens"].as_u64().unwrap());
    let numbers = logprobs["token_logprobs"].as_array().unwrap();
    assert!(numbers.iter().all(|number| number.as_f64().unwrap() <= 0.0) && numbers.len() == tokens.len());
    let offsets: Vec<u64> = logprobs["text_offset"].as_array().unwrap().iter().map(|o| o.as_u64().unwrap()).collect();
    let expected = tokens.iter().scan(0, |offset, token| {
        let at = *offset;
        *offset += token.chars().count() as u64;
        Some(at)
    });
    assert_eq!(offsets, expected.collect::<Vec<_>>());
    assert_eq!(logprobs["top_logprobs"], Value::Null);

    let mut streamed = with("logprobs", 0.into());
    streamed["stream"] = true.into();
    let chunks = ask(&router, COMPLETIONS, streamed).await.chunks();
    let pieces = chunks.iter().filter_map(|chunk| chunk["choices"][0]["logprobs"]["tokens"].as_array());
    assert_eq!(pieces.flatten().map(|token| token.as_str().unwrap()).collect::<String>(), text);

    let best = ask(&router, COMPLETIONS, with("logprobs", 3.into())).await.json();
    let found = &best["choices"][0]["logprobs"];
    assert_eq!((&found["tokens"], &found["token_logprobs"]), (&logprobs["tokens"], &logprobs["token_logprobs"]));
    for (place, top) in found["top_logprobs"].as_array().unwrap().iter().enumerate() {
        let own = &found["token_logprobs"][place];
        assert_eq!(&top[tokens[place]], own, "the token itself is among them");
        let others: Vec<f64> = top.as_object().unwrap().values().map(|logprob| logprob.as_f64().unwrap()).collect();
        assert!((1..=4).contains(&others.len()) && others.iter().all(|other| *other <= own.as_f64().unwrap()), "{top}");
    }
    assert_eq!(best["choices"][0]["text"], text);

    for strategy in ["dos+eb", "confidence+top2", "wino", "core", "entropy+klass"] {
        let fields =
            json!({"logprobs": true, "top_logprobs": 4, "gen_length": 32, "strategy": strategy, "stream": true});
        let chunks = ask(&router, CHAT, chat(QUESTION, &fields)).await.chunks();
        let contents = chunks.iter().filter_map(|chunk| chunk["choices"][0]["logprobs"]["content"].as_array());
        let content: Vec<&Value> = contents.flatten().collect();
        assert!(!content.is_empty());
        for token in content {
            let top = token["top_logprobs"].as_array().unwrap();
            assert_eq!(top.len(), 4, "{strategy}: {token}");
            assert_eq!(top[0]["token"].as_str().unwrap().as_bytes(), bytes(&top[0]["bytes"]));
            let logprobs: Vec<f64> = top.iter().map(|top| top["logprob"].as_f64().unwrap()).collect();
            assert!(logprobs.is_sorted_by(|a, b| a >= b), "{token}");
            // At temperature 0 the token that was decided is the most probable one.
            assert_eq!((&top[0]["token"], &top[0]["logprob"]), (&token["token"], &token["logprob"]), "{strategy}");
            assert!(logprobs.iter().map(|logprob| logprob.exp()).sum::<f64>() < 1.0 + 1e-6);
        }
    }

    let fields = json!({"logprobs": true, "gen_length": 32, "stop": "="});
    let body = ask(&router, CHAT, chat(QUESTION, &fields)).await.json();
    let content = body["choices"][0]["logprobs"]["content"].as_array().unwrap();
    let spelled: String = content.iter().map(|token| token["token"].as_str().unwrap()).collect();
    assert!(spelled.starts_with(body["choices"][0]["message"]["content"].as_str().unwrap()), "{body}");
    assert_eq!(content.len() as u64, body["usage"]["completion_tokens"].as_u64().unwrap());
    let bytes: Vec<u8> = content.iter().flat_map(|token| bytes(&token["bytes"])).collect();
    assert_eq!(String::from_utf8(bytes).unwrap(), spelled);
}

fn bytes(list: &Value) -> Vec<u8> {
    list.as_array().unwrap().iter().map(|byte| byte.as_u64().unwrap() as u8).collect()
}

#[tokio::test]
async fn the_best_of_several_texts_have_the_most_probable_tokens() {
    let router = router();
    let drawn = json!({"prompt": "def add(a, b):", "max_tokens": 16, "temperature": 1.0, "n": 4, "logprobs": 0});
    let all = ask(&router, COMPLETIONS, drawn.clone()).await.json();
    let mut best = drawn.clone();
    (best["n"], best["best_of"]) = (2.into(), 4.into());
    let chosen = ask(&router, COMPLETIONS, best).await.json();
    let texts = |body: &Value| -> Vec<(String, Value)> {
        let text = |choice: &Value| (choice["text"].as_str().unwrap().to_string(), choice["logprobs"].clone());
        body["choices"].as_array().unwrap().iter().map(text).collect()
    };
    let (all_texts, chosen_texts) = (texts(&all), texts(&chosen));
    assert_eq!(chosen_texts.len(), 2);
    assert!(chosen_texts.iter().all(|text| all_texts.contains(text)), "{chosen}");
    assert_eq!(chosen["usage"]["completion_tokens"], all["usage"]["completion_tokens"]);
    // Those that ran out of room have no token that ends them: their mean is that of their tokens.
    let mean = |logprobs: &Value| {
        let numbers: Vec<f64> =
            logprobs["token_logprobs"].as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect();
        numbers.iter().sum::<f64>() / numbers.len() as f64
    };
    let cut = all["choices"].as_array().unwrap().iter().all(|choice| choice["finish_reason"] == "length");
    if cut {
        let mut means: Vec<f64> = all_texts.iter().map(|(_, logprobs)| mean(logprobs)).collect();
        means.sort_by(|a, b| b.total_cmp(a));
        assert_eq!(chosen_texts.iter().map(|(_, logprobs)| mean(logprobs)).collect::<Vec<_>>(), means[..2]);
    }
    let plain = chat(QUESTION, &json!({"best_of": 3, "temperature": 0.7, "gen_length": 32}));
    let body = ask(&router, CHAT, plain).await.json();
    assert_eq!(body["choices"].as_array().unwrap().len(), 1);
    assert_eq!(body["choices"][0]["logprobs"], Value::Null);
    for (fields, word) in [
        (json!({"best_of": 2}), "temperature"),
        (json!({"best_of": 2, "n": 3, "temperature": 1}), "n asks for 3"),
        (json!({"best_of": 2, "stream": true, "temperature": 1}), "cannot be streamed"),
        (json!({"best_of": 1000, "temperature": 1}), "128"),
    ] {
        let answer = ask(&router, CHAT, chat(QUESTION, &fields)).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        assert!(answer.text().contains(word) && answer.json()["error"]["param"] == "best_of", "{}", answer.text());
    }
    let random = chat(QUESTION, &json!({"best_of": 2, "strategy": "random+top8", "gen_length": 16}));
    assert_eq!(ask(&router, CHAT, random).await.status, StatusCode::OK, "the order is drawn");
}

#[tokio::test]
async fn given_texts_are_scored() {
    let router = router();
    let answers = ["Sara still has 24 - 9 = 15 pens.", "Sara still has 24 - 9 = 83 pens."];
    let body = chat(QUESTION, &json!({"text": answers, "samples": 32}));
    let scored = ask(&router, SCORE, body.clone()).await.json();
    let number = |place: usize, name: &str| scored["data"][place][name].as_f64().unwrap();
    assert!(number(0, "loglikelihood") > number(1, "loglikelihood"), "{scored}");
    assert!(number(0, "standard_error") > 0.0 && number(0, "tokens") > 5.0);
    let mut alone = body.clone();
    alone["text"] = answers[1].into();
    assert_eq!(ask(&router, SCORE, alone.clone()).await.json()["data"][0], scored["data"][1], "whatever is beside it");
    alone["seed"] = 5.into();
    assert_ne!(ask(&router, SCORE, alone).await.json()["data"][0], scored["data"][1]);

    let left = json!({"prompt": "def add(a, b):", "text": " return a + b", "order": "left"});
    let along = ask(&router, SCORE, left).await.json();
    let tokens = along["data"][0]["logprobs"].as_array().unwrap();
    let sum: f64 = tokens.iter().map(|token| token["logprob"].as_f64().unwrap()).sum();
    assert!((sum - along["data"][0]["loglikelihood"].as_f64().unwrap()).abs() < 1e-9);
    assert_eq!(tokens.iter().map(|token| token["text"].as_str().unwrap()).collect::<String>(), " return a + b");
    assert_eq!(along["data"][0].get("standard_error"), None);
    let steps = json!({"text": "a b", "steps": [[1], [0]]});
    assert_eq!(ask(&router, SCORE, steps).await.json()["data"][0]["nfe"], 2);

    for (body, param, word) in [
        (json!({}), "", "text"),
        (json!({"text": ""}), "", "nothing to score"),
        (json!({"text": []}), "text", "1 to 128"),
        (json!({"text": 5}), "text", "a list of texts"),
        (json!({"text": "a", "samples": 0}), "samples", "multiple of 32"),
        (json!({"text": "a", "samples": 33}), "samples", "multiple of 32"),
        (json!({"text": "a", "samples": 1u64 << 40}), "samples", "at most 4096"),
        (json!({"text": "a", "order": "up"}), "order", "estimate"),
        (json!({"text": "a", "order": "left", "samples": 4}), "samples", "no effect"),
        (json!({"text": "a", "order": "right", "seed": 4}), "seed", "no effect"),
        (json!({"text": "a", "steps": [[0]], "order": "left"}), "order", "no effect"),
        (json!({"text": "a", "steps": [[900]]}), "steps", "must be below"),
        (json!({"text": "a", "steps": [[0], [0]]}), "", "twice"),
        (json!({"text": "a", "steps": []}), "steps", "places"),
        (json!({"text": "a", "guidance": -1}), "guidance", "0 to 1000"),
        (json!({"text": "a", "prompt": "b", "messages": []}), "prompt", "either"),
        (json!({"text": "a", "messages": []}), "messages", "at least one"),
        (json!({"text": "x ".repeat(2000)}), "", "context"),
        (json!({"text": "a", "model": "other"}), "model", "other"),
        (json!({"text": "a", "strategy": "dos"}), "strategy", "no field"),
    ] {
        let answer = ask(&router, SCORE, body.clone()).await;
        assert!(answer.status.is_client_error(), "{body}: {}", answer.text());
        let error = &answer.json()["error"];
        assert!(error["message"].as_str().unwrap().contains(word), "{body}: {error}");
        assert!(param.is_empty() || error["param"] == param, "{body}: {error}");
    }
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
        ("tools", json!([{"type": "function", "function": {"name": "a b"}}]), "no name of a function"),
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
        (json!({"prompt": "x", "logprobs": 0, "echo": true}), "likelihood"),
        (json!({"prompt": "x", "suffix": "y", "text": "<gap:1>"}), "text"),
        (json!({"prompt": "x", "suffix": "y", "max_tokens": 1u64 << 50}), "context"),
        (json!({"prompt": "x", "max_tokens": 5, "gen_length": 6}), "at most the limit of 5"),
        (json!({"text": "no gaps at all"}), "<gap:N>"),
        (json!({"text": "a <gap:0> b"}), "no gap"),
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

#[tokio::test]
async fn models_and_strategies_are_told() {
    let router = router();
    let list = get(&router, "/v1/models").await.json();
    assert_eq!(list["object"], "list");
    assert_eq!(list["data"][0]["id"], "mini");
    assert_eq!(get(&router, "/v1/models/mini").await.json(), list["data"][0]);
    let told = get(&router, "/v1/strategies").await.json();
    assert_eq!(
        told["orders"].as_array().unwrap().len(),
        lacuna::catalogue::parts(lacuna::catalogue::Section::Order).len()
    );
    assert_eq!(told["model"]["mask_token"], 5);
    assert_eq!(told["model"]["recommended"]["strategy"], "dos+eb");
    let eb = told["paces"].as_array().unwrap().iter().find(|pace| pace["name"] == "eb").unwrap();
    assert_eq!(eb["parameters"], json!(["gamma"]));
}

#[tokio::test]
async fn every_step_is_sent_and_the_record_replays() {
    let router = router();
    for (fields, watched) in [
        (json!({"strategy": "dos+eb"}), true),
        (json!({"strategy": "wino", "block_length": 16, "layer": [0, 1]}), true),
        (json!({"strategy": "confidence+top2", "watch": false}), false),
        (json!({"strategy": "entropy", "defer_eos": true}), true),
    ] {
        let mut body = chat(QUESTION, &fields);
        body["gen_length"] = 32.into();
        let events = ask(&router, "/v1/steps", body).await.events();
        let parsed = |data: &str| serde_json::from_str::<Value>(data).unwrap();
        let (first, rest) = events.split_first().unwrap();
        let (last, steps) = rest.split_last().unwrap();
        assert_eq!((first.0.as_str(), last.0.as_str()), ("start", "done"), "{last:?}");
        let (start, done) = (parsed(&first.1), parsed(&last.1));
        let record: lacuna_models::Record = serde_json::from_value(done.clone()).unwrap();
        let canvases: Vec<_> = record.trace().unwrap().canvases().collect();
        assert_eq!(start["canvas"].as_array().unwrap().len(), canvases[0].len());
        assert_eq!(start["kind"], "answer");
        assert_eq!(steps.len(), record.steps.len());
        for (number, ((name, data), recorded)) in steps.iter().zip(&record.steps).enumerate() {
            let step = parsed(data);
            assert_eq!((name.as_str(), &step["step"]), ("step", &json!(number)));
            assert_eq!(step["nfe"], number + 1);
            assert_eq!(step["remasked"], json!(recorded.remasked));
            let committed = step["committed"].as_array().unwrap().iter();
            let mut told: Vec<_> = committed.map(|commit| json!([commit["position"], commit["token"]])).collect();
            told.sort_by_key(|pair| pair[0].as_u64());
            assert_eq!(json!(told), json!(recorded.unmasked));
            assert!(recorded.details.is_none() && recorded.dependency.is_none(), "nothing is sent twice");
            assert_eq!(step["beliefs"], json!([]), "nothing is read that was not asked for");
            let masked: Vec<usize> = canvases[number].masked().collect();
            let scored = step["dependency"].as_array().unwrap();
            assert_eq!(scored.len(), if watched { masked.len() } else { 0 });
            assert!(scored.iter().zip(&masked).all(|(pair, position)| pair[0] == *position));
            assert!(scored.iter().all(|pair| (0.0..=1.001).contains(&pair[1].as_f64().unwrap())));
        }
        let (text, run) = alone(embedded().as_mut(), QUESTION, &{
            let mut fields = fields.clone();
            // Layers that are only watched change nothing.
            let unused = if fields["strategy"] == "wino" { "layer" } else { "watch" };
            fields.as_object_mut().unwrap().remove(unused);
            fields["gen_length"] = 32.into();
            fields
        });
        assert_eq!(done["text"], text);
        assert_eq!(record.trace().unwrap().replay(), *run.canvas());
        assert_eq!(done["usage"]["lacuna"]["nfe"], run.forwards());
        assert!(done["finish_reason"].is_string());
    }
    let fill = ask(&router, "/v1/steps", json!({"text": "def square(x):<gap:8>x * x"})).await.events();
    assert_eq!(serde_json::from_str::<Value>(&fill[0].1).unwrap()["kind"], "fill");
    for (body, word) in [
        (json!({"prompt": ["a", "b"]}), "one text"),
        (json!({"prompt": "a", "watch": 1}), "watch"),
        (json!({"prompt": "a", "watch": {"belief": true}}), "watch"),
        (json!({"prompt": [1, 2], "canvas": [7, 8]}), "mask token, 5"),
        (json!({"prompt": [1, 2], "canvas": [5, 99_999]}), "99999"),
        (json!({"text": "<gap:2>", "canvas": [5]}), "canvas"),
        (json!({"prompt": "a", "echo": true}), "echo"),
    ] {
        let answer = ask(&router, "/v1/steps", body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        assert!(answer.complaint().contains(word), "{}", answer.complaint());
    }
}

#[tokio::test]
async fn the_belief_at_every_slot_is_sent_and_changes_nothing() {
    let router = router();
    let parsed = |(_, data): &(String, String)| serde_json::from_str::<Value>(data).unwrap();
    for strategy in ["confidence+eb", "dos+eb", "klass", "wino"] {
        let mut body = chat(QUESTION, &json!({"strategy": strategy, "gen_length": 32}));
        let plain: Vec<Value> = ask(&router, "/v1/steps", body.clone()).await.events().iter().map(parsed).collect();
        body["watch"] = json!({"beliefs": true});
        let told: Vec<Value> = ask(&router, "/v1/steps", body).await.events().iter().map(parsed).collect();
        assert_eq!(plain.len(), told.len());
        assert_eq!(plain.last().unwrap()["tokens"], told.last().unwrap()["tokens"]);
        let mut spelled = std::collections::HashSet::new();
        for (plain, told) in plain.iter().zip(&told).skip(1).take(plain.len() - 2) {
            assert_eq!(plain["committed"], told["committed"]);
            let beliefs = told["beliefs"].as_array().unwrap();
            assert_eq!(beliefs.len(), told["dependency"].as_array().unwrap().len(), "every open slot has one");
            spelled.extend(told["texts"].as_object().unwrap().keys().cloned());
            assert!(beliefs.iter().all(|belief| spelled.contains(&belief[1].to_string())));
            for commit in told["committed"].as_array().unwrap() {
                let belief = beliefs.iter().find(|belief| belief[0] == commit["position"]).unwrap();
                assert_eq!(belief[1], commit["token"]);
                let close = |a: &Value, b: &Value| (a.as_f64().unwrap() - b.as_f64().unwrap()).abs() < 1e-4;
                assert!(close(&belief[2], &commit["probability"]) && close(&belief[4], &commit["entropy"]));
            }
            assert!(told["computed"].as_f64().unwrap() <= told["seconds"].as_f64().unwrap());
        }
    }
}

#[tokio::test]
async fn a_run_goes_on_from_a_canvas_that_was_changed() {
    let router = router();
    let first = ask(&router, "/v1/steps", chat(QUESTION, &json!({"strategy": "dos+eb", "gen_length": 32}))).await;
    let record: Value = serde_json::from_str(&first.events().last().unwrap().1).unwrap();
    let canvas: Vec<u64> = record["canvas"].as_array().unwrap().iter().map(|token| token.as_u64().unwrap()).collect();
    let (prompt, rest) = canvas.split_at(record["prompt_tokens"].as_u64().unwrap() as usize);
    let mut rest = rest.to_vec();
    let written = record["tokens"].as_array().unwrap();
    for position in 0..6 {
        rest[position] = written[position].as_u64().unwrap();
    }
    let body = json!({"prompt": prompt, "canvas": rest, "strategy": "dos+eb"});
    let events = ask(&router, "/v1/steps", body).await.events();
    let (start, done): (Value, Value) =
        (serde_json::from_str(&events[0].1).unwrap(), serde_json::from_str(&events.last().unwrap().1).unwrap());
    assert_eq!((&start["kind"], &start["prompt_tokens"]), (&json!("answer"), &json!(prompt.len())));
    assert_eq!(start["canvas"].as_array().unwrap().iter().filter(|cell| cell["gap"] == true).count(), 26);
    assert_eq!(done["text"], record["text"], "what the model had decided itself leads it to the same answer");
}

#[tokio::test]
async fn a_slot_is_probed() {
    let router = router();
    let steps = ask(&router, "/v1/steps", chat(QUESTION, &json!({"gen_length": 32, "watch": {"beliefs": true}}))).await;
    let events = steps.events();
    let (start, step): (Value, Value) =
        (serde_json::from_str(&events[0].1).unwrap(), serde_json::from_str(&events[1].1).unwrap());
    let tokens: Vec<&Value> = start["canvas"].as_array().unwrap().iter().map(|cell| &cell["token"]).collect();
    let from = start["prompt_tokens"].as_u64().unwrap();
    let body = json!({"tokens": tokens, "position": from + 3, "attention": true, "text": "Grüße 31"});
    let seen = ask(&router, "/v1/probe", body.clone()).await.json();
    let candidates = seen["candidates"].as_array().unwrap();
    assert_eq!(candidates.len(), 5);
    let probability = |candidate: &Value| candidate["probability"].as_f64().unwrap();
    assert!(candidates.windows(2).all(|pair| probability(&pair[0]) >= probability(&pair[1])));
    assert!(candidates.iter().map(probability).sum::<f64>() <= 1.0 + 1e-4);
    let belief = &step["beliefs"][3];
    assert_eq!((&belief[0], &belief[1]), (&json!(from + 3), &candidates[0]["token"]));
    for (told, probed) in [(&belief[2], &candidates[0]), (&belief[3], &candidates[1])] {
        assert!((told.as_f64().unwrap() - probability(probed)).abs() < 1e-4);
    }
    assert!((belief[4].as_f64().unwrap() - seen["entropy"].as_f64().unwrap()).abs() < 1e-4);
    let weights = seen["attention"].as_array().unwrap();
    assert!(weights.iter().all(|pair| pair[0].as_u64().unwrap() < tokens.len() as u64));
    assert!((0.2..1.001).contains(&weights.iter().map(|pair| pair[1].as_f64().unwrap()).sum::<f64>()));
    let text: String = seen["tokens"].as_array().unwrap().iter().map(|one| one["text"].as_str().unwrap()).collect();
    assert_eq!(text, "Grüße 31");
    for (field, value, word) in [
        ("position", json!(0), "decided"),
        ("position", json!(9999), "not on the canvas"),
        ("candidates", json!(99), "at most 20"),
        ("layer", json!([99]), "layer"),
        ("suppressed", json!([99_999]), "no token 99999"),
        ("tokens", json!(vec![5; 5000]), "context"),
        ("colour", json!(1), "colour"),
    ] {
        let mut body = body.clone();
        body[field] = value;
        let answer = ask(&router, "/v1/probe", body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{field}");
        assert!(answer.complaint().contains(word), "{}", answer.complaint());
    }
}

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

#[tokio::test]
async fn steps_come_as_they_happen() {
    let router = common::serve_with(common::Odd::slow(30), common::config(Default::default())).router();
    let body = chat(QUESTION, &json!({"strategy": "dos", "gen_length": 32}));
    let some = read_some(&router, post("/v1/steps", &body), |text| text.contains("\"step\":2,")).await;
    assert!(some.contains("event: step") && !some.contains("event: done"));
}

#[tokio::test]
async fn the_description_names_every_field_and_route() {
    let router = router();
    let api = get(&router, "/openapi.json").await.json();
    assert_eq!(api["openapi"].as_str().unwrap().split('.').next(), Some("3"));
    for path in [
        "/v1/completions",
        "/v1/chat/completions",
        "/v1/models",
        "/v1/models/{id}",
        "/v1/probe",
        "/v1/steps",
        "/v1/strategies",
    ] {
        assert!(api["paths"][path].is_object(), "{path}");
    }
    let body = &api["components"]["schemas"]["CompletionBody"];
    assert_eq!(body["additionalProperties"], false);
    for field in ["prompt", "suffix", "text", "gamma", "layer", "logit_bias", "user"] {
        assert!(body["properties"][field].is_object(), "{field}");
    }
}
