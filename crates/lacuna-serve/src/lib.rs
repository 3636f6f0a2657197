//! The lacuna server: OpenAI's API over a masked diffusion language model, every decoding step as it happens, and a page
//! on which one sees the order.
//!
//! A [`Server`] owns a model. Requests of any length, strategy and age share its forward passes, and each gets the answer it
//! would get alone.

mod api;
mod config;
mod connections;
mod context;
mod error;
mod keys;
mod metrics;
mod page;
mod scheduler;
mod server;
mod service;
mod transcript;
mod watch;

pub use config::{Config, Example, Limits};
pub use error::{Error, Result};
pub use keys::ApiKey;
pub use server::{Server, run};
