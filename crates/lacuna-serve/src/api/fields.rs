//! The fields of a request's body that are not typed one by one: how to decode, what OpenAI's clients send without effect
//! here, and what a masked diffusion model cannot do.

use lacuna_models::Request;
use serde_json::{Map, Value, json};

use super::ApiError;

/// A field that says how to decode.
pub(crate) struct Decoding {
    pub(crate) name: &'static str,
    kind: Kind,
    pub(crate) about: &'static str,
    /// The parts of a strategy that use it; empty if it goes with all.
    pub(crate) of: &'static [&'static str],
    /// What it is if it is not given and the model recommends nothing.
    pub(crate) usual: &'static str,
}

#[derive(Clone, Copy)]
enum Kind {
    Name,
    Count,
    Number,
    Bool,
    Layers,
    List,
    Family,
    Cache,
}

const fn field(
    name: &'static str,
    kind: Kind,
    of: &'static [&'static str],
    usual: &'static str,
    about: &'static str,
) -> Decoding {
    Decoding { name, kind, about, of, usual }
}

/// Every field of [`Request`], as the API describes it.
pub(crate) const DECODING: [Decoding; 27] = [
    field(
        "strategy",
        Kind::Name,
        &[],
        "dos+eb",
        "<order>[+<pace>][+<revision>] or a preset; /v1/strategies lists them",
    ),
    field("gen_length", Kind::Count, &[], "128", "how many tokens to generate; max_tokens means the same"),
    field("block_length", Kind::Count, &[], "one block", "decode in blocks of so many tokens, from left to right"),
    field(
        "layer",
        Kind::Layers,
        &["dos"],
        "the model's own",
        "the layers whose attention is averaged: 4, [2, 4], \"2-5\" or \"all\"",
    ),
    field("heads", Kind::List, &["dos"], "all", "the attention heads that are averaged"),
    field("steps", Kind::Count, &["schedule", "klass"], "one for each token", "steps for the whole text"),
    field("schedule", Kind::Family, &["schedule"], "llada", "how the tokens are spread over the steps"),
    field("eps", Kind::Number, &["schedule"], "0.001", "the last timestep of Dream's schedule"),
    field("gamma", Kind::Number, &["eb"], "0.01", "the entropy bound in nats"),
    field(
        "threshold",
        Kind::Number,
        &["threshold", "score-threshold", "draft"],
        "0.95; draft 0.6",
        "the confidence, or the order's score, to reach",
    ),
    field("threshold_back", Kind::Number, &["verify"], "0.9", "tokens with less support are reopened"),
    field("factor", Kind::Number, &["factor"], "1", "how much uncertainty all tokens of a step may have together"),
    field("conf_threshold", Kind::Number, &["klass"], "0.9", "the confidence to exceed"),
    field("kl_threshold", Kind::Number, &["klass"], "0.01", "the divergence from the step before to stay below"),
    field("history", Kind::Count, &["klass"], "2", "for how many steps it must stay below"),
    field("saber_n", Kind::Count, &["adaptive", "backtrack"], "2", "the least number of tokens in a step"),
    field("order_temperature", Kind::Number, &[], "0", "draws the order of positions instead of taking the best"),
    field(
        "temperature",
        Kind::Number,
        &[],
        "0",
        "draws tokens instead of taking the most probable; unlike OpenAI's, 0 if not given",
    ),
    field("top_p", Kind::Number, &[], "1", "draw only from the most probable tokens that together reach this"),
    field("top_k", Kind::Count, &[], "all", "draw only from this many tokens"),
    field("sampling", Kind::Family, &[], "the model's own", "whose meaning of temperature is meant"),
    field("guidance", Kind::Number, &[], "0", "classifier-free guidance; doubles the number of forwards"),
    field("suppress_eos", Kind::Bool, &[], "false", "never choose the end-of-text token"),
    field("defer_eos", Kind::Bool, &[], "false", "commit end-of-text and end-of-turn tokens last"),
    field("early_stop", Kind::Bool, &[], "true", "stop when everything before the first end of text is decided"),
    field(
        "cache",
        Kind::Cache,
        &[],
        "none",
        "what the steps of a block take from its first one instead of computing it again; faster, and not exact",
    ),
    field("seed", Kind::Count, &[], "0", "where random draws start from; choice i of n starts from seed + i"),
];

/// What OpenAI's clients may send and what changes nothing here.
pub(crate) const WITHOUT_EFFECT: [&str; 6] =
    ["user", "metadata", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "service_tier"];

/// A field of OpenAI's that cannot be honoured.
pub(crate) struct Refused {
    pub(crate) name: &'static str,
    why: &'static str,
}

const TOOLS: &str = "the models that this server runs do not call tools";
const ORDER: &str = "tokens are not chosen one after the other, so there are no earlier ones to penalize";
const FREE: &str = "the text cannot be held to a format; a text with gaps (the field text) can hold a frame";
const TEXT: &str = "this server writes text only";

/// What cannot be honoured. The value that asks for nothing is let pass: null, false, 0, "none", [], {}, or plain text.
pub(crate) const REFUSED: [Refused; 18] = [
    Refused { name: "logit_bias", why: "logits cannot be changed from outside" },
    Refused { name: "frequency_penalty", why: ORDER },
    Refused { name: "presence_penalty", why: ORDER },
    Refused { name: "tools", why: TOOLS },
    Refused { name: "tool_choice", why: TOOLS },
    Refused { name: "parallel_tool_calls", why: TOOLS },
    Refused { name: "functions", why: TOOLS },
    Refused { name: "function_call", why: TOOLS },
    Refused { name: "web_search_options", why: TOOLS },
    Refused { name: "response_format", why: FREE },
    Refused { name: "verbosity", why: FREE },
    Refused { name: "modalities", why: TEXT },
    Refused { name: "audio", why: TEXT },
    Refused { name: "prediction", why: "a predicted text is not used; a text with gaps (the field text) is" },
    Refused { name: "reasoning_effort", why: "how much is computed is set by strategy, steps and gamma" },
    Refused { name: "store", why: "this server stores nothing" },
    Refused { name: "top_logprobs", why: "of each position only the chosen token's probability is kept" },
    Refused { name: "moderation", why: "this server does not moderate" },
];

/// Takes out of a body what is not typed: what has no effect goes, what cannot be is refused, and how to decode is returned.
pub(crate) fn take(body: &mut Map<String, Value>) -> Result<Request, ApiError> {
    body.retain(|name, _| !WITHOUT_EFFECT.contains(&name.as_str()));
    for Refused { name, why } in REFUSED {
        if body.remove(name).is_some_and(|value| !asks_nothing(&value)) {
            return Err(ApiError::bad(format!("'{name}' is not possible here: {why}")).at(name));
        }
    }
    let mut decoding = Map::new();
    for Decoding { name, kind, .. } in DECODING {
        let Some(mut value) = body.remove(name) else { continue };
        if let (Kind::Layers, Value::String(text)) = (kind, &value) {
            let layers = text.parse::<lacuna_models::Layers>().map_err(|why| ApiError::bad(why).at(name))?;
            value = serde_json::to_value(layers).map_err(|error| ApiError::internal(error.to_string()))?;
        }
        // What truncates nothing is what is meant if nothing is said; clients send these as their defaults.
        let idle = match name {
            "top_p" => value.as_f64() == Some(1.0),
            "top_k" => value.as_f64() == Some(0.0),
            _ => value.is_null(),
        };
        if !idle {
            decoding.insert(name.into(), value);
        }
    }
    super::body::typed(Value::Object(decoding))
}

/// Whether a value asks for nothing.
fn asks_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(word) => word == "none",
        Value::Array(items) => items.is_empty() || items == &["text"],
        Value::Object(members) => members.is_empty() || *value == json!({"type": "text"}),
        Value::Bool(true) => false,
    }
}

impl Decoding {
    /// What values it takes, as JSON Schema.
    pub(crate) fn schema(&self) -> Value {
        let number = |kind: &str, least: u8| json!({"type": [kind, "null"], "minimum": least});
        let mut schema = match self.kind {
            Kind::Name => json!({"type": ["string", "null"], "maxLength": super::body::LONGEST_NAME}),
            Kind::Count => number("integer", u8::from(!matches!(self.name, "seed" | "top_k"))),
            Kind::Number => match self.name {
                "threshold" => json!({"type": ["number", "null"]}),
                _ => number("number", 0),
            },
            Kind::Bool => json!({"type": ["boolean", "null"]}),
            Kind::Layers => json!({"oneOf": [
                {"type": "integer", "minimum": 0},
                {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1},
                {"type": "string", "pattern": "^(all|[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*)$"},
                {"type": "null"},
            ]}),
            Kind::List => json!({"type": ["array", "null"], "items": {"type": "integer", "minimum": 0}}),
            Kind::Family => json!({"enum": ["llada", "dream", null]}),
            Kind::Cache => json!({"enum": ["none", "prefix", "dual", null]}),
        };
        let of = if self.of.is_empty() { String::new() } else { format!("{}: ", self.of.join(", ")) };
        schema["description"] = format!("{of}{} (usually {})", self.about, self.usual).into();
        schema
    }
}

impl Refused {
    /// What values it takes, as JSON Schema.
    pub(crate) fn schema(&self) -> Value {
        json!({
            "description": format!("Refused: {}. Only values that ask for nothing are taken.", self.why),
            "enum": [null, false, 0, "none", [], ["text"], {}, {"type": "text"}],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_a_request_is_described() {
        let request = serde_json::to_value(Request::default()).unwrap();
        let names: Vec<&str> = request.as_object().unwrap().keys().map(String::as_str).collect();
        let mut described: Vec<&str> = DECODING.iter().map(|field| field.name).collect();
        assert_eq!(
            {
                let mut names = names;
                names.sort_unstable();
                names
            },
            {
                described.sort_unstable();
                described
            }
        );
        let parts: Vec<&str> = lacuna::ORDERS.into_iter().chain(lacuna::PACES).chain(lacuna::REVISIONS).collect();
        assert!(DECODING.iter().flat_map(|field| field.of).all(|part| parts.contains(part)));
    }
}
