//! Keyword arguments as a request.

use lacuna::catalogue::{Named, Value, parameters};
use lacuna_models::Request;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::errors::{kind, raise};

/// Names of options in other programs.
const ALIASES: [(&str, &str); 6] = [
    ("max_new_tokens", "max_tokens"),
    ("max_length", "max_tokens"),
    ("max_gen_toks", "max_tokens"),
    ("cfg_scale", "guidance"),
    ("remasking", "strategy"),
    ("order", "strategy"),
];

/// The names of all options, and what each is.
pub(crate) fn described() -> Vec<(&'static str, String)> {
    let described = |known: &Named| {
        let (parameter, users) = (known.parameter, known.users());
        let of = if users.is_empty() { String::new() } else { format!("{}: ", users.join(", ")) };
        (parameter.name, format!("{of}{}. It {}. Default: {}.", parameter.about, parameter.expected(), known.default()))
    };
    parameters().iter().map(described).collect()
}

/// The error for an option that does not exist.
fn unknown(py: Python<'_>, name: &str, names: &[&str]) -> PyErr {
    let alias = ALIASES.iter().find(|(other, _)| *other == name).map(|(_, own)| own.to_string());
    let near = || -> PyResult<Option<String>> {
        let matches = py.import("difflib")?.call_method1("get_close_matches", (name, names.to_vec(), 1, 0.7))?;
        Ok(matches.extract::<Vec<String>>()?.pop())
    };
    let advice = match alias.map_or_else(near, |own| Ok(Some(own))) {
        Ok(Some(near)) => format!("did you mean '{near}'?"),
        _ => format!("there are {}", names.join(", ")),
    };
    PyTypeError::new_err(format!("unknown option '{name}'; {advice}"))
}

/// The request that the keyword arguments make.
pub(crate) fn request(options: Option<&Bound<'_, PyDict>>) -> PyResult<Request> {
    let names: Vec<&str> = parameters().iter().map(|known| known.parameter.name).collect();
    let mut request = Request::default();
    for (name, given) in options.into_iter().flatten() {
        let name: String = name.extract()?;
        if !names.contains(&name.as_str()) {
            return Err(unknown(given.py(), &name, &names));
        }
        if !given.is_none() {
            request.0.set(&name, &value(&given, &name)?).map_err(raise)?;
        }
    }
    Ok(request)
}

fn value(given: &Bound<'_, PyAny>, name: &str) -> PyResult<Value> {
    if let Ok(flag) = given.extract::<bool>() {
        return Ok(Value::Flag(flag));
    }
    if let Ok(text) = given.cast::<PyString>() {
        return Ok(Value::Text(text.to_string()));
    }
    if let Ok(number) = given.extract::<u64>() {
        return Ok(Value::Integer(number));
    }
    if let Ok(number) = given.extract::<f64>() {
        return Ok(Value::Number(number));
    }
    // A schema, where the text of a file is expected.
    if given.is_instance_of::<PyDict>() {
        let json = given.py().import("json")?.call_method1("dumps", (given,))?;
        return Ok(Value::Text(json.extract()?));
    }
    let items: Option<Vec<Bound<'_, PyAny>>> =
        given.try_iter().ok().and_then(|items| items.collect::<PyResult<_>>().ok());
    let numbers = |items: &Vec<Bound<'_, PyAny>>| items.iter().map(|item| item.extract().ok()).collect::<Option<_>>();
    let texts = |items: &Vec<Bound<'_, PyAny>>| items.iter().map(|item| item.extract().ok()).collect::<Option<_>>();
    let list = items.and_then(|items| numbers(&items).map(Value::Integers).or_else(|| texts(&items).map(Value::Texts)));
    list.ok_or_else(|| {
        if given.is_callable() && name == "strategy" {
            return PyTypeError::new_err(
                "strategy must be a name: register a function with register_order or register_pace first",
            );
        }
        let kind = kind(given);
        PyTypeError::new_err(format!(
            "{name}: expected a number, a text, a bool, or a list of whole numbers or texts, got {kind}"
        ))
    })
}
