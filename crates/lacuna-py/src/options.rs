//! Keyword arguments as a request.

use lacuna_models::{Layers, Request};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString};
use serde_json::{Map, Number, Value};

/// The names of all options.
pub(crate) fn names() -> Vec<String> {
    match serde_json::to_value(Request::default()) {
        Ok(Value::Object(fields)) => fields.into_iter().map(|(name, _)| name).collect(),
        _ => unreachable!("a request is an object"),
    }
}

/// What the keyword arguments ask for.
pub(crate) fn request(options: Option<&Bound<'_, PyDict>>) -> PyResult<Request> {
    let names = names();
    let mut fields = Map::new();
    for (name, given) in options.into_iter().flatten() {
        let name: String = name.extract()?;
        if !names.contains(&name) {
            return Err(PyTypeError::new_err(format!("there is no option '{name}'; there are {}", names.join(", "))));
        }
        let wrong = |why: String| PyValueError::new_err(format!("{name}: {why}"));
        let mut value = value(&given).map_err(wrong)?;
        if let ("layer", Value::String(text)) = (name.as_str(), &value) {
            let layers: Layers = text.parse().map_err(wrong)?;
            value = serde_json::to_value(layers).map_err(|error| wrong(error.to_string()))?;
        }
        if !value.is_null() {
            // Each is read by itself first, so that a complaint can say which one it is about.
            read(Map::from_iter([(name.clone(), value.clone())])).map_err(wrong)?;
            fields.insert(name, value);
        }
    }
    read(fields).map_err(PyValueError::new_err)
}

fn read(fields: Map<String, Value>) -> Result<Request, String> {
    const WORDS: [(&str, &str); 4] = [
        ("expected usize", "expected a whole number, 0 or more"),
        ("expected u64", "expected a whole number, 0 or more"),
        ("expected f64", "expected a number"),
        ("expected f32", "expected a number"),
    ];
    serde_json::from_value(Value::Object(fields)).map_err(|error| {
        WORDS.iter().fold(error.to_string(), |message, (technical, plain)| message.replace(technical, plain))
    })
}

fn value(given: &Bound<'_, PyAny>) -> Result<Value, String> {
    if given.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(flag) = given.cast::<PyBool>() {
        return Ok(flag.is_true().into());
    }
    if let Ok(text) = given.cast::<PyString>() {
        return Ok(text.to_string().into());
    }
    if let Ok(number) = given.extract::<i64>() {
        return Ok(number.into());
    }
    if let Ok(number) = given.extract::<u64>() {
        return Ok(number.into());
    }
    if let Ok(number) = given.extract::<f64>() {
        return Number::from_f64(number).map(Value::Number).ok_or_else(|| format!("{number} is not a finite number"));
    }
    match given.try_iter() {
        Ok(items) => items.map(|item| value(&item.map_err(|error| error.to_string())?)).collect(),
        Err(_) => Err(format!("a {} says nothing here", given.get_type())),
    }
}
