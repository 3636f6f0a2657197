//! Prompts, as Python gives them.

use lacuna::Token;
use lacuna_models::Checkpoint;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PySequence, PyString};

use crate::arrays::tokens;
use crate::errors::{kind, raise};

/// Treatment of a prompt on its way to the model.
#[derive(Clone, Copy)]
pub(crate) struct PromptStyle<'a> {
    /// A system message to put before it.
    pub(crate) system: Option<&'a str>,
    /// True if it stays without the chat template.
    pub(crate) raw: bool,
}

impl<'a> PromptStyle<'a> {
    pub(crate) fn new(system: Option<&'a str>, raw: bool) -> PyResult<Self> {
        if raw && system.is_some() {
            return Err(PyValueError::new_err(
                "raw leaves out the chat template, which the system message needs: give one of the two",
            ));
        }
        Ok(Self { system, raw })
    }

    /// The tokens of a text, of a chat, or those given themselves.
    pub(crate) fn encode(&self, given: &Bound<'_, PyAny>, checkpoint: &Checkpoint) -> PyResult<Vec<Token>> {
        let Self { system, raw } = *self;
        if let Ok(text) = given.cast::<PyString>() {
            return checkpoint.encode_prompt(&text.to_cow()?, system, raw).map_err(raise);
        }
        if system.is_some() {
            return Err(PyValueError::new_err("system goes with a prompt that is text: put it into the messages"));
        }
        let Some(messages) = messages(given)? else { return tokens(given) };
        if raw {
            return Err(PyValueError::new_err(
                "raw leaves out the chat template, which messages need: give one of the two",
            ));
        }
        let pairs: Vec<(&str, &str)> = messages.iter().map(|(role, content)| (&role[..], &content[..])).collect();
        checkpoint.text().and_then(|text| text.chat(&pairs)).map_err(raise)
    }
}

/// True if this is a list of prompts, not a single one.
#[pyfunction]
pub(crate) fn is_list_of_prompts(given: &Bound<'_, PyAny>) -> PyResult<bool> {
    if given.is_instance_of::<PyString>() {
        return Ok(false);
    }
    match listed(given)?.get_item(0) {
        Err(_) => Err(PyValueError::new_err("the prompt is empty: give the model some text to answer")),
        // Integers of numpy are numbers, too.
        Ok(first) => Ok(!first.hasattr("__index__")? && !first.is_instance_of::<PyDict>()),
    }
}

/// The roles and contents of a chat, if this is one.
fn messages(given: &Bound<'_, PyAny>) -> PyResult<Option<Vec<(String, String)>>> {
    if !listed(given)?.get_item(0).is_ok_and(|first| first.is_instance_of::<PyDict>()) {
        return Ok(None);
    }
    let message = |message: PyResult<Bound<'_, PyAny>>| {
        let message = message?;
        let field = |name: &str| message.get_item(name)?.extract::<String>();
        match (message.len(), field("role"), field("content")) {
            (Ok(2), Ok(role), Ok(content)) => Ok((role, content)),
            _ => Err(PyValueError::new_err("each message must be {'role': text, 'content': text}")),
        }
    };
    given.try_iter()?.map(message).collect::<PyResult<_>>().map(Some)
}

/// The given value as something with items, if it is an array or a sequence, such as a column of a data set.
fn listed<'py>(given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if given.hasattr("tolist")? {
        return given.call_method0("tolist");
    }
    let is_text = given.is_instance_of::<PyString>() || given.is_instance_of::<PyBytes>();
    if given.cast::<PySequence>().is_ok() && !is_text {
        return Ok(given.clone());
    }
    let why =
        format!("a prompt is text, a list of messages or a list of token ids, but this is of type {}", kind(given));
    Err(PyTypeError::new_err(why))
}
