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

use crate::turn::Turn;
use crate::{Core, layers, probes};

/// Why a service could not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A metric family was registered twice.
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// Something the service needs before it may serve is wrong, as its start-up checks found.
    #[error("{0}")]
    Unfit(String),
}

/// Serves `routes` and the probes. Cancelling `stop` stops accepting; requests in flight and the steps and jobs that workers
/// have in hand finish within `drain`, and only then are the pools closed. A connection that cannot be accepted is no reason
/// to end.
pub async fn serve(
    core: Core,
    routes: Router,
    listener: TcpListener,
    stop: CancellationToken,
    drain: Duration,
) {
    if let Err(error) = prepare(&listener) {
        tracing::warn!(service = core.name, %error, "the listener works as the system made it");
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

/// As many connections wait in it as the system allows (`net.core.somaxconn`): past that whoever dials hears nothing, and tries
/// again a second later, which is half of what the edge gives a dial. What is accepted sends at once, as its listener does.
fn prepare(listener: &TcpListener) -> io::Result<()> {
    rustix::net::listen(listener, i32::MAX)?;
    Ok(rustix::net::sockopt::set_tcp_nodelay(listener, true)?)
}

/// Accepts until `stop`, then returns when the last connection has ended. Each connection is served as `axum::serve` would
/// that upgrades none, but for its [`Turn`].
async fn accept(mut listener: TcpListener, app: Router, stop: &CancellationToken) {
    let connections = GracefulShutdown::new();
    while let Some((stream, _)) = stop.run_until_cancelled(Listener::accept(&mut listener)).await {
        let builder = Builder::new(TokioExecutor::new());
        let service = TowerToHyperService::new(app.clone());
        let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
        tokio::spawn(Turn::of(connections.watch(connection)));
    }
    drop(listener);
    connections.shutdown().await;
}
