//! Steps, beliefs and probes.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::common::{Odd, QUESTION, alone, ask, chat, config, embedded, post, read_some, router, serve_with};

#[tokio::test]
async fn steps_come_as_they_happen() {
    let router = serve_with(Odd::slow(30), config(Default::default())).router();
    let body = chat(QUESTION, &json!({"strategy": "dos", "gen_length": 32}));
    let some = read_some(&router, post("/v1/steps", &body), |text| text.contains("\"step\":2,")).await;
    assert!(some.contains("event: step") && !some.contains("event: done"));
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
        ("position", json!(0), "not masked"),
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
