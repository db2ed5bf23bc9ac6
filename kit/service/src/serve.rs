//! Serves a router until it is told to stop, then drains.

use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{Core, layers, probes};

/// Why a service ended other than by being told to.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The listener failed.
    #[error("the listener failed: {0}")]
    Listener(#[from] std::io::Error),
    /// A metric family was registered twice.
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// Something the service needs before it may serve is wrong, as its start-up checks found.
    #[error("{0}")]
    Unfit(String),
}

/// Serves `routes` and the probes. Cancelling `stop` stops accepting; requests in flight finish within `drain`.
///
/// # Errors
/// The listener failed.
pub async fn serve(
    core: Core,
    routes: Router,
    listener: TcpListener,
    stop: CancellationToken,
    drain: Duration,
) -> Result<(), ServeError> {
    let app = layers::around(&core, routes.merge(probes::routes(core.clone())));
    let draining = stop.clone();
    let serving = axum::serve(listener, app).with_graceful_shutdown(draining.cancelled_owned());
    let deadline = async {
        stop.cancelled().await;
        tokio::time::sleep(drain).await;
    };
    tokio::select! {
        served = serving => served?,
        () = deadline => tracing::warn!(service = core.name, "requests were still in flight when the drain ended"),
    }
    core.pool.close().await;
    Ok(())
}
