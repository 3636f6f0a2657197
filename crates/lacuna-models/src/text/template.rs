//! Chat templates, rendered as transformers renders them.

use std::collections::BTreeMap;

use minijinja::{ErrorKind, Value, context};

use super::bounds::Bounds;
use super::calendar::strftime_now;
use super::codec::parse;
use crate::checkpoint::Files;
use crate::{Error, Result};

pub(super) const CONFIG: &str = "tokenizer_config.json";
pub(super) const SEPARATE: &str = "chat_template.jinja";
pub(super) const SPECIALS: &str = "special_tokens_map.json";

/// A chat template and the special tokens it may mention.
#[derive(Debug)]
pub(super) struct Template {
    file: String,
    source: String,
    specials: BTreeMap<String, Value>,
}

impl Template {
    /// The template of a checkpoint, if it has one. A file of its own goes before the configuration, as in transformers.
    pub(super) fn load(files: &Files, config: &serde_json::Value) -> Result<Option<Self>> {
        let (file, source) = match files.read(SEPARATE)? {
            Some(source) => (SEPARATE, String::from_utf8_lossy(&source).into_owned()),
            None => match in_config(files, config)? {
                Some(source) => (CONFIG, source),
                None => return Ok(None),
            },
        };
        let mut specials = BTreeMap::new();
        if let Some(map) = files.read(SPECIALS)? {
            add_specials(&parse(files, SPECIALS, &map)?, &mut specials);
        }
        add_specials(config, &mut specials);
        Ok(Some(Self { file: files.label(file), source, specials }))
    }

    /// The text of a chat, up to where the answer begins.
    pub(super) fn render(&self, messages: &[(&str, &str)]) -> Result<String> {
        let message = |&(role, content): &(&str, &str)| context! { role => role, content => content };
        let mut variables = self.specials.clone();
        variables.insert("messages".to_string(), messages.iter().map(message).collect());
        variables.insert("add_generation_prompt".to_string(), Value::from(true));
        let written = messages.iter().map(|(role, content)| role.len() + content.len()).sum();
        let rendered =
            Bounds::of(messages.len(), written).render(&self.source, Value::from(variables), |environment| {
                environment.add_function("strftime_now", strftime_now);
                environment.add_function("raise_exception", raise_exception);
            });
        rendered.map_err(|reason| Error::Template { file: self.file.clone(), reason })
    }
}

/// Ends the rendering with a template's own words.
fn raise_exception(message: String) -> std::result::Result<Value, minijinja::Error> {
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
}

/// The configuration has one template, or several with names.
fn in_config(files: &Files, config: &serde_json::Value) -> Result<Option<String>> {
    use serde_json::Value as Json;
    let template = match config.get("chat_template") {
        Some(Json::Array(templates)) => {
            let default = templates.iter().find(|template| template.get("name").is_some_and(|name| name == "default"));
            default.map(|template| template.get("template").unwrap_or(&Json::Null))
        }
        other => other.filter(|template| !template.is_null()),
    };
    match template {
        None => Ok(None),
        Some(Json::String(template)) => Ok(Some(template.clone())),
        Some(_) => {
            let reason = "chat_template must be a string, or a list of templates with names".to_string();
            Err(Error::Template { file: files.label(CONFIG), reason })
        }
    }
}

/// Collects `bos_token` and its kin: strings, or objects with the string as `content`.
fn add_specials(source: &serde_json::Value, specials: &mut BTreeMap<String, Value>) {
    for (key, value) in source.as_object().into_iter().flatten().filter(|(key, _)| key.ends_with("_token")) {
        if let Some(token) = value.as_str().or_else(|| value.get("content")?.as_str()) {
            specials.insert(key.clone(), Value::from(token));
        }
    }
}
