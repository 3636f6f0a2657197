//! JSON that others have written: its errors name the key and no Rust types.

use serde::Deserialize;

use crate::{Error, Result};

/// Reads a JSON file.
pub(crate) fn parse<'a, T: Deserialize<'a>>(file: &str, content: &'a [u8]) -> Result<T> {
    let mut deserializer = serde_json::Deserializer::from_slice(content);
    let parsed = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let error = error.into_inner();
        // An error of the parser has a line instead of a key.
        at_key(if error.is_data() { &path } else { "." }, &problem(&error))
    });
    let parsed = parsed.and_then(|value| deserializer.end().map(|()| value).map_err(|error| error.to_string()));
    parsed.map_err(|problem| Error::Json { file: file.to_string(), problem })
}

/// A problem with the value of a key.
fn at_key(path: &str, problem: &str) -> String {
    match (path, problem.strip_prefix("it is ")) {
        (".", _) => problem.to_string(),
        (_, Some(found)) => format!("{path} is {found}"),
        (_, None) => format!("{path}: {problem}"),
    }
}

/// The message of an error: of the parser with its line, of a value in plain words.
pub(crate) fn problem(error: &serde_json::Error) -> String {
    let message = error.to_string();
    if !error.is_data() {
        return message;
    }
    let place = format!(" at line {} column {}", error.line(), error.column());
    plain(message.strip_suffix(&place).unwrap_or(&message))
}

/// A deserializer's message in plain words: JSON's values and kinds instead of the types they did not fit.
pub fn plain(message: &str) -> String {
    if let Some(rest) = message.strip_prefix("missing field ") {
        return format!("the field '{}' is missing", rest.trim_matches('`'));
    }
    if let Some((variant, expected)) = split_expected(message, "unknown variant ") {
        let names: Vec<&str> = expected.trim_start_matches("one of ").split(['`', ',', ' ']).collect();
        let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty() && *name != "or").collect();
        return format!("'{}' is none of {}", variant.trim_matches('`'), names.join(", "));
    }
    if let Some((_, expected)) = split_expected(message, "invalid length ") {
        return format!("it is a list, but it must be {}", kind(expected));
    }
    let found = split_expected(message, "invalid type: ").or_else(|| split_expected(message, "invalid value: "));
    match found {
        Some((found, expected)) => format!("it is {}, but it must be {}", value(found), kind(expected)),
        None => message.to_string(),
    }
}

/// The value found and the kind expected.
fn split_expected<'a>(message: &'a str, start: &str) -> Option<(&'a str, &'a str)> {
    message.strip_prefix(start)?.split_once(", expected ")
}

/// A value as it stands in JSON.
fn value(found: &str) -> String {
    let quoted = |start: &str| found.strip_prefix(start).map(|rest| rest.trim_matches('`').to_string());
    let number = quoted("integer ").or_else(|| quoted("floating point "));
    if let Some(number) = number.or_else(|| quoted("boolean ")) {
        return number;
    }
    match found {
        "null" => "null".into(),
        "map" => "an object".into(),
        "sequence" => "a list".into(),
        _ => found.strip_prefix("string ").unwrap_or(found).into(),
    }
}

/// A type in JSON's terms.
fn kind(expected: &str) -> String {
    match expected {
        "usize" | "u64" | "u32" | "u16" | "u8" => "a whole number, 0 or more".into(),
        "isize" | "i64" | "i32" => "a whole number".into(),
        "f64" | "f32" => "a number".into(),
        "a string" | "string" => "a text".into(),
        "a boolean" => "true or false".into(),
        "a sequence" => "a list".into(),
        "a map" => "an object".into(),
        other if other.starts_with("struct ") => "an object".into(),
        other if other.starts_with("enum ") || other.starts_with("string or map") => {
            "one of the names that there are".into()
        }
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn no_type_of_the_program_is_named() {
        for (message, expected) in [
            ("invalid value: integer `-1`, expected usize", "it is -1, but it must be a whole number, 0 or more"),
            ("invalid type: floating point `1.5`, expected u64", "it is 1.5, but it must be a whole number, 0 or more"),
            ("invalid type: string \"two\", expected usize", "it is \"two\", but it must be a whole number, 0 or more"),
            ("invalid type: map, expected a boolean", "it is an object, but it must be true or false"),
            ("invalid type: null, expected struct Message", "it is null, but it must be an object"),
            ("unknown variant `tool`, expected one of `system`, `user`", "'tool' is none of system, user"),
            ("unknown variant `x`, expected `llada` or `dream`", "'x' is none of llada, dream"),
            ("missing field `messages`", "the field 'messages' is missing"),
            ("a prompt is a text", "a prompt is a text"),
        ] {
            assert_eq!(plain(message), expected);
        }
    }
}
