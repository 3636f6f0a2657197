//! Python bindings for lacuna: the engine, and the sampler alone for one's own model.

mod arrays;
mod errors;
mod given;
mod model;
mod options;
mod prompt;
mod record;
mod register;
mod run;
mod stream;

use std::collections::BTreeMap;
use std::ffi::OsString;

use lacuna::catalogue::{PRESETS, Section, parts};
use pyo3::prelude::*;

/// What the Python package is made of.
#[pymodule]
mod _native {
    use super::*;

    #[pymodule_export]
    use crate::errors::Error;
    #[pymodule_export]
    use crate::model::{Model, Seen};
    #[pymodule_export]
    use crate::record::{Commit, Frame, Result, Step};
    #[pymodule_export]
    use crate::register::{Candidates, RankedPositions, register_order, register_pace};
    #[pymodule_export]
    use crate::run::Run;
    #[pymodule_export]
    use crate::stream::Stream;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("OPTIONS", options::names())?;
        let names = |section| -> Vec<String> { parts(section).iter().map(|part| part.name.to_string()).collect() };
        module.add("ORDERS", names(Section::Order))?;
        module.add("PACES", names(Section::Pace))?;
        module.add("REVISIONS", names(Section::Revision))?;
        module.add("PRESETS", PRESETS.iter().map(|preset| (preset.name, preset.is)).collect::<BTreeMap<_, _>>())
    }

    /// Runs the `lacuna` command with these arguments and returns its exit status. Orders and paces that were registered go there,
    /// too: `lacuna.main(["eval", "words", "--strategy", "mine+eb"])`, `lacuna.main(["serve"])`.
    #[pyfunction]
    #[pyo3(signature = (arguments = None))]
    fn main(py: Python<'_>, arguments: Option<Vec<OsString>>) -> PyResult<u8> {
        let arguments = match arguments {
            Some(arguments) => arguments,
            None => py.import("sys")?.getattr("argv")?.extract::<Vec<OsString>>()?.into_iter().skip(1).collect(),
        };
        let all = [OsString::from("lacuna")].into_iter().chain(arguments);
        Ok(py.detach(|| lacuna_cli::run(all)))
    }
}
