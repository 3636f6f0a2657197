//! Log-probabilities, the best of several texts, and scores of given texts.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::common::{QUESTION, ask, chat, router};
use super::{CHAT, COMPLETIONS, SCORE};

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
