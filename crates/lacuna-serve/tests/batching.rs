//! Requests that share forward passes: same answers, bounded, fair, and each on its own when something breaks.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use common::{
    Odd, QUESTION, alone, ask, chat, config, embedded, metric, post, read_some, serve_replicas, serve_with, until,
};
use futures_util::future::join_all;
use http_body_util::BodyExt;
use lacuna_models::Model;
use lacuna_serve::Limits;
use serde_json::{Value, json};
use tower::ServiceExt;

const CHAT: &str = "/v1/chat/completions";

/// Requests as different as they can be.
fn mixture() -> Vec<(String, Value)> {
    let fields = [
        json!({"strategy": "dos+eb", "gen_length": 48}),
        json!({"strategy": "confidence+top2", "gen_length": 32, "block_length": 8}),
        json!({"strategy": "klass", "gen_length": 40}),
        json!({"strategy": "wino", "gen_length": 32, "block_length": 16}),
        json!({"strategy": "saber", "gen_length": 24}),
        json!({"strategy": "random+top3", "gen_length": 24, "seed": 11}),
        json!({"strategy": "entropy+factor", "gen_length": 16, "guidance": 0.5}),
        json!({"strategy": "margin+threshold", "gen_length": 64, "temperature": 0.8, "seed": 5}),
        json!({"strategy": "dos+threshold", "gen_length": 20, "layer": "all", "defer_eos": true}),
        json!({"strategy": "llada", "gen_length": 32, "steps": 8, "temperature": 1.0, "seed": 2}),
    ];
    let question = |number| {
        format!(
            "Sara buys {number} pens for 3 dollars each. What is the cost?{}",
            " Show the steps.".repeat(number % 3)
        )
    };
    fields.into_iter().enumerate().map(|(number, fields)| (question(number + 2), fields)).collect()
}

fn content(answer: &Value) -> &str {
    answer["choices"][0]["message"]["content"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_the_same_together_as_alone() {
    same_as_alone(Limits::default(), vec![embedded()]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_the_same_on_several_replicas_and_all_work() {
    let passes: [Arc<AtomicUsize>; 3] = Default::default();
    let counting = |passes: &Arc<AtomicUsize>| {
        let passes = passes.clone();
        Odd::moody(move |_| {
            passes.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
    };
    same_as_alone(Limits { batch: 2, ..Limits::default() }, passes.iter().map(counting).collect()).await;
    assert!(passes.iter().all(|passes| passes.load(Ordering::Relaxed) > 0), "{passes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_at_a_busy_replica_is_done_by_another() {
    let (released, open) = (Arc::new((Mutex::new(false), Condvar::new())), Arc::new(AtomicUsize::new(0)));
    let busy = Odd::moody({
        let (released, open) = (released.clone(), open.clone());
        move |_| {
            open.store(1, Ordering::SeqCst);
            let (released, changed) = &*released;
            drop(changed.wait_while(released.lock().unwrap(), |released| !*released));
            Ok(())
        }
    });
    let limits = Limits { batch: 1, ..Limits::default() };
    let router = serve_replicas(vec![busy, embedded()], config(limits)).router();
    let request = |number: usize| {
        let body = chat(&format!("What is {number} + 1?"), &json!({"gen_length": 8, "strategy": "dos"}));
        let router = router.clone();
        tokio::spawn(async move { ask(&router, CHAT, body).await.status })
    };
    let mut requests: Vec<_> = (0..6).map(request).collect();
    // Whichever request the busy replica has begun waits for it; all others do not.
    let mut done = 0;
    while done < 5 || open.load(Ordering::SeqCst) == 0 {
        if open.load(Ordering::SeqCst) == 0 && done > 4 {
            requests.push(request(requests.len()));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        done = requests.iter().filter(|request| request.is_finished()).count();
    }
    assert!(requests.iter().filter(|request| !request.is_finished()).count() >= 1);
    until(&router, "lacuna_active_runs", |running| running == 1.0).await;
    *released.0.lock().unwrap() = true;
    released.1.notify_all();
    for status in join_all(requests).await {
        assert_eq!(status.unwrap(), StatusCode::OK);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_the_same_when_runs_are_set_aside_for_others() {
    same_as_alone(Limits { batch: 3, positions: 300, ..Limits::default() }, vec![embedded()]).await;
}

async fn same_as_alone(limits: Limits, replicas: Vec<Box<dyn Model>>) {
    let least = if replicas.len() == 1 { 1.2 } else { 1.0 };
    let router = serve_replicas(replicas, config(limits)).router();
    let mut model = embedded();
    let expected: Vec<_> = mixture()
        .into_iter()
        .map(|(question, fields)| {
            let (text, run) = alone(model.as_mut(), &question, &fields);
            (text, run.forwards(), run.rows_read(), run.trace().deltas.len())
        })
        .collect();
    // Some come later, so that ages differ as well.
    let requests = mixture().into_iter().enumerate().map(|(number, (question, fields))| {
        let router = &router;
        async move {
            tokio::time::sleep(Duration::from_millis(40 * (number as u64 % 4))).await;
            ask(router, CHAT, chat(&question, &fields)).await.json()
        }
    });
    let answers = join_all(requests).await;
    for ((answer, (text, nfe, rows, steps)), (_, fields)) in answers.iter().zip(&expected).zip(mixture()) {
        assert_eq!(content(answer), text, "{fields}");
        let computed = &answer["usage"]["lacuna"];
        assert_eq!((&computed["nfe"], &computed["steps"]), (&json!(nfe), &json!(steps)), "{fields}");
        assert_eq!(computed["rows_read"], *rows, "{fields}");
    }
    let shared = metric(&router, "lacuna_steps_total").await / metric(&router, "lacuna_forwards_total").await;
    assert!(shared >= least, "{shared} runs in a forward pass");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_refuses_and_says_when_to_come_again() {
    let limits = Limits { batch: 1, queue: 2, ..Limits::default() };
    let router = serve_with(Odd::slow(20), config(limits)).router();
    let body = chat(QUESTION, &json!({"gen_length": 16, "strategy": "dos"}));
    let busy = tokio::spawn({
        let (router, body) = (router.clone(), body.clone());
        async move { ask(&router, CHAT, body).await }
    });
    until(&router, "lacuna_active_runs", |runs| runs == 1.0).await;
    let waiting: Vec<_> = (0..2)
        .map(|_| {
            let (router, body) = (router.clone(), body.clone());
            tokio::spawn(async move { ask(&router, CHAT, body).await })
        })
        .collect();
    until(&router, "lacuna_queue_runs", |runs| runs == 2.0).await;
    let refused = ask(&router, CHAT, body.clone()).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    let seconds: u64 = refused.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=600).contains(&seconds));
    assert!(refused.complaint().contains(&format!("queue is full: ask again in {seconds} s")));
    // What could never be taken on is no matter of waiting.
    let never = json!({"prompt": vec!["x"; 4], "max_tokens": 8});
    let never = ask(&router, "/v1/completions", never).await;
    assert_eq!(never.status, StatusCode::BAD_REQUEST);
    assert!(never.complaint().contains("4 texts are asked for, but a request may ask for 3 at most"));
    let whole = content(&busy.await.unwrap().json()).to_string();
    for answer in waiting {
        assert_eq!(content(&answer.await.unwrap().json()), whole);
    }
    assert_eq!(ask(&router, CHAT, body).await.status, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_goes_away_costs_nothing_more() {
    let limits = Limits { batch: 1, ..Limits::default() };
    let forgotten = Arc::new(AtomicUsize::new(0));
    let router = serve_with(Odd::counting(10, forgotten.clone()), config(limits)).router();
    for path in [CHAT, "/v1/steps"] {
        let mut body = chat(QUESTION, &json!({"gen_length": 256, "strategy": "klass", "block_length": 1}));
        body["early_stop"] = false.into();
        if path == CHAT {
            body["stream"] = true.into();
        }
        let before = metric(&router, "lacuna_runs_cancelled_total").await;
        read_some(&router, post(path, &body), |text| text.contains("data: ")).await;
        until(&router, "lacuna_runs_cancelled_total", |runs| runs == before + 1.0).await;
        until(&router, "lacuna_active_runs", |runs| runs == 0.0).await;
    }
    assert_eq!(forgotten.load(Ordering::Relaxed), 2, "the model remembers nothing of them");
    // Without a stream, in the batch and in the queue.
    let body = chat(QUESTION, &json!({"gen_length": 256, "strategy": "dos", "early_stop": false}));
    let tasks: Vec<_> = (0..3)
        .map(|_| {
            let (router, body) = (router.clone(), body.clone());
            tokio::spawn(async move { ask(&router, CHAT, body).await })
        })
        .collect();
    until(&router, "lacuna_queue_runs", |runs| runs == 2.0).await;
    let before = metric(&router, "lacuna_runs_cancelled_total").await;
    tasks.iter().for_each(|task| task.abort());
    until(&router, "lacuna_runs_cancelled_total", |runs| runs == before + 3.0).await;
    until(&router, "lacuna_active_runs", |runs| runs == 0.0).await;
    assert_eq!(metric(&router, "lacuna_queue_runs").await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_does_not_read_waits_for_himself_alone() {
    let limits = Limits { batch: 1, ..Limits::default() };
    let router = serve_with(embedded(), config(limits)).router();
    let body = json!({"prompt": "x", "gen_length": 80, "strategy": "random", "early_stop": false});
    let unread = router.clone().oneshot(post("/v1/steps", &body)).await.unwrap();
    until(&router, "lacuna_steps_total", |steps| steps == 64.0).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(metric(&router, "lacuna_steps_total").await, 64.0);
    assert_eq!(ask(&router, CHAT, chat(QUESTION, &json!({"gen_length": 8}))).await.status, StatusCode::OK);
    let read = unread.into_body().collect().await.unwrap().to_bytes();
    let events = common::events(std::str::from_utf8(&read).unwrap());
    assert_eq!((events.len(), events.last().unwrap().0.as_str()), (82, "done"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_takes_too_long_is_ended() {
    let limits = Limits { timeout: Duration::from_millis(300), ..Limits::default() };
    let router = serve_with(Odd::slow(30), config(limits)).router();
    let mut body = chat(QUESTION, &json!({"gen_length": 128, "strategy": "dos", "early_stop": false}));
    let answer = ask(&router, CHAT, body.clone()).await;
    assert_eq!(answer.status, StatusCode::GATEWAY_TIMEOUT);
    assert!(answer.complaint().contains("longer than"));
    body["stream"] = true.into();
    let events = ask(&router, CHAT, body.clone()).await.events();
    assert_eq!(serde_json::from_str::<Value>(&events.last().unwrap().1).unwrap()["error"]["code"], "timeout");
    body.as_object_mut().unwrap().remove("stream");
    let events = ask(&router, "/v1/steps", body).await.events();
    assert_eq!(events.last().unwrap().0, "error");
    until(&router, "lacuna_active_runs", |runs| runs == 0.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_or_panicking_step_ends_only_its_own_request() {
    // Token 7 makes the model fail, token 8 makes it panic, both only after some steps.
    let seen = Arc::new(AtomicUsize::new(0));
    let count = seen.clone();
    let model = Odd::moody(move |tokens| {
        if tokens[0] == 7 || tokens[0] == 8 {
            count.fetch_add(1, Ordering::Relaxed);
        }
        match tokens[0] {
            7 if tokens.iter().filter(|&&token| token == 5).count() < 20 => {
                Err(lacuna::Error::NotFinite { position: 3 })
            }
            8 if tokens.iter().filter(|&&token| token == 5).count() < 20 => panic!("a test's panic"),
            _ => Ok(()),
        }
    });
    let router = serve_with(model, config(Limits::default())).router();
    let mut plain = embedded();
    let requests = mixture().into_iter().map(|(question, fields)| {
        let (router, mut body) = (&router, chat(&question, &fields));
        body["stream"] = true.into();
        async move {
            let chunks = ask(router, CHAT, body).await.chunks();
            chunks
                .iter()
                .map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().unwrap().to_string())
                .collect::<String>()
        }
    });
    let broken = [7, 8].into_iter().map(|token| {
        let router = &router;
        let body = json!({"prompt": [token, 20, 21, 22], "gen_length": 32, "strategy": "dos", "early_stop": false});
        async move { ask(router, "/v1/completions", body).await }
    });
    let (answers, failures) = tokio::join!(join_all(requests), join_all(broken));
    for (answer, (question, fields)) in answers.iter().zip(mixture()) {
        assert_eq!(*answer, alone(plain.as_mut(), &question, &fields).0, "{fields}");
    }
    assert_eq!(failures[0].status, StatusCode::BAD_REQUEST, "numbers overflow because of what was asked");
    assert!(failures[0].complaint().contains("not finite"));
    assert_eq!(failures[1].status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(!failures[1].complaint().contains("a test's panic"), "what broke is for the log");
    assert!(seen.load(Ordering::Relaxed) > 2, "both had begun");
    assert_eq!(metric(&router, "lacuna_runs_failed_total").await, 2.0);
    assert_eq!(common::get(&router, "/health").await.status, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_always_fails_is_told_to_whoever_watches_the_server() {
    let model = Odd::moody(|_| Err(lacuna::Error::Predictor("the device is gone".into())));
    let router = serve_with(model, config(Limits::default())).router();
    let body = chat(QUESTION, &json!({}));
    for _ in 0..3 {
        assert_eq!(ask(&router, CHAT, body.clone()).await.status, StatusCode::INTERNAL_SERVER_ERROR);
    }
    for path in ["/health", "/ready"] {
        let answer = common::get(&router, path).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(answer.complaint().contains("fails"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_huge_request_does_not_starve_small_ones() {
    let limits = Limits { batch: 4, positions: 1100, ..Limits::default() };
    let router = serve_with(embedded(), config(limits)).router();
    // Texts of a thousand positions each, one token a step.
    let huge =
        json!({"prompt": vec!["Tom has 3 boxes."; 3], "gen_length": 960, "strategy": "dos", "early_stop": false});
    let huge = tokio::spawn({
        let router = router.clone();
        async move { ask(&router, "/v1/completions", huge).await.status }
    });
    until(&router, "lacuna_queue_runs", |runs| runs == 2.0).await;
    let begun = Instant::now();
    for _ in 0..3 {
        let answer = ask(&router, CHAT, chat(QUESTION, &json!({"gen_length": 16}))).await;
        assert_eq!(answer.status, StatusCode::OK);
    }
    assert!(!huge.is_finished(), "the small ones came between: {:?}", begun.elapsed());
    huge.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_prompts_of_one_request_let_others_in_between() {
    let limits = Limits { batch: 2, ..Limits::default() };
    let router = serve_with(embedded(), config(limits)).router();
    let many = json!({"prompt": vec!["def add(a, b):"; 40], "gen_length": 8, "strategy": "dos", "early_stop": false});
    let many = tokio::spawn({
        let router = router.clone();
        async move { ask(&router, "/v1/completions", many).await }
    });
    until(&router, "lacuna_queue_runs", |runs| runs > 30.0).await;
    assert_eq!(ask(&router, CHAT, chat(QUESTION, &json!({"gen_length": 4}))).await.status, StatusCode::OK);
    assert!(!many.is_finished());
    let whole = many.await.unwrap().json();
    let choices = whole["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 40);
    assert!(choices.iter().all(|choice| choice["text"] == choices[0]["text"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_text_is_not_kept_waiting_by_more_long_ones_than_fit_into_a_step() {
    let router = common::server(config(Limits { batch: 4, ..Limits::default() })).router();
    let short = json!({"prompt": "x", "gen_length": 8, "strategy": "dos", "early_stop": false});
    let alone = ask(&router, "/v1/completions", short.clone()).await.json();
    let long = json!({"prompt": vec!["x"; 12], "gen_length": 150, "strategy": "dos", "early_stop": false});
    let long = tokio::spawn({
        let router = router.clone();
        async move { ask(&router, "/v1/completions", long).await }
    });
    until(&router, "lacuna_queue_runs", |runs| runs == 8.0).await;
    let before = metric(&router, "lacuna_forwards_total").await;
    let answer = ask(&router, "/v1/completions", short).await.json();
    let taken = metric(&router, "lacuna_forwards_total").await - before;
    assert_eq!(answer["choices"], alone["choices"]);
    // Its own eight, the one under way when it came, and those that the others are owed.
    assert!(taken <= 24.0, "{taken} forward passes for 8 steps");
    assert!(!long.is_finished());
    long.abort();
}
