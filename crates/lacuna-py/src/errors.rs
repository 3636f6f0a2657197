//! Errors as Python's exceptions.

use lacuna_models as models;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyFileNotFoundError, PyOSError, PyValueError};
use pyo3::prelude::*;

create_exception!(lacunalm, Error, PyException, "An error of a model, a file or a device.");

/// The exception for an error: ValueError for what the caller can mend in the call, OSError for files that cannot be read,
/// [`Error`] for everything else.
pub(crate) fn raise(error: impl Into<lacuna::Error>) -> PyErr {
    let inner = match error.into() {
        lacuna::Error::Predictor(inner) => inner,
        error @ lacuna::Error::NotFinite { .. } => return Error::new_err(error.to_string()),
        error => return PyValueError::new_err(error.to_string()),
    };
    match inner.downcast::<PyErr>() {
        Ok(raised) => *raised,
        Err(inner) => match inner.downcast::<models::Error>() {
            Ok(error) => of_model(&error),
            Err(other) => Error::new_err(other.to_string()),
        },
    }
}

fn of_model(error: &models::Error) -> PyErr {
    let message = error.worded(|advice| match &advice.value {
        Some(value) => format!("{}={value:?}", advice.parameter),
        None => advice.parameter.to_string(),
    });
    match error {
        models::Error::NotADirectory { .. } | models::Error::MissingFile { .. } => {
            PyFileNotFoundError::new_err(message)
        }
        models::Error::Io { .. } => PyOSError::new_err(message),
        models::Error::Request(_) => PyValueError::new_err(message),
        _ => Error::new_err(message),
    }
}

/// Wraps an exception raised by a Python model, for its way through the core.
pub(crate) fn wrap(error: PyErr) -> lacuna::Error {
    lacuna::Error::Predictor(Box::new(error))
}

/// The name of a value's type, for messages.
pub(crate) fn kind(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "object".to_string(), |name| name.to_string())
}
