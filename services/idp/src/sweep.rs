//! Removes what has run out: sessions nobody may use any more (their codes go with them) and old administration
//! events; then it is the turn of the signing keys. A step function and its loop; tests call the step.

use std::time::Duration;

use serde_json::json;
use service::{ApiError, AuditEvent};
use tokio_util::sync::CancellationToken;

use crate::keys::rotation;
use crate::state::App;
use crate::{admin, tokens};

/// Pause between steps.
const EVERY: Duration = Duration::from_mins(1);
/// Most rows of one kind that a step removes, so that it never holds locks for long.
const BATCH: i64 = 1_000;
/// How long administration events are kept; the account look reads them every few seconds.
const EVENTS_KEPT: time::Duration = time::Duration::days(30);

/// Sweeps until told to stop. A failed step is logged and tried again at the next turn.
pub(crate) async fn run(app: App, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        if let Err(error) = step(&app).await {
            tracing::warn!(%error, "expired sessions could not be swept");
        }
        if let Err(error) = rotation::step(&app).await {
            tracing::warn!(%error, "the signing keys could not be looked after");
        }
    }
}

/// Removes one batch; gives how many sessions it removed.
///
/// # Errors
/// The database could not be asked.
pub async fn step(app: &App) -> Result<u64, ApiError> {
    let now = app.core.clock.now();
    let mut tx = app.core.begin_as("system:sweep", None).await?;
    let sessions = tokens::store::end_idle(tx.conn(), now, BATCH).await?;
    let events = admin::store::remove_before(tx.conn(), now.saturating_sub(EVENTS_KEPT), BATCH).await?;
    if sessions == 0 && events == 0 {
        tx.unchanged().await?;
        return Ok(0);
    }
    let payload = json!({ "sessions": sessions, "adminEvents": events });
    tx.commit(&AuditEvent {
        company: None,
        action: "sessions.swept",
        subject: "realm:sessions".to_owned(),
        payload,
    })
    .await?;
    Ok(sessions)
}
