//! Open connections: how many there may be, and which one goes when there are too many.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::{Body, Bytes, HttpBody};
use tokio::sync::Notify;

use crate::metrics::Metrics;

/// Descriptors kept for what is no connection: files, the listener, the runtime's own.
const RESERVED_DESCRIPTORS: u64 = 48;

/// Every open connection.
pub(crate) struct Connections {
    open: Mutex<Open>,
    most: usize,
    /// Told when a connection closes.
    closed: Notify,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct Open {
    next: u64,
    connections: BTreeMap<u64, Entry>,
}

struct Entry {
    /// The number of its requests that are being answered.
    requests: usize,
    idle_since: Instant,
    /// It was told to close.
    closing: bool,
    close: Arc<Notify>,
}

/// One open connection; dropping it closes its entry.
pub(crate) struct Connection {
    number: u64,
    all: Arc<Connections>,
    /// Told when it is to close.
    close: Arc<Notify>,
}

/// A request of a connection that is being answered.
pub(crate) struct Busy(Arc<Connection>);

impl Connections {
    pub(crate) fn new(most: usize, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self { open: Mutex::default(), most: most.min(descriptors()), closed: Notify::new(), metrics })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until one more connection may be open. If there are too many, the one that has been idle longest is closed.
    pub(crate) async fn room(&self) {
        loop {
            let closed = self.closed.notified();
            {
                let mut open = self.lock();
                if open.connections.len() < self.most {
                    return;
                }
                if !open.connections.values().any(|entry| entry.closing) {
                    let idle = open.connections.values_mut().filter(|entry| entry.requests == 0);
                    if let Some(entry) = idle.min_by_key(|entry| entry.idle_since) {
                        entry.closing = true;
                        entry.close.notify_one();
                    }
                }
            }
            closed.await;
        }
    }

    /// Counts a connection that was accepted.
    pub(crate) fn add(self: &Arc<Self>) -> Arc<Connection> {
        let mut open = self.lock();
        let (number, close) = (open.next, Arc::new(Notify::new()));
        open.next += 1;
        open.connections
            .insert(number, Entry { requests: 0, idle_since: Instant::now(), closing: false, close: close.clone() });
        self.metrics.connections.set(open.connections.len());
        Arc::new(Connection { number, all: self.clone(), close })
    }
}

impl Connection {
    /// Marks a request as being answered until what is returned is dropped.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        if let Some(entry) = self.all.lock().connections.get_mut(&self.number) {
            entry.requests += 1;
        }
        Busy(self.clone())
    }

    /// Waits until it is to close: it was told to, and no request has come in between.
    pub(crate) async fn closed(&self) {
        loop {
            self.close.notified().await;
            match self.all.lock().connections.get_mut(&self.number) {
                Some(entry) if entry.requests > 0 => entry.closing = false,
                _ => return,
            }
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some(entry) = self.0.all.lock().connections.get_mut(&self.0.number) {
            entry.requests -= 1;
            entry.idle_since = Instant::now();
        }
        self.0.all.closed.notify_one();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut open = self.all.lock();
        open.connections.remove(&self.number);
        self.all.metrics.connections.set(open.connections.len());
        drop(open);
        self.all.closed.notify_one();
    }
}

/// An answer's body; its request is being answered until it is sent.
pub(crate) struct Sending {
    pub(crate) body: Body,
    pub(crate) _busy: Busy,
}

impl HttpBody for Sending {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }
}

/// The most connections that the system allows, after the limit is raised as far as it can be.
#[cfg(unix)]
fn descriptors() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let most = if raised.is_ok() { maximum } else { current };
    usize::try_from(most.unwrap_or(u64::MAX).saturating_sub(RESERVED_DESCRIPTORS).max(16)).unwrap_or(usize::MAX)
}

#[cfg(not(unix))]
fn descriptors() -> usize {
    usize::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_longest_idle_goes_and_the_busy_stay() {
        let all = Connections::new(3, Arc::default());
        let [first, second, third] = [(); 3].map(|()| all.add());
        let busy = first.busy();
        // The second had come before the third, but has been used since.
        drop(second.busy());
        let room = || {
            tokio::spawn({
                let all = all.clone();
                async move { all.room().await }
            })
        };
        let waiting = room();
        third.closed().await;
        assert!(!waiting.is_finished(), "its place is free when it is closed");
        drop(third);
        waiting.await.unwrap();
        let fourth = all.add();
        let others = [second.busy(), fourth.busy()];
        let waiting = room();
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished(), "nobody is idle");
        drop(busy);
        first.closed().await;
        drop(first);
        waiting.await.unwrap();
        drop(others);
    }
}
