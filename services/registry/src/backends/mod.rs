//! The subject of each app's backend: the service account of its client, which identity looks up at the provider. The
//! registration looks it up once. A worker in each process ([`start`]; [`once`] is its step) finds accounts that were
//! unknown then or have changed since, because their clients were created or recreated later.
//!
//! While identity or the provider cannot answer, stored accounts remain. If the provider has no such client, the stored
//! account is removed.

mod identity;
mod store;

use std::time::Duration;

use contract::{CorrelationId, Subject};
use serde_json::json;
use service::workers::{Next, Pace};
use service::{ApiError, AuditEvent};

use crate::App;
use crate::catalog::store::{bump, lock};

pub(crate) use identity::Backends;
use store::Backend;

/// Actor of the audit rows.
const ACTOR: &str = "system:app-backends";
/// Interval while an account is unknown, which bounds how long a new client waits. Each round costs one look-up per
/// app.
const UNKNOWN_PAUSE: Duration = Duration::from_secs(2);
/// Interval while all accounts are known. An account changes only if its client is recreated, which is rare; until the
/// worker notices, the new account is refused.
const KNOWN_PAUSE: Duration = Duration::from_secs(30);
/// Most accounts that are stored together, so that the catalog is not locked for long.
const MOST_TOGETHER: usize = 500;

/// Starts the worker, which keeps the subjects up to date until the service stops.
pub(crate) fn start(app: &App) {
    let aside = app.for_workers();
    let pace = Pace::every(KNOWN_PAUSE).retrying(UNKNOWN_PAUSE, UNKNOWN_PAUSE);
    // A step waits for identity; if it is dropped, the next one repeats it.
    let pace = pace.woken_by(app.backends.registered()).dropped_at_stop();
    app.core.workers.every("app_backends", pace, move || {
        let app = aside.clone();
        async move {
            let unknown = once(&app).await?;
            Ok::<_, ApiError>(if unknown == 0 { Next::Interval } else { Next::In(UNKNOWN_PAUSE) })
        }
    });
}

/// Looks up every app's account once; returns the number of apps whose account is unknown.
///
/// # Errors
/// Fails if identity or the database does not answer; accounts that were already stored, or found before, remain.
pub(crate) async fn once(app: &App) -> Result<usize, ApiError> {
    let mut changed = Vec::new();
    let unknown = look_up(app, &mut changed).await;
    for some in changed.chunks(MOST_TOGETHER) {
        learn(app, some).await?;
    }
    unknown
}

/// Adds every backend whose account has changed, with its account.
async fn look_up(app: &App, changed: &mut Vec<(Backend, Option<Subject>)>) -> Result<usize, ApiError> {
    let mut unknown = 0;
    for backend in store::all(&app.core.pool).await? {
        let found = app.backends.identity.account_of(&backend.client_id, &CorrelationId::generate()).await?;
        if found.is_none() {
            unknown += 1;
        }
        if found.as_ref().map(Subject::as_str) != backend.subject.as_deref() {
            changed.push((backend, found));
        }
    }
    Ok(unknown)
}

/// Stores the results of look-ups, except for apps that have another client by now. Together they are one revision of the
/// catalog, because authz compiles its model for each and decides nothing meanwhile.
async fn learn(app: &App, changed: &[(Backend, Option<Subject>)]) -> Result<(), ApiError> {
    let mut tx = app.core.begin_as(ACTOR, None).await?;
    lock(tx.conn()).await?;
    let mut events = Vec::new();
    for (backend, found) in changed {
        if store::set(tx.conn(), backend, found.as_ref()).await? {
            let subject = format!("app:{}", backend.key);
            let payload = json!({ "serviceSubject": { "from": backend.subject, "to": found } });
            events.push(AuditEvent { company: None, action: "app.backend_learned", subject, payload });
        }
    }
    if events.is_empty() {
        return tx.unchanged().await;
    }
    bump(tx.conn()).await?;
    tx.record_all(&events).await?;
    tx.commit_recorded().await?;
    let apps: Vec<&str> = events.iter().map(|event| event.subject.as_str()).collect();
    tracing::info!(?apps, "the accounts of apps' backends have changed");
    app.follower.look();
    Ok(())
}
