//! The description of the API at `/openapi.json`.

use lacuna::catalogue::{PRESETS, Section, parts};
use serde_json::{Map, Value, json};
use utoipa::OpenApi;

use super::body::{ChatBody, CompletionBody};
use super::fields::{REFUSED, WITHOUT_EFFECT, schemas};
use super::neutral::NEUTRAL;
use super::{chat, completions, models, operations, probe, score, steps, strategies, tokenize};
use crate::service::Service;

const EVENTS: &str = "text/event-stream";

#[derive(OpenApi)]
#[openapi(
    info(
        title = "lacuna",
        description = "OpenAI's API over a masked diffusion language model, and every decoding step as it happens.",
    ),
    paths(
        completions::completions,
        chat::chat,
        models::models,
        models::model,
        probe::probe,
        score::score,
        steps::steps,
        strategies::strategies,
        operations::health,
        operations::ready,
        operations::metrics,
        operations::version,
        tokenize::tokenize,
        tokenize::detokenize,
    ),
    components(schemas(
        super::error::ErrorBody,
        CompletionBody,
        ChatBody,
        chat::ChatChunk,
        steps::StartEvent,
        steps::StepEvent,
        steps::WatchField,
        probe::ProbeBody,
        score::ScoreBody,
    ))
)]
struct Description;

/// Errors of any request, and those of requests with a body.
const ERRORS: [(&str, &str); 6] = [
    ("401", "The API key is missing or wrong"),
    ("403", "The Host header does not name this machine"),
    ("404", "There is no such model"),
    ("500", "Something broke"),
    ("503", "The server is shutting down, or its model fails"),
    ("400", "The request cannot be honoured; the message says why"),
];
const BODY_ERRORS: [(&str, &str); 5] = [
    ("408", "The body did not arrive in time"),
    ("413", "The body is too large"),
    ("415", "The body is not JSON"),
    ("429", "The queue is full, or a limit of the key is reached; ask again after Retry-After seconds"),
    ("504", "It took longer than the server allows"),
];

/// The whole description. What depends on the model, and bodies and errors, which are alike everywhere, are written into it
/// here.
pub(crate) fn describe(service: &Service) -> Value {
    let mut api = serde_json::to_value(Description::openapi()).expect("a description is JSON");
    let schemas = &mut api["components"]["schemas"];
    for name in ["CompletionBody", "ChatBody"] {
        complete(&mut schemas[name], service);
        let mut watched = schemas[name].clone();
        watched["properties"]["watch"] =
            json!({"oneOf": [{"$ref": "#/components/schemas/WatchField"}, {"type": "null"}]});
        watched["properties"]["canvas"] = json!({
            "type": ["array", "null"], "items": {"type": "integer", "minimum": 0},
            "description": "The tokens behind the prompt, with the mask token for open slots",
        });
        schemas[format!("Watched{name}")] = watched;
    }
    schemas["DoneEvent"] = json!({
        "type": "object",
        "description": "What `lacuna generate --format json` prints; `lacuna replay` shows it",
        "required": ["id", "text", "tokens", "nfe", "rows_read", "rows_computed", "steps", "kind", "strategy", "prompt_tokens", "seconds",
            "tokens_per_second", "canvas", "mask_token", "model", "usage", "finish_reason"],
    });
    let paths = &mut api["paths"];
    paths["/v1/completions"]["post"]["responses"]["200"]["content"][EVENTS]["schema"] = unnamed("Completion");
    paths["/v1/chat/completions"]["post"]["responses"]["200"]["content"][EVENTS]["schema"] = unnamed("ChatChunk");
    let steps = &mut paths["/v1/steps"]["post"];
    steps["responses"]["200"]["content"][EVENTS]["schema"] = json!({"oneOf": [
        named("start", "StartEvent"), named("step", "StepEvent"), named("done", "DoneEvent"), named("error", "ErrorBody"),
    ]});
    steps["requestBody"]["content"]["application/json"]["schema"] = json!({"anyOf": [
        {"$ref": "#/components/schemas/WatchedCompletionBody"},
        {"$ref": "#/components/schemas/WatchedChatBody"},
    ]});
    let keyed = !service.keys.is_empty();
    for (path, methods) in paths.as_object_mut().into_iter().flatten() {
        for (method, operation) in methods.as_object_mut().into_iter().flatten() {
            let posted = if method == "post" { &BODY_ERRORS[..] } else { &[] };
            for (status, about) in ERRORS.iter().chain(posted) {
                operation["responses"][*status] = json!({
                    "description": about,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorBody"}}},
                });
            }
            if keyed && (path.starts_with("/v1/") || path.ends_with("tokenize")) {
                operation["security"] = json!([{"key": []}]);
            }
        }
    }
    if keyed {
        api["components"]["securitySchemes"] = json!({"key": {"type": "http", "scheme": "bearer"}});
    }
    api
}

/// Events without a name: JSON, and at last the word [DONE].
fn unnamed(schema: &str) -> Value {
    json!({"type": "object", "required": ["data"], "properties": {"data": {
        "type": "string",
        "description": format!("{schema} as JSON, an ErrorBody if something breaks, and at last [DONE]"),
    }}})
}

/// Events of one name.
fn named(event: &str, schema: &str) -> Value {
    json!({"type": "object", "required": ["event", "data"], "properties": {
        "event": {"const": event},
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": {"$ref": format!("#/components/schemas/{schema}")},
        },
    }})
}

/// Adds the fields that are not typed one by one, and what only this server's model and limits say.
fn complete(schema: &mut Value, service: &Service) {
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none).clone();
    let decoding = schemas();
    let typed: Vec<String> = properties.keys().cloned().collect();
    let refused = REFUSED.iter().filter(|field| !typed.iter().any(|name| name == field.name));
    let refused = refused.map(|field| (field.name.to_string(), field.schema()));
    let idle = WITHOUT_EFFECT.iter().map(|name| (name.to_string(), json!({"description": "Has no effect."})));
    let neutral = NEUTRAL.iter().map(|field| (field.name.to_string(), field.schema()));
    schema["properties"] = properties.into_iter().chain(decoding).chain(refused).chain(idle).chain(neutral).collect();
    schema["additionalProperties"] = false.into();
    let properties = &mut schema["properties"];
    properties["model"]["enum"] = json!([service.config.model_name, null]);
    properties["strategy"]["pattern"] = strategy_pattern().into();
    properties["text"]["pattern"] = "<gap:[1-9][0-9]*>".into();
    for (field, most) in [
        ("gen_length", service.config.limits.gen_length),
        ("max_tokens", service.config.limits.gen_length),
        ("max_completion_tokens", service.config.limits.gen_length),
        ("n", service.config.limits.runs),
        ("best_of", service.config.limits.runs),
    ] {
        if let Some(field) = properties.get_mut(field) {
            field["maximum"] = most.into();
        }
    }
    if properties.get("prompt").is_some() {
        schema["anyOf"] = json!([{"required": ["prompt"]}, {"required": ["text"]}]);
    }
}

/// Pattern of a strategy's name.
fn strategy_pattern() -> String {
    let names = |section| {
        let name = |name: &str| if name == "top1" { "top[1-9][0-9]*".to_string() } else { name.replace('.', r"\.") };
        parts(section).iter().map(|part| name(&part.name)).collect::<Vec<_>>().join("|")
    };
    let (orders, paces, revisions) = (names(Section::Order), names(Section::Pace), names(Section::Revision));
    let presets = PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>().join("|");
    format!(r"^(({orders})(\+({paces}))?(\+({revisions}))?|{presets})$")
}
