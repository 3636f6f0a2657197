//! Listening, and ending in good order.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use lacuna_models::{Checkpoint, Model};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tower::ServiceExt;

use crate::connections::{Connection, Connections, Sending};
use crate::service::Service;
use crate::{ApiKey, Config, Error, Result, api};

/// The number of threads that turn requests into tokens. Each holds megabytes of the tokenizer's caches, so a rush must not start more.
const TOKENIZER_THREADS: usize = 4;
/// The time that a new connection may be silent.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(10);
/// The time that a connection may be open without a request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(75);
/// The pause after a connection could not be accepted.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);
/// The least time between two warnings that connections cannot be accepted.
const WARNING_INTERVAL: Duration = Duration::from_secs(1);
/// The time that connections may take to close once all work is done.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(3);

/// Serves a model, of which there are one or several replicas, until the first ctrl-c or SIGTERM, and then finishes what it took on; a second signal ends it at once.
/// `announce` gets the address once requests are accepted. On SIGHUP `keys` gives the keys that are valid from then on.
pub fn run(
    checkpoint: Checkpoint,
    replicas: Vec<Box<dyn Model>>,
    config: Config,
    keys: impl Fn() -> std::result::Result<Vec<ApiKey>, String>,
    announce: impl FnOnce(SocketAddr),
) -> Result<()> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.max_blocking_threads(TOKENIZER_THREADS).enable_all().build().map_err(Error::Serve)?;
    let result = runtime.block_on(async {
        let server = Server::new(checkpoint, replicas, config)?;
        let service = server.service.clone();
        let mut signals = Signals::new().map_err(Error::Serve)?;
        let listener = server.listen().await?;
        announce(listener.local_addr().map_err(Error::Serve)?);
        let (stop, stopped) = oneshot::channel::<()>();
        let mut serving = pin!(server.serve(listener, async {
            let _ = stopped.await;
        }));
        let mut stop = Some(stop);
        loop {
            tokio::select! {
                result = &mut serving => return result,
                signal = signals.next() => match (signal, stop.take()) {
                    (Signal::Reload, kept) => {
                        reload(&service, keys());
                        stop = kept;
                    }
                    (Signal::End, Some(stop)) => drop(stop),
                    (Signal::End, None) => return Err(Error::Interrupted),
                },
            }
        }
    });
    // Whatever is still being computed ends with the process.
    runtime.shutdown_background();
    result
}

/// Makes new keys the valid ones. A server with keys never becomes one without.
fn reload(service: &Service, keys: std::result::Result<Vec<ApiKey>, String>) {
    match keys {
        Ok(keys) if keys.is_empty() && !service.keys.is_empty() => {
            tracing::error!("there are no keys any more: those that were valid stay valid");
        }
        Ok(keys) => {
            tracing::info!(keys = keys.len(), "the keys are read again");
            service.keys.replace(keys);
        }
        Err(error) => tracing::error!(error, "the keys cannot be read: those that were valid stay valid"),
    }
}

/// The request that a signal stands for.
enum Signal {
    End,
    Reload,
}

/// The signals that a server listens to.
struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    hang_up: tokio::signal::unix::Signal,
}

impl Signals {
    #[cfg(unix)]
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    #[cfg(unix)]
    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.terminate.recv() => Signal::End,
            _ = self.interrupt.recv() => Signal::End,
            _ = self.hang_up.recv() => Signal::Reload,
        }
    }

    #[cfg(not(unix))]
    fn new() -> std::io::Result<Self> {
        Ok(Self {})
    }

    #[cfg(not(unix))]
    async fn next(&mut self) -> Signal {
        let _ = tokio::signal::ctrl_c().await;
        Signal::End
    }
}

/// A model, ready to be served.
pub struct Server {
    service: Arc<Service>,
    router: Router,
    /// Ends when all work is done and no more is taken on.
    done: mpsc::Receiver<()>,
}

impl Server {
    /// Starts a thread for each replica of the model, which must be the checkpoint's.
    pub fn new(checkpoint: Checkpoint, replicas: Vec<Box<dyn Model>>, config: Config) -> Result<Self> {
        let (service, done) = Service::new(checkpoint, replicas, config)?;
        let router = api::router(service.clone())?;
        Ok(Self { service, router, done })
    }

    /// Every route, to be served by other means or asked in tests.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// Opens the port.
    pub async fn listen(&self) -> Result<TcpListener> {
        let address = self.service.config.address;
        TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })
    }

    /// Serves until `stop` ends, then refuses new work, finishes what was taken on, and returns.
    pub async fn serve(self, listener: TcpListener, stop: impl Future<Output = ()>) -> Result<()> {
        let Self { service, router, mut done } = self;
        let connections = Connections::new(service.config.limits.connections, service.metrics.clone());
        let graceful = GracefulShutdown::new();
        let mut warned: Option<Instant> = None;
        let mut end = pin!(async {
            stop.await;
            service.drain();
            tracing::info!("stopping: new work is refused, what was taken on is finished");
            done.recv().await;
        });
        loop {
            let accepted = async {
                connections.room().await;
                listener.accept().await
            };
            tokio::select! {
                accepted = accepted => match accepted {
                    Ok((stream, _)) => serve_connection(stream, router.clone(), connections.add(), &graceful),
                    // Too many open files, or a client that has gone again: neither is a reason to end.
                    Err(error) => {
                        if warned.is_none_or(|warned| warned.elapsed() > WARNING_INTERVAL) {
                            tracing::warn!(%error, "a connection could not be accepted");
                            warned = Some(Instant::now());
                        }
                        tokio::time::sleep(ACCEPT_BACKOFF).await;
                    }
                },
                () = &mut end => break,
            }
        }
        // A client that never completes its request must not keep the server.
        let _ = tokio::time::timeout(SHUTDOWN_GRACE, graceful.shutdown()).await;
        Ok(())
    }
}

fn serve_connection(stream: TcpStream, router: Router, connection: Arc<Connection>, graceful: &GracefulShutdown) {
    // A token is a small packet; it must not wait for the next one.
    let _ = stream.set_nodelay(true);
    let watcher = graceful.watcher();
    tokio::spawn(async move {
        let this = connection.clone();
        let served = async {
            match tokio::time::timeout(FIRST_BYTE_TIMEOUT, stream.readable()).await {
                Ok(Ok(())) => {}
                _ => return,
            }
            let answer = service_fn(move |request: Request<hyper::body::Incoming>| {
                let (busy, router) = (connection.busy(), router.clone());
                async move {
                    let answer = router.oneshot(request.map(Body::new)).await;
                    answer.map(|answer| answer.map(|body| Body::new(Sending { body, _busy: busy })))
                }
            });
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(IDLE_TIMEOUT);
            let connection = builder.serve_connection(TokioIo::new(stream), answer);
            if let Err(error) = watcher.watch(connection).await {
                tracing::debug!(%error, "a connection broke");
            }
        };
        tokio::select! {
            () = served => {}
            () = this.closed() => tracing::debug!("an idle connection makes room for another"),
        }
    });
}
