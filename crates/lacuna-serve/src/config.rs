//! What an operator can set.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// How the server is to run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it listens; port 0 takes a free one.
    pub address: SocketAddr,
    /// What the model is called in requests and answers.
    pub model_name: String,
    /// Requests need one of these keys; none is needed if there are none.
    pub api_keys: Vec<ApiKey>,
    /// Pages of these origins may call the API.
    pub cors_origins: Vec<String>,
    /// Prompts that suit the model, for the page.
    pub examples: Vec<Example>,
    /// How much it takes on.
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            address: (Ipv4Addr::LOCALHOST, 8080).into(),
            model_name: "lacuna".into(),
            api_keys: Vec::new(),
            cors_origins: Vec::new(),
            examples: Vec::new(),
            limits: Limits::default(),
        }
    }
}

/// How much the server takes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many runs share a forward pass at most.
    pub batch: usize,
    /// How many positions a forward pass has at most; a single longer run still gets its own.
    pub positions: usize,
    /// How many runs may wait for their turn.
    pub queue: usize,
    /// How many runs one request may ask for: prompts times `n`.
    pub runs: usize,
    /// How many tokens one run may generate.
    pub gen_length: usize,
    /// How many bytes a request's body may have.
    pub body_bytes: usize,
    /// How long a request may take, waiting included.
    pub timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            batch: 16,
            positions: 8192,
            queue: 256,
            runs: 128,
            gen_length: 4096,
            body_bytes: 1 << 20,
            timeout: Duration::from_secs(600),
        }
    }
}

/// A secret that clients must know. It is never printed.
#[derive(Clone)]
pub struct ApiKey(String);

impl ApiKey {
    /// A key, if `text` can be one: printable ASCII without spaces.
    pub fn new(text: &str) -> Option<Self> {
        let usable = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        usable.then(|| Self(text.into()))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl std::fmt::Debug for ApiKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("ApiKey(hidden)")
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
