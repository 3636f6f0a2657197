//! Request bodies, checked and brought into one form.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request as HttpRequest};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use lacuna::Token;
use lacuna_models::{Request, plain_json_error};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::tools::{FIELDS, Offer, PastCall, Tool, ToolChoice};
use super::{ApiError, fields, neutral};
use crate::service::Service;

/// The time that a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_STOPS: usize = 16;
const MAX_STOP_BYTES: usize = 256;
/// The most alternatives that OpenAI's completions have.
const MAX_LOGPROBS: usize = 5;

/// A JSON object.
pub(crate) struct Payload(pub(crate) Map<String, Value>);

impl FromRequest<Arc<Service>> for Payload {
    type Rejection = ApiError;

    async fn from_request(request: HttpRequest, service: &Arc<Service>) -> Result<Self, ApiError> {
        let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if essence != "application/json" && !(essence.starts_with("application/") && essence.ends_with("+json")) {
            return Err(ApiError::wrong_type());
        }
        let body = tokio::time::timeout(BODY_TIMEOUT, Bytes::from_request(request, service));
        let body = body.await.map_err(|_| ApiError::slow_body())?;
        let body = body.map_err(|rejection| match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => ApiError::too_large(service.body_bytes),
            _ => ApiError::bad(format!("the body cannot be read: {}", rejection.body_text())),
        })?;
        match serde_json::from_slice(&body) {
            Ok(Value::Object(members)) => Ok(Self(members)),
            Ok(_) => Err(ApiError::bad("the body must be a JSON object")),
            Err(error) => Err(ApiError::bad(format!("the body is not JSON: {error}"))),
        }
    }
}

/// A value of a type, or which field is wrong.
pub(crate) fn typed<T: DeserializeOwned>(value: Value) -> Result<T, ApiError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let message = error.into_inner().to_string();
        if let Some(rest) = message.strip_prefix("unknown field ") {
            let name = rest.split(", ").next().unwrap_or(rest).trim_matches('`');
            let why = format!("there is no field '{name}': /openapi.json lists the fields");
            return if path == "." { ApiError::bad(why) } else { ApiError::bad(why).at(path) };
        }
        let why = plain_json_error(&message);
        match (path.as_str(), why.strip_prefix("it is ")) {
            (".", _) => ApiError::bad(why),
            (_, Some(found)) => ApiError::bad(format!("{path} is {found}")).at(path),
            (_, None) => ApiError::bad(format!("{path}: {why}")).at(path),
        }
    })
}

/// Request body of `/v1/completions`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompletionBody {
    /// The model's name, as in /v1/models.
    model: Option<String>,
    /// Start of the text, given to the model as it is.
    prompt: Option<Prompt>,
    /// End of the text: a gap of max_tokens between prompt and suffix is filled.
    suffix: Option<String>,
    /// A text with gaps, each written <gap:N> for N tokens, or <gap> to have the length found; <draft>…</draft> encloses what a revision
    /// may change. It follows the prompt, if there is one.
    text: Option<String>,
    /// Upper bound on the tokens of the text. The canvas starts at the model's recommended length and grows while no end comes.
    #[schema(minimum = 1)]
    max_tokens: Option<usize>,
    /// Number of texts for each prompt.
    #[schema(minimum = 1)]
    n: Option<usize>,
    /// Draw this many texts for each prompt and return the n best, by the mean log probability of their tokens; n if not given.
    #[schema(minimum = 1)]
    best_of: Option<usize>,
    /// Strings that end the text.
    stop: Option<Stop>,
    /// Put the prompt before the text.
    echo: Option<bool>,
    /// Tell the log probability that each token had when it was decided, and this many of the most probable tokens there.
    #[schema(minimum = 0, maximum = 5)]
    logprobs: Option<usize>,
    /// Send the text as it becomes final.
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    /// Let gaps end the text instead of filling them to the end.
    allow_eos: Option<bool>,
    response_format: Option<ResponseFormat>,
}

/// Request body of `/v1/chat/completions`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChatBody {
    /// The model's name, as in /v1/models.
    model: Option<String>,
    /// The chat so far.
    #[schema(min_items = 1)]
    messages: Vec<Message>,
    /// The answer as a text with gaps, each written <gap:N> for N tokens, or <gap> to have the length found; <draft>…</draft> encloses
    /// what a revision may change.
    text: Option<String>,
    /// Upper bound on the tokens of the text. The canvas starts at the model's recommended length and grows while no end comes.
    #[schema(minimum = 1)]
    max_tokens: Option<usize>,
    /// The same as max_tokens.
    #[schema(minimum = 1)]
    max_completion_tokens: Option<usize>,
    /// Number of answers.
    #[schema(minimum = 1)]
    n: Option<usize>,
    /// Draw this many answers and return the n best, by the mean log probability of their tokens; n if not given.
    #[schema(minimum = 1)]
    best_of: Option<usize>,
    /// Strings that end the answer.
    stop: Option<Stop>,
    /// Tell the log probability that each token had when it was decided.
    logprobs: Option<bool>,
    /// Send the answer as it becomes final.
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    /// Let gaps end the text instead of filling them to the end.
    allow_eos: Option<bool>,
    response_format: Option<ResponseFormat>,
    /// Functions that the answer may call.
    tools: Option<Vec<Tool>>,
    /// Rule for calling a function; auto if not given.
    tool_choice: Option<ToolChoice>,
    /// An answer makes one call at most.
    #[serde(rename = "parallel_tool_calls")]
    _parallel_tool_calls: Option<bool>,
}

/// The form of a text.
#[derive(Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum ResponseFormat {
    /// Any text.
    Text,
    /// A JSON object.
    JsonObject,
    /// JSON that a schema accepts.
    JsonSchema {
        /// The schema.
        json_schema: NamedSchema,
    },
}

/// A JSON schema with a name.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NamedSchema {
    /// Ignored.
    #[serde(rename = "name")]
    _name: Option<String>,
    /// Ignored.
    #[serde(rename = "description")]
    _description: Option<String>,
    /// Any JSON object if not given.
    schema: Option<Map<String, Value>>,
    /// The text is valid in any case.
    #[serde(rename = "strict")]
    _strict: Option<bool>,
}

impl ResponseFormat {
    /// The request with this form of the text.
    fn apply(self, request: Request) -> Result<Request, ApiError> {
        Ok(match self {
            Self::Text => request,
            Self::JsonObject | Self::JsonSchema { json_schema: NamedSchema { schema: None, .. } } => {
                request.with("json", true)?
            }
            Self::JsonSchema { json_schema: NamedSchema { schema: Some(schema), .. } } => {
                request.with("json_schema", &*Value::Object(schema).to_string())?
            }
        })
    }
}

/// One prompt or several.
#[derive(Deserialize, ToSchema)]
#[serde(untagged, expecting = "a prompt is a text, a list of texts, a list of token ids, or a list of such lists")]
pub(crate) enum Prompt {
    /// A text.
    Text(String),
    /// Token ids.
    Tokens(Vec<Token>),
    /// Several texts.
    Texts(Vec<String>),
    /// Several lists of token ids.
    Lists(Vec<Vec<Token>>),
}

/// One string or several.
#[derive(Deserialize, ToSchema)]
#[serde(untagged, expecting = "a stop is a text or a list of texts")]
pub(crate) enum Stop {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

/// Options of a stream.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StreamOptions {
    /// Send the usage last.
    include_usage: Option<bool>,
    /// No padding is added in any case.
    #[serde(rename = "include_obfuscation")]
    _include_obfuscation: Option<bool>,
}

/// One turn of a chat.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Message {
    role: Role,
    content: Option<Content>,
    /// Functions that the model has called.
    tool_calls: Option<Vec<PastCall>>,
    /// Ignored: results follow their calls.
    #[serde(rename = "tool_call_id")]
    _tool_call_id: Option<String>,
    /// Ignored: this server writes no refusals.
    #[serde(rename = "refusal")]
    _refusal: Option<String>,
    /// Ignored: a client's own reading of the content.
    #[serde(rename = "parsed")]
    _parsed: Option<Map<String, Value>>,
    /// Ignored: templates have no place for it.
    #[serde(rename = "name")]
    _name: Option<String>,
    /// Ignored: it can only be text.
    #[serde(rename = "type")]
    _kind: Option<TextType>,
}

/// Speaker of a turn.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// Whoever sets the rules.
    System,
    /// Another word for system.
    Developer,
    /// Whoever asks.
    User,
    /// The model.
    Assistant,
    /// A function that the model has called.
    Tool,
}

/// The content of a message.
#[derive(Deserialize, ToSchema)]
#[serde(untagged, expecting = "a message's content is a text or a list of text parts; this server takes nothing else")]
pub(crate) enum Content {
    /// A text.
    Text(String),
    /// A text in parts.
    Parts(Vec<Part>),
}

/// A part of a text.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Part {
    #[serde(rename = "type")]
    _kind: TextType,
    text: String,
}

/// Only text.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum TextType {
    Text,
}

/// A request of either shape.
pub(crate) struct TextRequest {
    pub(crate) model: Option<String>,
    pub(crate) given: PromptInput,
    pub(crate) goal: Goal,
    pub(crate) request: Request,
    /// The bound on the text's tokens.
    pub(crate) max_tokens: Option<usize>,
    /// Number of texts for each prompt.
    pub(crate) n: usize,
    /// Number of samples drawn, of which the n best are returned.
    pub(crate) best_of: usize,
    pub(crate) stops: Vec<String>,
    pub(crate) echo: bool,
    pub(crate) logprobs: bool,
    pub(crate) stream: bool,
    pub(crate) include_usage: bool,
    pub(crate) allow_eos: bool,
    /// Functions that the answer may call.
    pub(crate) offer: Option<Offer>,
}

/// The prompt of a request.
pub(crate) enum PromptInput {
    Prompt(Prompt),
    Chat(Vec<(&'static str, String)>),
    Nothing,
}

impl PromptInput {
    /// The number of prompts.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Prompt(Prompt::Texts(texts)) => texts.len(),
            Self::Prompt(Prompt::Lists(lists)) => lists.len(),
            _ => 1,
        }
    }
}

/// The text to write.
pub(crate) enum Goal {
    Answer,
    /// The text between the prompt and this.
    Middle(String),
    /// A text with gaps.
    Gaps(String),
    /// An answer that is decided in part: the tokens behind the prompt, with masks.
    Canvas(Vec<Token>),
}

impl TextRequest {
    /// Reads the body of `/v1/completions`.
    pub(crate) fn completion(mut body: Map<String, Value>) -> Result<Self, ApiError> {
        neutral::take(&mut body)?;
        let mut request = fields::take(&mut body, &[])?;
        let body: CompletionBody = typed(Value::Object(body))?;
        if let Some(format) = body.response_format {
            request = format.apply(request)?;
        }
        let n = body.n.unwrap_or(1);
        if request.integer("top_logprobs").is_some_and(|count| count > 0) {
            return Err(ApiError::bad("top_logprobs is for chats: logprobs says how many here").at("top_logprobs"));
        }
        if let Some(count) = body.logprobs {
            if count > MAX_LOGPROBS {
                let why = format!("logprobs is {count}, but it must be at most {MAX_LOGPROBS}");
                return Err(ApiError::bad(why).at("logprobs"));
            }
            request = request.with("top_logprobs", count)?;
        }
        if body.logprobs.is_some() && body.echo == Some(true) {
            let why = "echo with logprobs asks for the probability of each prompt token given those before it, which a masked \
                       diffusion model does not have: score texts with /v1/score";
            return Err(ApiError::bad(why).at("logprobs"));
        }
        let given = body.prompt.map_or(PromptInput::Nothing, PromptInput::Prompt);
        let goal = match (body.suffix, body.text) {
            (None, None) if matches!(given, PromptInput::Nothing) => {
                return Err(ApiError::bad("there is no prompt: give one, or a text with gaps").at("prompt"));
            }
            (None, None) => Goal::Answer,
            (Some(suffix), None) => Goal::Middle(suffix),
            (None, Some(text)) => Goal::Gaps(text),
            (Some(_), Some(_)) => {
                return Err(ApiError::bad("leave out suffix: text says itself what follows its gaps").at("suffix"));
            }
        };
        Self {
            model: body.model,
            given,
            goal,
            request,
            max_tokens: most_tokens(&[("max_tokens", body.max_tokens)])?,
            n,
            best_of: body.best_of.unwrap_or(n),
            stops: stops(body.stop)?,
            echo: body.echo.unwrap_or(false),
            logprobs: body.logprobs.is_some(),
            stream: body.stream.unwrap_or(false),
            include_usage: body.stream_options.and_then(|options| options.include_usage).unwrap_or(false),
            allow_eos: body.allow_eos.unwrap_or(false),
            offer: None,
        }
        .checked()
    }

    /// Reads the body of `/v1/chat/completions`.
    pub(crate) fn chat(mut body: Map<String, Value>) -> Result<Self, ApiError> {
        neutral::take(&mut body)?;
        let mut request = fields::take(&mut body, &FIELDS)?;
        let body: ChatBody = typed(Value::Object(body))?;
        if let Some(format) = body.response_format {
            request = format.apply(request)?;
        }
        let n = body.n.unwrap_or(1);
        let logprobs = body.logprobs.unwrap_or(false);
        if !logprobs && request.integer("top_logprobs").is_some_and(|count| count > 0) {
            return Err(ApiError::bad("top_logprobs needs logprobs: true").at("top_logprobs"));
        }
        let offer = Offer::new(body.tools, body.tool_choice)?;
        if body.messages.is_empty() {
            return Err(ApiError::bad("a chat has at least one message").at("messages"));
        }
        let silent = |message: &Message| message.content.is_none() && message.tool_calls.is_none();
        if let Some(index) = body.messages.iter().position(silent) {
            let why = format!("messages[{index}] has no content");
            return Err(ApiError::bad(why).at(format!("messages[{index}].content")));
        }
        let lengths = [("max_tokens", body.max_tokens), ("max_completion_tokens", body.max_completion_tokens)];
        let mut messages: Vec<(&'static str, String)> = body.messages.into_iter().map(Message::pair).collect();
        if let Some(offer) = &offer {
            match messages.first_mut().filter(|(role, _)| *role == "system") {
                Some((_, content)) => *content = format!("{content}\n\n{}", offer.describe()),
                None => messages.insert(0, ("system", offer.describe())),
            }
        }
        Self {
            model: body.model,
            given: PromptInput::Chat(messages),
            goal: body.text.map_or(Goal::Answer, Goal::Gaps),
            request,
            max_tokens: most_tokens(&lengths)?,
            n,
            best_of: body.best_of.unwrap_or(n),
            stops: stops(body.stop)?,
            echo: false,
            logprobs,
            stream: body.stream.unwrap_or(false),
            include_usage: body.stream_options.and_then(|options| options.include_usage).unwrap_or(false),
            allow_eos: body.allow_eos.unwrap_or(false),
            offer,
        }
        .checked()
    }

    fn checked(self) -> Result<Self, ApiError> {
        if self.n == 0 {
            return Err(ApiError::bad("n is 0, but it must be 1 or more").at("n"));
        }
        if self.best_of < self.n {
            let why = format!("best_of is {}, but n asks for {} of them", self.best_of, self.n);
            return Err(ApiError::bad(why).at("best_of"));
        }
        if self.best_of > self.n && self.stream {
            let why = "best_of cannot be streamed: the best text is known only when all are finished";
            return Err(ApiError::bad(why).at("best_of"));
        }
        if self.best_of > self.n && matches!(self.goal, Goal::Gaps(_)) {
            return Err(ApiError::bad("best_of is for answers, not for texts with gaps").at("best_of"));
        }
        if self.allow_eos && matches!(self.goal, Goal::Answer) {
            return Err(ApiError::bad("allow_eos is for gaps: an answer may end anyway").at("allow_eos"));
        }
        if self.offer.is_some() && !matches!(self.goal, Goal::Answer) {
            return Err(ApiError::bad("tools are called by answers, not in texts with gaps").at("tools"));
        }
        if self.logprobs && self.request.get("draft").is_some() {
            let why = "logprobs are not available for a draft: leave out one of the two";
            return Err(ApiError::bad(why).at("logprobs"));
        }
        if self.logprobs && matches!(self.goal, Goal::Gaps(_)) {
            return Err(ApiError::bad("logprobs are available for answers, not for texts with gaps").at("logprobs"));
        }
        Ok(self)
    }
}

impl Message {
    /// The role, as templates name it, and the content.
    pub(crate) fn pair(self) -> (&'static str, String) {
        let role = match self.role {
            Role::System | Role::Developer => "system",
            // Not all templates know of tools: their results are given as messages of the user.
            Role::User | Role::Tool => "user",
            Role::Assistant => "assistant",
        };
        let said = match self.content {
            None => String::new(),
            Some(Content::Text(text)) => text,
            Some(Content::Parts(parts)) => parts.into_iter().map(|part| part.text).collect(),
        };
        let calls = self.tool_calls.iter().flatten().map(PastCall::written);
        let parts = std::iter::once(said).filter(|said| !said.is_empty()).chain(calls);
        (role, parts.collect::<Vec<_>>().join("\n"))
    }
}

/// The bound on a text's tokens, which goes by several names.
fn most_tokens(named: &[(&str, Option<usize>)]) -> Result<Option<usize>, ApiError> {
    let mut most = None;
    for (name, length) in named {
        let Some(length) = *length else { continue };
        if length == 0 {
            return Err(ApiError::bad(format!("{name} is 0, but it must be 1 or more")).at(*name));
        }
        if most.replace(length).is_some_and(|other| other != length) {
            return Err(ApiError::bad(format!("{name} contradicts another field for the same length")).at(*name));
        }
    }
    Ok(most)
}

fn stops(stop: Option<Stop>) -> Result<Vec<String>, ApiError> {
    let stops = match stop {
        None => Vec::new(),
        Some(Stop::One(stop)) => vec![stop],
        Some(Stop::Several(stops)) => stops,
    };
    let fits = stops.len() <= MAX_STOPS && stops.iter().all(|stop| (1..=MAX_STOP_BYTES).contains(&stop.len()));
    if !fits {
        let why = format!("stop takes up to {MAX_STOPS} strings of 1 to {MAX_STOP_BYTES} bytes");
        return Err(ApiError::bad(why).at("stop"));
    }
    Ok(stops)
}
