//! Python bindings for lacuna: the engine, and the sampler alone for one's own model.

mod arrays;
mod errors;
mod given;
mod model;
mod options;
mod prompt;
mod record;
mod run;
mod stream;

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
    use crate::run::Run;
    #[pymodule_export]
    use crate::stream::Stream;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("OPTIONS", options::names())?;
        module.add("ORDERS", lacuna::ORDERS)?;
        module.add("PACES", lacuna::PACES)?;
        module.add("REVISIONS", lacuna::REVISIONS)?;
        module.add("PRESETS", std::collections::BTreeMap::from(lacuna::PRESETS))
    }
}
