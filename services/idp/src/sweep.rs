//! Removes expired sessions (their codes go with them), expired links and challenges, and old administration events, and
//! rotates the signing keys. The workers are step functions, which tests call.

use std::time::Duration;

use serde_json::json;
use service::workers::Pace;
use service::{ApiError, AuditEvent};

use crate::keys::rotation;
use crate::state::App;
use crate::{admin, browser_sessions, letters, passkeys, tokens};

/// Pause between steps.
const EVERY: Duration = Duration::from_mins(1);
/// Most rows of one kind that a step removes, so that it never holds locks for long.
const BATCH: i64 = 1_000;
/// How long administration events are kept; identity's account look reads them every few seconds.
const EVENTS_KEPT: time::Duration = time::Duration::days(30);

/// Starts the workers that sweep and rotate the keys.
pub(crate) fn start(app: &App) {
    let (workers, pace) = (&app.core.workers, Pace::every(EVERY).after(EVERY));
    let aside = app.for_workers();
    workers.every("session_sweep", pace.clone(), move || {
        let app = aside.clone();
        async move { step(&app).await.map(drop) }
    });
    let aside = app.for_workers();
    workers.every("key_rotation", pace, move || {
        let app = aside.clone();
        async move { rotation::step(&app).await }
    });
}

/// Removes one batch; returns how many client sessions it removed.
///
/// # Errors
/// The database cannot answer.
pub async fn step(app: &App) -> Result<u64, ApiError> {
    let now = app.core.clock.now();
    let mut tx = app.core.begin_as("system:sweep", None).await?;
    let sessions = tokens::store::end_idle(tx.conn(), now, BATCH).await?;
    let browsers = browser_sessions::store::end_idle(tx.conn(), now, BATCH).await?;
    let events = admin::store::remove_before(tx.conn(), now.saturating_sub(EVENTS_KEPT), BATCH).await?;
    let links = letters::store::remove_expired(tx.conn(), now, BATCH).await?;
    let challenges = passkeys::store::remove_expired(tx.conn(), now, BATCH).await?;
    if [sessions, browsers, events, links, challenges] == [0; 5] {
        tx.unchanged().await?;
        return Ok(0);
    }
    let payload = json!({
        "sessions": sessions,
        "browserSessions": browsers,
        "adminEvents": events,
        "links": links,
        "challenges": challenges,
    });
    tx.commit(&AuditEvent {
        company: None,
        action: "sessions.swept",
        subject: "realm:sessions".to_owned(),
        payload,
    })
    .await?;
    Ok(sessions)
}
