//! The operator's settings.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::ApiKey;

/// The settings of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// The address to listen on; port 0 takes a free one.
    pub address: SocketAddr,
    /// The model's name in requests and answers.
    pub model_name: String,
    /// Requests need one of these keys; none is needed if there are none.
    pub api_keys: Vec<ApiKey>,
    /// Pages of these origins may call the API.
    pub cors_origins: Vec<String>,
    /// Names that a server without keys on a loopback address may be called by, besides localhost.
    pub allowed_hosts: Vec<String>,
    /// Prompts that suit the model, for the page.
    pub examples: Vec<Example>,
    /// Its limits.
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            address: (Ipv4Addr::LOCALHOST, 8080).into(),
            model_name: "lacuna".into(),
            api_keys: Vec::new(),
            cors_origins: Vec::new(),
            allowed_hosts: Vec::new(),
            examples: Vec::new(),
            limits: Limits::default(),
        }
    }
}

/// The limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most runs in a forward pass.
    pub batch: usize,
    /// The most positions in a forward pass; a single longer run still gets its own.
    pub positions: usize,
    /// The most runs taken on beyond a batch. All that are taken on share the model's time.
    pub queue: usize,
    /// The most runs of one request: prompts times `n`.
    pub runs: usize,
    /// The most tokens that one run may generate.
    pub gen_length: usize,
    /// The most bytes of a request's body; as the model's context allows if this is not set.
    pub body_bytes: Option<usize>,
    /// The most open connections. When there are more, those are closed that have been idle longest.
    pub connections: usize,
    /// The time that a request may take, preparation and waiting included.
    pub timeout: Duration,
    /// The most bytes of prompts' keys and values that are kept for later requests (block-causal models).
    pub prompt_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            batch: 16,
            positions: 8192,
            queue: 256,
            runs: 128,
            gen_length: 4096,
            body_bytes: None,
            connections: 1024,
            timeout: Duration::from_secs(600),
            prompt_bytes: 1 << 30,
        }
    }
}

impl Limits {
    /// The most runs that so many replicas take on at a time.
    pub(crate) fn capacity(&self, replicas: usize) -> usize {
        self.batch.saturating_mul(replicas).saturating_add(self.queue)
    }
}

/// Something to try on the page.
#[derive(Clone, Debug, PartialEq, serde::Serialize, utoipa::ToSchema)]
pub struct Example {
    /// In a few words.
    pub title: String,
    /// A message to answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// A text with gaps to fill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl Example {
    /// Examples for the model that is part of the program.
    pub fn embedded() -> Vec<Self> {
        let ask = |title: &str, prompt: &str| Self { title: title.into(), prompt: Some(prompt.into()), text: None };
        let fill = |title: &str, prompt: &str, text: &str| Self { text: Some(text.into()), ..ask(title, prompt) };
        vec![
            ask("Apples", "Tom has 3 boxes with 12 apples each. He eats 5 apples. How many apples are left?"),
            ask(
                "Pens",
                "Sara buys 4 packs of 6 pens and gives 9 pens to her brother. How many pens does she have now?",
            ),
            ask("A function", "Write a function add(a, b) that returns the sum."),
            fill("A gap", "Sara has 24 pens and gives 9 away. How many are left?", "Sara still has <gap:5> = 15 pens."),
        ]
    }
}
