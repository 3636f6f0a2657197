//! The fields of a request's body that are not typed one by one: the parameters of the catalogue, what OpenAI's clients send without
//! effect here, and what a masked diffusion model cannot do.

use lacuna::catalogue::{Kind, Named, Parameter, Range, parameters};
use lacuna::{Error, MAX_STRATEGY_BYTES};
use lacuna_models::Request;
use serde_json::{Map, Value, json};

use super::ApiError;

/// Fields of OpenAI's clients that change nothing here.
pub(crate) const WITHOUT_EFFECT: [&str; 6] =
    ["user", "metadata", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "service_tier"];

/// A field of OpenAI's that cannot be honoured.
pub(crate) struct Refused {
    pub(crate) name: &'static str,
    why: &'static str,
}

const TOOLS: &str = "tools are for chats, as tools and tool_choice";
const ORDER: &str = "tokens are not chosen one after the other, so there are no earlier ones to penalize";
const TEXT: &str = "this server writes text only";

/// Fields that cannot be honoured. The neutral value is accepted: null, false, 0, "none", [], {}, or plain text.
pub(crate) const REFUSED: [Refused; 16] = [
    Refused { name: "logit_bias", why: "logits cannot be changed from outside" },
    Refused { name: "frequency_penalty", why: ORDER },
    Refused { name: "presence_penalty", why: ORDER },
    Refused { name: "tools", why: TOOLS },
    Refused { name: "tool_choice", why: TOOLS },
    Refused { name: "parallel_tool_calls", why: TOOLS },
    Refused { name: "functions", why: TOOLS },
    Refused { name: "function_call", why: TOOLS },
    Refused { name: "web_search_options", why: TOOLS },
    Refused { name: "verbosity", why: "the length of the text is set by gen_length and max_tokens" },
    Refused { name: "modalities", why: TEXT },
    Refused { name: "audio", why: TEXT },
    Refused { name: "prediction", why: "a predicted text is not used; a text with gaps (the field text) is" },
    Refused { name: "reasoning_effort", why: "how much is computed is set by strategy, steps and gamma" },
    Refused { name: "store", why: "this server stores nothing" },
    Refused { name: "moderation", why: "this server does not moderate" },
];

/// Takes out of a body what is not typed: what has no effect goes, what cannot be is refused, and the parameters are returned.
/// `typed` are fields that are refused elsewhere.
pub(crate) fn take(body: &mut Map<String, Value>, typed: &[&str]) -> Result<Request, ApiError> {
    body.retain(|name, _| !WITHOUT_EFFECT.contains(&name.as_str()));
    for Refused { name, why } in REFUSED.iter().filter(|field| !typed.contains(&field.name)) {
        if body.remove(*name).is_some_and(|value| !asks_nothing(&value)) {
            return Err(ApiError::bad(format!("'{name}' is not supported: {why}")).at(*name));
        }
    }
    let mut request = Request::default();
    for Named { parameter, .. } in untyped() {
        let given = [Some(parameter.name), parameter.alias].into_iter().flatten().find_map(|name| body.remove(name));
        let Some(value) = given else { continue };
        // Other servers' word for "all tokens".
        let neutral = value.is_null() || (parameter.name == "top_k" && value == json!(-1));
        if !neutral {
            let shown = value.to_string();
            // The text of a file that holds an object may be sent as the object.
            let object = parameter.kind == Kind::File && value.is_object();
            let value = if object { Ok(shown.as_str().into()) } else { serde_json::from_value(value) };
            let value = value.map_err(|_| Error::parameter(parameter.name, shown, parameter.expected()))?;
            request.0.set(parameter.name, &value)?;
        }
    }
    Ok(request)
}

/// Parameters that are typed fields of the bodies.
const TYPED: [&str; 1] = ["max_tokens"];

/// True if a value asks for nothing.
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

fn untyped() -> impl Iterator<Item = Named> {
    parameters().into_iter().filter(|known| !TYPED.contains(&known.parameter.name))
}

/// The parameters as fields, each with its JSON schema. Parts may have their own ranges: what one of them takes is allowed.
pub(crate) fn schemas() -> impl Iterator<Item = (String, Value)> {
    untyped().flat_map(|known| {
        let mut kinds: Vec<Value> = known.kinds().iter().map(schema_of).collect();
        let mut schema = if kinds.len() == 1 { kinds.remove(0) } else { json!({"anyOf": kinds}) };
        let users = known.users();
        let of = if users.is_empty() { String::new() } else { format!("{}: ", users.join(", ")) };
        schema["description"] = format!("{of}{} (default: {})", known.parameter.about, known.default()).into();
        let names = [Some(known.parameter.name), known.parameter.alias].into_iter().flatten();
        names.map(move |name| (name.to_string(), schema.clone()))
    })
}

fn schema_of(parameter: &Parameter) -> Value {
    match parameter.kind {
        Kind::Flag => json!({"type": ["boolean", "null"]}),
        Kind::Integer { least, most } => json!({"type": ["integer", "null"], "minimum": least, "maximum": most}),
        Kind::Limit => json!({"type": ["integer", "null"], "minimum": -1, "not": {"const": 0}}),
        Kind::Number(Range { least, least_included, most, most_included }) => {
            let mut schema = json!({"type": ["number", "null"]});
            if least.is_finite() {
                schema[if least_included { "minimum" } else { "exclusiveMinimum" }] = least.into();
            }
            if most.is_finite() {
                schema[if most_included { "maximum" } else { "exclusiveMaximum" }] = most.into();
            }
            schema
        }
        Kind::Choice(_) | Kind::Part(_) => {
            let words = parameter.choices().into_iter().map(Value::from).chain([Value::Null]);
            json!({"enum": words.collect::<Vec<_>>()})
        }
        Kind::Integers => {
            let items = json!({"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1, "uniqueItems": true});
            json!({"oneOf": [items, {"type": "integer", "minimum": 0}, {"type": "null"}]})
        }
        Kind::Layers => json!({"oneOf": [
            {"type": "integer", "minimum": 0},
            {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1, "uniqueItems": true},
            {"type": "string", "pattern": "^(all|[0-9]{1,4})$"},
            {"type": "null"},
        ]}),
        Kind::Text if parameter.name == "strategy" => {
            json!({"type": ["string", "null"], "maxLength": MAX_STRATEGY_BYTES})
        }
        Kind::Text => json!({"type": ["string", "null"]}),
        Kind::Texts => json!({"type": ["array", "null"], "items": {"type": "string"}, "minItems": 1}),
        Kind::File => json!({"type": ["string", "object", "null"]}),
    }
}

impl Refused {
    /// Its values as JSON Schema.
    pub(crate) fn schema(&self) -> Value {
        json!({
            "description": format!("Refused: {}. Only neutral values are accepted.", self.why),
            "enum": [null, false, 0, "none", [], ["text"], {}, {"type": "text"}],
        })
    }
}
