//! State that all requests share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use lacuna::{Description, Token};
use lacuna_models::{Checkpoint, Model, Text, describe_devices};
use tokio::sync::{Semaphore, mpsc};

use crate::api::ApiError;
use crate::context::Context;
use crate::keys::{Keys, Lease};
use crate::metrics::{Build, Metrics};
use crate::scheduler::Scheduler;
use crate::{Config, Error, Result};

/// Requests by their size: from how many bytes on, and how many of that size or more are prepared at a time. Smaller ones always
/// find a thread.
const SIZE_CLASSES: [(usize, usize); 2] = [(1 << 11, 2), (1 << 14, 1)];
/// Bytes of a body beside a prompt of the greatest length; room for many short prompts.
const BODY_BYTES: usize = 1 << 18;
/// Bytes of JSON for each byte of a prompt.
const ESCAPED: usize = 4;

/// A model that is being served.
pub(crate) struct Service {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) description: Description,
    pub(crate) config: Config,
    pub(crate) keys: Keys,
    pub(crate) scheduler: Scheduler,
    pub(crate) metrics: Arc<Metrics>,
    /// The tokens that end a text.
    pub(crate) ends: Vec<Token>,
    /// The device that the model computes on, in a few words.
    pub(crate) device: String,
    pub(crate) precision: String,
    /// Start of the server, in seconds since 1970.
    pub(crate) created: u64,
    /// The most bytes that a prompt within the model's context can have.
    pub(crate) prompt_bytes: usize,
    /// The most bytes that a request's body may have.
    pub(crate) body_bytes: usize,
    /// The places of each of the lanes.
    lanes: [Arc<Semaphore>; SIZE_CLASSES.len()],
    /// Handed out with every request that is taken on; none are once the server is to end.
    work: Mutex<Option<mpsc::Sender<()>>>,
    numbers: AtomicU64,
}

/// A request that was taken on. The server does not end before it is dropped.
pub(crate) struct Work {
    pub(crate) begun: Instant,
    pub(crate) context: Arc<Context>,
    lease: Option<Lease>,
    metrics: Arc<Metrics>,
    _token: mpsc::Sender<()>,
}

impl Work {
    /// Counts tokens against the limits of the request's key.
    pub(crate) fn charge(&self, tokens: usize) {
        if let Some(lease) = &self.lease {
            lease.charge(tokens);
        }
    }
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
        mut replicas: Vec<Box<dyn Model>>,
        config: Config,
    ) -> Result<(Arc<Self>, mpsc::Receiver<()>)> {
        let longest = checkpoint.text().map_err(|source| Error::NoText { source })?.longest_token();
        let model = replicas.first().expect("there is a model");
        let description = model.description().clone();
        let (device, precision) = (describe_devices(&replicas), model.precision().name().to_string());
        let metrics = Arc::new(Metrics::new(Build {
            model: config.model_name.clone(),
            device: device.clone(),
            precision: precision.clone(),
        }));
        metrics.weights.set(replicas.iter().map(|model| model.memory(1).weights).sum());
        for model in &mut replicas {
            model.reuse_prompts(config.limits.prompt_bytes);
        }
        let scheduler = Scheduler::start(replicas, config.limits, metrics.clone()).map_err(Error::Thread)?;
        let (work, done) = mpsc::channel(1);
        let prompt_bytes = description.context.saturating_mul(longest);
        let body_bytes = BODY_BYTES.saturating_add(prompt_bytes.saturating_mul(ESCAPED));
        let service = Self {
            ends: checkpoint.ends(),
            checkpoint,
            description,
            keys: Keys::new(config.api_keys.clone()),
            prompt_bytes,
            body_bytes: config.limits.body_bytes.unwrap_or(body_bytes),
            config,
            scheduler,
            metrics,
            device,
            precision,
            created: now(),
            lanes: SIZE_CLASSES.map(|(_, places)| Arc::new(Semaphore::new(places))),
            work: Mutex::new(Some(work)),
            numbers: AtomicU64::new(0),
        };
        Ok((Arc::new(service), done))
    }

    /// The tokenizer and chat template.
    pub(crate) fn text(&self) -> std::result::Result<&Text, ApiError> {
        Ok(self.checkpoint.text()?)
    }

    /// Takes a request on, unless the server is about to end or a limit of its key is reached.
    pub(crate) fn admit(&self) -> std::result::Result<Work, ApiError> {
        let token = self.work.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let token = token.ok_or_else(ApiError::shutting_down)?;
        let context = Context::current();
        let lease = context.key.get().map(|key| key.lease()).transpose()?;
        Ok(Work { begun: Instant::now(), context, lease, metrics: self.metrics.clone(), _token: token })
    }

    /// Does the long part of a request away from the threads that serve connections, within the time limit. Large requests
    /// wait for one another and leave threads for small ones.
    pub(crate) async fn prepare<T: Send + 'static>(
        &self,
        begun: Instant,
        bytes: usize,
        prepare: impl FnOnce() -> std::result::Result<T, ApiError> + Send + 'static,
    ) -> std::result::Result<T, ApiError> {
        let limit = self.config.limits.timeout;
        let lanes = SIZE_CLASSES.iter().zip(self.lanes.clone()).filter(move |((from, _), _)| bytes >= *from);
        let prepared = async move {
            let mut places = Vec::new();
            for (_, lane) in lanes.rev() {
                places.push(lane.acquire_owned().await);
            }
            let thread = tokio::task::spawn_blocking(move || {
                let prepared = prepare();
                drop(places);
                prepared
            });
            thread.await.unwrap_or_else(|_| Err(ApiError::internal("the request could not be prepared")))
        };
        let within = tokio::time::timeout_at((begun + limit).into(), prepared).await;
        within.unwrap_or_else(|_| Err(ApiError::timed_out(limit.as_secs())))
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
        format!("{kind}-{:x}{:06x}", since.as_nanos(), self.number())
    }

    /// A number that no other request of this server gets.
    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
