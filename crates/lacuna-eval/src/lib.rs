//! Benchmarks for [`lacuna`]: tasks, protocols, graders, a sandbox for generated code, resumable runs and reports.

mod error;
pub mod grade;
pub mod recorded;
pub mod report;
pub mod run;
pub mod sandbox;
pub mod statistics;
pub mod suite;
pub mod task;
pub mod tune;

pub use error::{Error, Result};
