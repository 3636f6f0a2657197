//! Threads that compute. A fork leaves them behind: the child starts its own.

use std::mem::forget;
use std::process::id;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use lacuna_models::default_threads;
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::errors::Error;

/// The threads of all models that are not given their own, and of the sampler alone.
pub(crate) static SHARED: Pool = Pool::new(None);

/// As many threads as asked, else as usual.
pub(crate) struct Pool {
    threads: Option<usize>,
    started: Mutex<Option<(u32, Arc<ThreadPool>)>>,
}

impl Pool {
    pub(crate) const fn new(threads: Option<usize>) -> Self {
        Self { threads, started: Mutex::new(None) }
    }

    /// Computes something on these threads.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> PyResult<T> {
        Ok(self.threads()?.install(work))
    }

    fn threads(&self) -> PyResult<Arc<ThreadPool>> {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((process, pool)) = &*started
            && *process == id()
        {
            return Ok(pool.clone());
        }
        let threads = self.threads.unwrap_or_else(default_threads);
        let pool = ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = Arc::new(pool.map_err(|error| Error::new_err(format!("cannot start {threads} threads: {error}")))?);
        stop_threads(started.replace((id(), pool.clone())));
        Ok(pool)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        match self.started.try_lock() {
            Ok(mut started) => stop_threads(started.take()),
            Err(TryLockError::Poisoned(started)) => stop_threads(started.into_inner().take()),
            Err(TryLockError::WouldBlock) => {}
        }
    }
}

/// Ends threads of this process; those of the process that it was forked from do not exist here and are only forgotten.
fn stop_threads(started: Option<(u32, Arc<ThreadPool>)>) {
    if let Some((_, pool)) = started.filter(|(process, _)| *process != id()) {
        forget(pool);
    }
}
