//! The subject of each app's backend: the service account of its client, which identity asks the provider for. It is
//! learned when the app is registered, where the provider answers then; whatever is not known yet, or has changed since
//! (a client that is declared later, or made anew), one loop a process finds out ([`start`]). [`once`] is its step.
//!
//! While identity or the provider cannot answer, what is known stays. That the provider has no such client is an answer.

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
/// How long a client that was declared just now waits at most, while there is one that nobody knows: a question to the
/// provider for each such app is all it costs.
const UNKNOWN_PAUSE: Duration = Duration::from_secs(2);
/// A service account that is known changes when its client is made anew, which is rare; until it is noticed the new one
/// is refused.
const KNOWN_PAUSE: Duration = Duration::from_secs(30);

/// Keeps the subjects as the provider has them until the service stops.
pub(crate) fn start(app: &App) {
    let aside = app.for_workers();
    let pace = Pace::every(KNOWN_PAUSE).retrying(UNKNOWN_PAUSE, UNKNOWN_PAUSE);
    // A step waits for identity, and what it did not come to the next one does.
    let pace = pace.woken_by(app.backends.registered()).dropped_at_stop();
    app.core.workers.every("app_backends", pace, move || {
        let app = aside.clone();
        async move {
            let unknown = once(&app).await?;
            Ok::<_, ApiError>(if unknown == 0 { Next::Interval } else { Next::In(UNKNOWN_PAUSE) })
        }
    });
}

/// Asks for every app once; gives the number of apps whose backend is not known.
///
/// # Errors
/// identity or the database did not answer; what was learned before stays.
pub(crate) async fn once(app: &App) -> Result<usize, ApiError> {
    let mut unknown = 0;
    for backend in store::all(&app.core.pool).await? {
        let found = app.backends.identity.account_of(&backend.client_id, &CorrelationId::generate()).await?;
        if found.is_none() {
            unknown += 1;
        }
        if found.as_ref().map(Subject::as_str) != backend.subject.as_deref() {
            learn(app, &backend, found.as_ref()).await?;
        }
    }
    Ok(unknown)
}

/// Stores an account that was found, or that there is none, unless the app has another client by now.
async fn learn(app: &App, backend: &Backend, found: Option<&Subject>) -> Result<(), ApiError> {
    let mut tx = app.core.begin_as(ACTOR, None).await?;
    lock(tx.conn()).await?;
    if !store::set(tx.conn(), backend, found).await? {
        return tx.unchanged().await;
    }
    bump(tx.conn()).await?;
    let subject = format!("app:{}", backend.key);
    let payload = json!({ "serviceSubject": { "from": backend.subject, "to": found } });
    tx.commit(&AuditEvent { company: None, action: "app.backend_learned", subject, payload }).await?;
    tracing::info!(app = backend.key, known = found.is_some(), "an app's backend is another account now");
    app.follower.look();
    Ok(())
}
