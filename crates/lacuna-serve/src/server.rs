//! Listening, and ending in good order.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use lacuna_models::{Checkpoint, Model};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};

use crate::service::Service;
use crate::{Config, Error, Result, api};

/// How many threads turn requests into tokens. Each holds megabytes of the tokenizer's caches, so a rush must not start more.
const TOKENIZERS: usize = 4;
/// How long a connection may be open without a request.
const SILENCE: Duration = Duration::from_secs(75);
/// How long to wait after a connection could not be accepted.
const BREATH: Duration = Duration::from_millis(50);
/// How long connections may take to close once all work is done.
const FAREWELL: Duration = Duration::from_secs(3);

/// Serves a model until the first ctrl-c or SIGTERM, and then finishes what it took on; a second signal ends it at once.
/// `announce` is told the address when requests can come.
pub fn run(
    checkpoint: Checkpoint,
    model: Box<dyn Model>,
    config: Config,
    announce: impl FnOnce(SocketAddr),
) -> Result<()> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.max_blocking_threads(TOKENIZERS).enable_all().build().map_err(Error::Serve)?;
    let result = runtime.block_on(async {
        let server = Server::new(checkpoint, model, config)?;
        let mut signals = Signals::new().map_err(Error::Serve)?;
        let listener = server.listen().await?;
        announce(listener.local_addr().map_err(Error::Serve)?);
        let (stop, stopped) = oneshot::channel::<()>();
        let mut serving = pin!(server.serve(listener, async {
            let _ = stopped.await;
        }));
        tokio::select! {
            result = &mut serving => return result,
            () = signals.next() => drop(stop),
        }
        tokio::select! {
            result = &mut serving => result,
            () = signals.next() => Err(Error::Interrupted),
        }
    });
    // Whatever is still being computed ends with the process.
    runtime.shutdown_background();
    result
}

/// The signals that ask a server to end.
struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            terminate: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        #[cfg(not(unix))]
        let _ = tokio::signal::ctrl_c().await;
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
    /// Starts the thread that decodes. The model must be the checkpoint's.
    pub fn new(checkpoint: Checkpoint, model: Box<dyn Model>, config: Config) -> Result<Self> {
        let (service, done) = Service::new(checkpoint, model, config)?;
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
        let connections = GracefulShutdown::new();
        let mut end = pin!(async {
            stop.await;
            service.drain();
            tracing::info!("stopping: new work is refused, what was taken on is finished");
            done.recv().await;
        });
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => serve_connection(stream, router.clone(), &connections),
                    // Too many open files, or a client that has gone again: neither is a reason to end.
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be accepted");
                        tokio::time::sleep(BREATH).await;
                    }
                },
                () = &mut end => break,
            }
        }
        // A client that never completes its request must not keep the server.
        let _ = tokio::time::timeout(FAREWELL, connections.shutdown()).await;
        Ok(())
    }
}

fn serve_connection(stream: TcpStream, router: Router, connections: &GracefulShutdown) {
    // A token is a small packet; it must not wait for the next one.
    let _ = stream.set_nodelay(true);
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(SILENCE);
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let connection = connections.watch(connection);
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection broke");
        }
    });
}
