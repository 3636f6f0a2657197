//! A server with the embedded model, asked through its real router.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of this")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use futures_util::StreamExt;
use http_body_util::BodyExt;
use lacuna::{Belief, Description, Observation, Predictor, Row, Run, Token, View};
use lacuna_models::{Checkpoint, CpuPredictor, Memory, Model, Precision, Specials};
use lacuna_serve::{Config, Limits, Server};
use serde_json::{Value, json};
use tower::ServiceExt;

pub const QUESTION: &str = "Tom has 3 boxes with 12 apples each. He eats 5 apples. How many apples are left?";

/// A whole answer.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8(self.body.to_vec()).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The error's message, which every refusal has in OpenAI's shape.
    pub fn complaint(&self) -> String {
        let body = self.json();
        let error = &body["error"];
        assert!(error["type"].is_string() && error.get("param").is_some() && error.get("code").is_some(), "{body}");
        let message = error["message"].as_str().unwrap().to_string();
        assert!(!message.contains('\n'), "one line: {message}");
        message
    }

    /// The events of a stream: their names and data.
    pub fn events(&self) -> Vec<(String, String)> {
        assert_eq!(self.headers["content-type"], "text/event-stream");
        events(&self.text())
    }

    /// The data of an OpenAI stream, which must end properly.
    pub fn chunks(&self) -> Vec<Value> {
        let mut events = self.events();
        assert_eq!(events.pop().unwrap().1, "[DONE]");
        events.into_iter().map(|(_, data)| serde_json::from_str(&data).unwrap()).collect()
    }
}

/// Parses server-sent events.
pub fn events(stream: &str) -> Vec<(String, String)> {
    let field = |block: &str, name: &str| {
        let lines = block.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        lines.collect::<Vec<_>>().join("\n")
    };
    let blocks = stream.split("\n\n").filter(|block| block.contains("data: "));
    blocks.map(|block| (field(block, "event"), field(block, "data"))).collect()
}

pub fn embedded() -> Box<dyn Model> {
    Box::new(CpuPredictor::load(&Checkpoint::embedded().unwrap(), None).unwrap())
}

pub fn config(limits: Limits) -> Config {
    Config { model_name: "mini".into(), limits, ..Config::default() }
}

pub fn server(config: Config) -> Server {
    serve_with(embedded(), config)
}

pub fn serve_with(model: Box<dyn Model>, config: Config) -> Server {
    serve_replicas(vec![model], config)
}

pub fn serve_replicas(replicas: Vec<Box<dyn Model>>, config: Config) -> Server {
    Server::new(Checkpoint::embedded().unwrap(), replicas, config).unwrap()
}

/// A router over the embedded model with the usual limits.
pub fn router() -> Router {
    server(config(Limits::default())).router()
}

pub fn post(path: &str, body: &Value) -> Request<Body> {
    Request::post(path).header("content-type", "application/json").body(body.to_string().into()).unwrap()
}

pub async fn send(router: &Router, request: Request<Body>) -> Answer {
    let response = router.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    Answer { status: parts.status, headers: parts.headers, body: body.collect().await.unwrap().to_bytes() }
}

pub async fn ask(router: &Router, path: &str, body: Value) -> Answer {
    send(router, post(path, &body)).await
}

pub async fn get(router: &Router, path: &str) -> Answer {
    send(router, Request::get(path).body(Body::empty()).unwrap()).await
}

/// Begins a stream and reads until `enough` of it is there; dropping the rest is what a client does that goes away.
pub async fn read_some(router: &Router, request: Request<Body>, enough: impl Fn(&str) -> bool) -> String {
    let response = router.clone().oneshot(request).await.unwrap();
    let mut stream = response.into_body().into_data_stream();
    let mut text = String::new();
    while !enough(&text) {
        match stream.next().await {
            Some(bytes) => text.push_str(std::str::from_utf8(&bytes.unwrap()).unwrap()),
            None => break,
        }
    }
    text
}

/// A metric's value.
pub async fn metric(router: &Router, name: &str) -> f64 {
    let page = get(router, "/metrics").await.text();
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).map(str::to_string);
    line.unwrap_or_else(|| panic!("{name} is not in\n{page}")).parse().unwrap()
}

/// Waits until a metric is as it should be.
pub async fn until(router: &Router, name: &str, holds: impl Fn(f64) -> bool) {
    for _ in 0..3000 {
        if holds(metric(router, name).await) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{name} stays at {}", metric(router, name).await);
}

/// Answer of the engine alone to a chat, without a server.
pub fn alone(model: &mut dyn Model, content: &str, request: &Value) -> (String, Run) {
    let checkpoint = Checkpoint::embedded().unwrap();
    let request: lacuna_models::Request = serde_json::from_value(request.clone()).unwrap();
    let plan = request.plan(&checkpoint).unwrap();
    let text = checkpoint.text().unwrap();
    let prompt = text.chat(&[("user", content)]).unwrap();
    let mut run = plan.answer(&prompt, model.description()).unwrap();
    while !run.is_finished() {
        run.step(model).unwrap();
    }
    let visible =
        lacuna_models::Kind::Answer.visible(&run.canvas().tokens()[prompt.len()..], &checkpoint.ends()).to_vec();
    (text.decode(&visible, Specials::Skip).unwrap(), run)
}

/// A chat body with decoding fields.
pub fn chat(content: &str, fields: &Value) -> Value {
    let mut body = json!({"messages": [{"role": "user", "content": content}]});
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// Looks at a canvas before it is observed, and may refuse it.
type Mood = Box<dyn FnMut(&[Token]) -> lacuna::Result<()> + Send>;

/// A model with a will of its own.
pub struct Odd {
    inner: Box<dyn Model>,
    /// Minimum duration of a forward pass.
    pause: Duration,
    mood: Mood,
    /// Number of runs it was told to forget.
    forgotten: Arc<AtomicUsize>,
}

impl Odd {
    pub fn slow(milliseconds: u64) -> Box<dyn Model> {
        Self::counting(milliseconds, Arc::default())
    }

    pub fn counting(milliseconds: u64, forgotten: Arc<AtomicUsize>) -> Box<dyn Model> {
        let pause = Duration::from_millis(milliseconds);
        Box::new(Self { inner: embedded(), pause, mood: Box::new(|_| Ok(())), forgotten })
    }

    pub fn moody(mood: impl FnMut(&[Token]) -> lacuna::Result<()> + Send + 'static) -> Box<dyn Model> {
        let (pause, forgotten) = (Duration::ZERO, Arc::default());
        Box::new(Self { inner: embedded(), pause, mood: Box::new(mood), forgotten })
    }
}

impl Predictor for Odd {
    fn description(&self) -> &Description {
        self.inner.description()
    }

    fn observe(&mut self, views: &[View<'_>]) -> lacuna::Result<Vec<Observation>> {
        std::thread::sleep(self.pause);
        views.iter().try_for_each(|view| (self.mood)(view.tokens))?;
        self.inner.observe(views)
    }

    fn read(&mut self, rows: &[Row<'_>]) -> lacuna::Result<Vec<Belief>> {
        self.inner.read(rows)
    }

    fn forget(&mut self, run: u64) {
        self.forgotten.fetch_add(1, Ordering::Relaxed);
        self.inner.forget(run);
    }
}

impl Model for Odd {
    fn device(&self) -> String {
        self.inner.device()
    }

    fn precision(&self) -> Precision {
        self.inner.precision()
    }

    fn memory(&self, length: usize) -> Memory {
        self.inner.memory(length)
    }

    fn ceiling_gflops(&mut self) -> lacuna_models::Result<f64> {
        self.inner.ceiling_gflops()
    }

    fn logits_at(&mut self, view: usize, positions: Option<&[usize]>) -> lacuna_models::Result<Vec<Vec<f32>>> {
        self.inner.logits_at(view, positions)
    }
}
