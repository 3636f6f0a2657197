//! Whole numbers from Python.

use std::ops::RangeInclusive;

use lacuna::Token;
use pyo3::prelude::*;

/// A whole number within a range; `name` is what messages call it.
pub(crate) fn whole(name: &str, given: &Bound<'_, PyAny>, range: RangeInclusive<u64>) -> PyResult<u64> {
    let checks = given.py().import("lacunalm.checks")?;
    checks.call_method1("whole", (name, given, *range.start(), *range.end()))?.extract()
}

/// A token id.
pub(crate) fn token(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Token> {
    Ok(whole(name, given, 0..=u64::from(Token::MAX))? as Token)
}

/// A position of a canvas.
pub(crate) fn position(given: &Bound<'_, PyAny>) -> PyResult<usize> {
    Ok(whole("a position", given, 0..=u64::from(Token::MAX))? as usize)
}
