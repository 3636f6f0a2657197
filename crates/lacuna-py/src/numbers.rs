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

/// Whole numbers, of which one may stand alone.
pub(crate) fn several(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let listed: Vec<Bound<'_, PyAny>> =
        given.py().import("lacunalm.checks")?.call_method1("several", (given,))?.extract()?;
    listed.iter().map(|one| Ok(whole(name, one, 0..=u64::from(u32::MAX))? as usize)).collect()
}
