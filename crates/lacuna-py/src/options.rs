//! Keyword arguments as a request.

use lacuna::catalogue::{Value, parameters};
use lacuna_models::Request;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString};

use crate::errors::raise;

/// The names of all options.
pub(crate) fn names() -> Vec<&'static str> {
    parameters().iter().map(|known| known.parameter.name).collect()
}

/// The request that the keyword arguments make.
pub(crate) fn request(options: Option<&Bound<'_, PyDict>>) -> PyResult<Request> {
    let names = names();
    let mut request = Request::default();
    for (name, given) in options.into_iter().flatten() {
        let name: String = name.extract()?;
        if !names.contains(&name.as_str()) {
            return Err(PyTypeError::new_err(format!("there is no option '{name}'; there are {}", names.join(", "))));
        }
        if !given.is_none() {
            request.0.set(&name, &value(&given, &name)?).map_err(raise)?;
        }
    }
    Ok(request)
}

fn value(given: &Bound<'_, PyAny>, name: &str) -> PyResult<Value> {
    if let Ok(flag) = given.cast::<PyBool>() {
        return Ok(Value::Flag(flag.is_true()));
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
    let numbers = given
        .try_iter()
        .ok()
        .and_then(|items| items.map(|item| item.ok()?.extract::<u64>().ok()).collect::<Option<Vec<u64>>>());
    numbers.map(Value::Integers).ok_or_else(|| {
        let kind = given.get_type().name().map_or_else(|_| "object".to_string(), |name| name.to_string());
        PyTypeError::new_err(format!(
            "{name}: expected a number, a text, a bool or a list of whole numbers, got {kind}"
        ))
    })
}
