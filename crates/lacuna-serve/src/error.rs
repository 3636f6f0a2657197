//! Errors of the server as a whole.

use std::net::SocketAddr;

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a server cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is taken or not ours.
    #[error("cannot listen on {address} (choose another with --host and --port): {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
    /// A model that has tokens but no text.
    #[error("a server needs a tokenizer: {source}")]
    NoText {
        /// The tokenizer's error.
        source: lacuna_models::Error,
    },
    /// The system gives no thread.
    #[error("cannot start the scheduler's thread: {0}")]
    Thread(std::io::Error),
    /// An origin that cannot be one.
    #[error("'{0}' is not an origin: write it as https://example.org")]
    Origin(String),
    /// A second signal came before all work was done.
    #[error("stopped at once: unfinished requests are lost")]
    Interrupted,
    /// The connection to the world broke.
    #[error("the server has stopped: {0}")]
    Serve(std::io::Error),
}
