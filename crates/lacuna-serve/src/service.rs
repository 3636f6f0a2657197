//! What all requests share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use lacuna::{Description, Token};
use lacuna_models::{Checkpoint, Model, Text};
use tokio::sync::mpsc;

use crate::api::ApiError;
use crate::metrics::Metrics;
use crate::scheduler::Scheduler;
use crate::{Config, Error, Result};

/// A model that is being served.
pub(crate) struct Service {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) description: Description,
    pub(crate) config: Config,
    pub(crate) scheduler: Scheduler,
    pub(crate) metrics: Arc<Metrics>,
    /// The tokens that end a text.
    pub(crate) ends: Vec<Token>,
    /// Where the model computes, in a few words.
    pub(crate) device: String,
    pub(crate) precision: String,
    /// When the server started, in seconds since 1970.
    pub(crate) created: u64,
    /// Handed out with every request that is taken on; none are once the server is to end.
    work: Mutex<Option<mpsc::Sender<()>>>,
    numbers: AtomicU64,
}

/// A request that was taken on. The server does not end before it is dropped.
pub(crate) struct Work {
    pub(crate) begun: Instant,
    metrics: Arc<Metrics>,
    _token: mpsc::Sender<()>,
}

impl Drop for Work {
    fn drop(&mut self) {
        self.metrics.request_seconds.add(self.begun.elapsed().as_secs_f64());
    }
}

impl Service {
    /// Starts the scheduler. The receiver ends when the server is to end and all work is done.
    pub(crate) fn new(
        checkpoint: Checkpoint,
        model: Box<dyn Model>,
        config: Config,
    ) -> Result<(Arc<Self>, mpsc::Receiver<()>)> {
        checkpoint.text().map_err(|source| Error::NoText { source })?;
        let metrics = Arc::new(Metrics::default());
        metrics.weights.set(model.memory(1).weights);
        let description = model.description().clone();
        let (device, precision) = (model.device(), model.precision().name().to_string());
        let scheduler = Scheduler::start(model, config.limits, metrics.clone()).map_err(Error::Thread)?;
        let (work, done) = mpsc::channel(1);
        let service = Self {
            ends: checkpoint.ends(),
            checkpoint,
            description,
            config,
            scheduler,
            metrics,
            device,
            precision,
            created: now(),
            work: Mutex::new(Some(work)),
            numbers: AtomicU64::new(0),
        };
        Ok((Arc::new(service), done))
    }

    /// The tokenizer and chat template.
    pub(crate) fn text(&self) -> std::result::Result<&Text, ApiError> {
        Ok(self.checkpoint.text()?)
    }

    /// Takes a request on, unless the server is about to end.
    pub(crate) fn take_on(&self) -> std::result::Result<Work, ApiError> {
        let work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let token = work.clone().ok_or_else(ApiError::shutting_down)?;
        Ok(Work { begun: Instant::now(), metrics: self.metrics.clone(), _token: token })
    }

    /// Takes nothing on any more.
    pub(crate) fn drain(&self) {
        self.work.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.work.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// A name that no other request of any server gets.
    pub(crate) fn name(&self, kind: &str) -> String {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        format!("{kind}-{:x}{number:06x}", since.as_nanos())
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
