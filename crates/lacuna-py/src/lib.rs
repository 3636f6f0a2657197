//! Python bindings for lacuna: the engine, and the sampler alone for one's own model.

mod arrays;
mod errors;
mod evaluation;
mod model;
mod numbers;
mod options;
mod outputs;
mod pool;
mod prompt;
mod record;
mod register;
mod run;
mod stream;

use std::ffi::OsString;
use std::process::id;
use std::sync::atomic::{AtomicU32, Ordering};

use lacuna::catalogue::{PRESETS, Section, parts};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The process that has run the command; 0 if none has.
static COMMAND_PROCESS: AtomicU32 = AtomicU32::new(0);

/// The native part of the Python package.
#[pymodule]
mod _native {
    use super::*;

    #[pymodule_export]
    use crate::errors::Error;
    #[pymodule_export]
    use crate::evaluation::{evaluate_model, evaluate_own};
    #[pymodule_export]
    use crate::model::{Model, Plan, Seen, check_options};
    #[pymodule_export]
    use crate::prompt::is_list_of_prompts;
    #[pymodule_export]
    use crate::record::{Commit, Frame, Result, Step};
    #[pymodule_export]
    use crate::register::{Candidates, RankedPositions, register_order, register_pace};
    #[pymodule_export]
    use crate::run::{Run, restore_run};
    #[pymodule_export]
    use crate::stream::Stream;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        Ok(())
    }

    /// The names of all options, and what each is.
    #[pyfunction]
    fn describe_options() -> Vec<(&'static str, String)> {
        options::described()
    }

    /// The names of all orders, paces, revisions, windows, caches and presets, and what each is.
    #[pyfunction]
    fn describe_strategies() -> Vec<(&'static str, Vec<(String, String)>)> {
        let all = |section| parts(section).iter().map(|part| (part.name.to_string(), part.about.to_string())).collect();
        vec![
            ("orders", all(Section::Order)),
            ("paces", all(Section::Pace)),
            ("revisions", all(Section::Revision)),
            ("windows", all(Section::Window)),
            ("caches", all(Section::Cache)),
            ("presets", PRESETS.iter().map(|preset| (preset.name.into(), preset.is.into())).collect()),
        ]
    }

    /// Says what is wrong with arguments of `lacuna eval` or `lacuna serve`, without loading the model. If they are for another machine
    /// (`elsewhere`), files that are not on this one are not missed.
    #[pyfunction]
    #[pyo3(signature = (arguments, *, elsewhere))]
    fn check_command(arguments: Vec<OsString>, elsewhere: bool) -> PyResult<()> {
        let all = [OsString::from("lacuna")].into_iter().chain(arguments);
        lacuna_cli::check(all, elsewhere).map_err(PyValueError::new_err)
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
        // The command's threads are those of the first process that ran it.
        let owner = COMMAND_PROCESS.compare_exchange(0, id(), Ordering::Relaxed, Ordering::Relaxed);
        if owner.is_err_and(|owner| owner != id()) {
            return Err(errors::Error::new_err(
                "a process that was forked off one that has run main cannot run it: start processes with spawn",
            ));
        }
        let all = [OsString::from("lacuna")].into_iter().chain(arguments);
        Ok(py.detach(|| lacuna_cli::run(all)))
    }
}
