//! Serves a router until it is told to stop, then drains.

use std::io;
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::coalesced_wake::CoalescedWake;
use crate::{Core, layers, probes};

/// Why a service could not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A metric family was registered twice.
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// A start-up check found that something the service needs is wrong.
    #[error("{0}")]
    Unfit(String),
}

/// Serves `routes` and the probes. Cancelling `stop` stops accepting; requests in flight and the current steps and jobs
/// of workers finish within `drain`, and only then do the pools close. A failed accept does not end the service.
pub async fn serve(
    core: Core,
    routes: Router,
    listener: TcpListener,
    stop: CancellationToken,
    drain: Duration,
) {
    if let Err(error) = prepare(&listener) {
        tracing::warn!(service = core.name, %error, "cannot tune the listener; it keeps the system's defaults");
    }
    let app = layers::around(&core, routes.merge(probes::routes(core.clone())));
    let workers = core.workers.clone();
    let drained = async {
        accept(listener, app, &stop).await;
        tracing::debug!(service = core.name, "every request has ended");
        workers.ended().await;
    };
    let deadline = async {
        stop.cancelled().await;
        tokio::time::sleep(drain).await;
    };
    tokio::select! {
        () = drained => {}
        () = deadline => tracing::warn!(service = core.name, "requests or workers were still busy when the drain ended"),
    }
    workers.end().await;
    core.reads.close();
    core.pool.close().await;
}

/// Sets the backlog to the system's maximum (`net.core.somaxconn`): past that, a dialling client gets no reply and
/// retries a second later, which is half of the gateway's dial timeout. Accepted connections inherit `TCP_NODELAY` from
/// the listener.
fn prepare(listener: &TcpListener) -> io::Result<()> {
    rustix::net::listen(listener, i32::MAX)?;
    Ok(rustix::net::sockopt::set_tcp_nodelay(listener, true)?)
}

/// Accepts until `stop`, then returns when the last connection has ended. Serves each connection as `axum::serve` does
/// without upgrades, but wrapped in a [`CoalescedWake`].
async fn accept(mut listener: TcpListener, app: Router, stop: &CancellationToken) {
    let connections = GracefulShutdown::new();
    while let Some((stream, _)) = stop.run_until_cancelled(Listener::accept(&mut listener)).await {
        let builder = Builder::new(TokioExecutor::new());
        let service = TowerToHyperService::new(app.clone());
        let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
        tokio::spawn(CoalescedWake::of(connections.watch(connection)));
    }
    drop(listener);
    connections.shutdown().await;
}
