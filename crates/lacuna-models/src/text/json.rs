//! The filter `tojson`, as transformers defines it: Python's `json.dumps` without escapes for HTML or beyond ASCII.

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};

/// The filter. Of Python's arguments it takes `indent`.
pub(super) fn to_json(value: &Value, arguments: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = arguments.get("indent")?;
    arguments.assert_all_used()?;
    let mut output = String::new();
    write(value, indent, 0, &mut output)?;
    Ok(output)
}

fn write(value: &Value, indent: Option<usize>, depth: usize, output: &mut String) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Undefined | ValueKind::None => output.push_str("null"),
        ValueKind::Bool => output.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => output.push_str(&value.to_string()),
        ValueKind::String => output.push_str(&quote(&value.to_string())),
        ValueKind::Seq | ValueKind::Iterable => {
            list(value.try_iter()?, ['[', ']'], indent, depth, output, |item, output| {
                write(&item, indent, depth + 1, output)
            })?;
        }
        ValueKind::Map => {
            list(value.try_iter()?, ['{', '}'], indent, depth, output, |key, output| {
                output.push_str(&quote(&key.to_string()));
                output.push_str(": ");
                write(&value.get_item(&key)?, indent, depth + 1, output)
            })?;
        }
        kind => return Err(Error::new(ErrorKind::BadSerialization, format!("tojson cannot write a {kind}"))),
    }
    Ok(())
}

fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn list(
    items: impl Iterator<Item = Value>,
    [open, close]: [char; 2],
    indent: Option<usize>,
    depth: usize,
    output: &mut String,
    mut write: impl FnMut(Value, &mut String) -> Result<(), Error>,
) -> Result<(), Error> {
    let line = |depth: usize| indent.map(|indent| format!("\n{}", " ".repeat(indent * depth)));
    output.push(open);
    let mut empty = true;
    for item in items {
        match (line(depth + 1), empty) {
            (Some(line), true) => output.push_str(&line),
            (Some(line), false) => output.push_str(&format!(",{line}")),
            (None, true) => {}
            (None, false) => output.push_str(", "),
        }
        empty = false;
        write(item, output)?;
    }
    if let (Some(line), false) = (line(depth), empty) {
        output.push_str(&line);
    }
    output.push(close);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use minijinja::{Environment, context};

    #[test]
    fn json_is_written_as_python_writes_it() {
        let mut environment = Environment::new();
        environment.add_filter("tojson", to_json);
        let render = |template: &str| {
            let value =
                context! { a => vec![1, 2], b => "<é\"", c => Option::<i32>::None, d => true, e => Vec::<i32>::new() };
            environment.render_str(template, context! { value }).unwrap()
        };
        assert_eq!(render("{{ value | tojson }}"), r#"{"a": [1, 2], "b": "<é\"", "c": null, "d": true, "e": []}"#);
        assert_eq!(render("{{ value.a | tojson(indent=2) }}"), "[\n  1,\n  2\n]");
    }
}
