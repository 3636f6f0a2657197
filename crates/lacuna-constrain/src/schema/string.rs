use serde_json::{Map, Value};

use super::{Compiler, count, refuse};
use crate::{
    Refused,
    automaton::{Budget, Dfa, Expr, intersect},
    json, pattern,
};

/// Formats that the standard defines and that have no pattern here.
const REFUSED_FORMATS: &[&str] = &[
    "idn-email",
    "idn-hostname",
    "iri",
    "iri-reference",
    "json-pointer",
    "regex",
    "relative-json-pointer",
    "uri-reference",
    "uri-template",
];

impl Compiler<'_> {
    /// Strings that a schema accepts.
    pub(super) fn string(&mut self, schema: &Map<String, Value>, path: &str) -> Result<Expr, Refused> {
        if let Some(contents) = contents(schema, path, self.budget)? {
            return Ok(json::string_of(contents));
        }
        if self.string.is_none() {
            self.string = Some(json::any_string(self.budget)?);
        }
        Ok(self.string.clone().expect("made above"))
    }
}

/// The contents of strings that a schema accepts, each character written in one way; `None` where any will do.
pub(super) fn contents(schema: &Map<String, Value>, path: &str, budget: &Budget) -> Result<Option<Dfa>, Refused> {
    let limit = |keyword| match count(schema, keyword, path)? {
        Some(count) => match u32::try_from(count) {
            Ok(count) => Ok(Some(count)),
            Err(_) => refuse(path, format!("{keyword} is too large")),
        },
        None => Ok(None),
    };
    let (least, most) = (limit("minLength")?, limit("maxLength")?);
    let mut parts: Vec<Dfa> = Vec::new();
    match schema.get("pattern") {
        Some(Value::String(text)) => parts.push(inside(text, path, budget)?),
        Some(_) => return refuse(path, "pattern is not a text"),
        None => {}
    }
    match schema.get("format").and_then(Value::as_str) {
        Some(name) if REFUSED_FORMATS.contains(&name) => {
            return refuse(path, format!("format {name} is not supported"));
        }
        // The standard takes formats that it does not define for remarks.
        Some(name) => {
            if let Some(text) = format(name) {
                parts.push(inside(&text, path, budget)?);
            }
        }
        None => {}
    }
    if least.is_some() || most.is_some() {
        if most.is_some_and(|most| most < least.unwrap_or(0)) {
            return refuse(path, "maxLength is less than minLength");
        }
        parts.push(json::of_length(least.unwrap_or(0), most, budget)?);
    }
    let mut parts = parts.into_iter();
    let Some(first) = parts.next() else { return Ok(None) };
    let all = parts.try_fold(first, |all, part| intersect(&all, &part, budget))?;
    if all.is_empty() {
        return refuse(path, "no string is as long as it must be and matches its pattern or format");
    }
    Ok(Some(all))
}

fn inside(text: &str, path: &str, budget: &Budget) -> Result<Dfa, Refused> {
    pattern::inside_json(text, budget).or_else(|refused| refuse(path, refused))
}

/// The pattern of a format, or of the common part of it.
fn format(name: &str) -> Option<String> {
    const DATE: &str = "[1-9][0-9]{3}-((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])\
        |(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)";
    const TIME: &str = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?(Z|[+\-]([01][0-9]|2[0-3]):[0-5][0-9])";
    // Two hyphens in a row would call for the rules of international names.
    const LABEL: &str = "[A-Za-z0-9]{1,20}(-[A-Za-z0-9]{1,20})?";
    const BYTE: &str = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
    let body = match name {
        "date" => DATE.to_owned(),
        "time" => TIME.to_owned(),
        "date-time" => format!("{DATE}T{TIME}"),
        "duration" => "P([0-9]{1,4}W|[0-9]{1,4}D(T[0-9]{1,4}[HMS])?|T[0-9]{1,4}[HMS])".to_owned(),
        "uuid" => "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}".to_owned(),
        "email" => format!(r"[A-Za-z0-9_+\-]+(\.[A-Za-z0-9_+\-]+)*@({LABEL}\.)+[A-Za-z]{{2,10}}"),
        "hostname" => format!(r"{LABEL}(\.{LABEL}){{0,4}}"),
        "ipv4" => format!(r"{BYTE}(\.{BYTE}){{3}}"),
        "ipv6" => "([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}".to_owned(),
        "uri" => format!(r"https?://{LABEL}(\.{LABEL}){{0,4}}(:[0-9]{{1,4}})?(/[A-Za-z0-9._~\-]*)*"),
        _ => return None,
    };
    Some(format!("^({body})$"))
}
