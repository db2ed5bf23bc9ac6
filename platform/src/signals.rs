//! SIGTERM and SIGINT: the first signal starts the drain, the second stops at once.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::stop::Stop;

/// The two shutdown requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signals {
    /// Stop accepting, finish what is in flight, end.
    pub(crate) drain: CancellationToken,
    /// Stop at once.
    pub(crate) at_once: CancellationToken,
}

impl Signals {
    /// Installs the signal handlers.
    pub(crate) fn listen() -> Result<Self, Stop> {
        let take =
            |kind| signal(kind).map_err(|error| Stop::Unfit(format!("signals cannot be handled: {error}")));
        let (terminate, interrupt) = (take(SignalKind::terminate())?, take(SignalKind::interrupt())?);
        let signals = Self::default();
        tokio::spawn(signals.clone().forward(terminate, interrupt));
        Ok(signals)
    }

    async fn forward(self, mut terminate: Signal, mut interrupt: Signal) {
        for request in [&self.drain, &self.at_once] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            request.cancel();
        }
    }
}
