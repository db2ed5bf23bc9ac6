//! Handles SIGHUP: reloads the TLS files and logs what needs a restart instead. The gateway checks TLS files every
//! second anyway; the signal is for an operator who wants to see the reload, and to learn that environment variables
//! need a restart.

use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};

use crate::metrics::tally::{Reload, Tally};
use crate::tls::certificates::Certificates;

/// Waits for the signal for ever; ends when its task is dropped.
pub(crate) async fn listen(certificates: &Arc<Certificates>, tally: &Tally) {
    let mut hangups = match signal(SignalKind::hangup()) {
        Ok(hangups) => hangups,
        Err(error) => {
            tracing::warn!(%error, "cannot handle SIGHUP; TLS files are checked every second all the same");
            return;
        }
    };
    while hangups.recv().await.is_some() {
        let reload = certificates.look_now().await;
        let found = match reload {
            Some(Reload::Used) => "changed files, now in use",
            Some(Reload::Refused) => "unusable files; the current ones stay",
            None => "unchanged files",
        };
        tracing::info!(
            read_again = "TLS chains, keys and client authorities",
            found,
            needs_a_restart =
                "every PLATFORM_ and IDP_ variable: the environment of a running process does not change",
            "SIGHUP"
        );
        if let Some(reload) = reload {
            tally.reloaded(reload);
        }
    }
}
