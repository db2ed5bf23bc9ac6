//! `POST /internal/platform/modules/{key}/enable` and `/disable`.

use axum::extract::State;
use contract::manifest::is_key;
use serde::Serialize;
use serde_json::json;
use service::caller::Correlation;
use service::{ApiError, AuditEvent, AuditedTx, PathParams, Superadmin};

use super::rules::{self, Standing, Step};
use super::store;
use crate::App;
use crate::catalog::store::{bump, lock};
use crate::default_grants;
use crate::reply::AtRevision;

/// What both answer.
#[derive(Debug, Serialize)]
pub(crate) struct Enabled {
    enabled: bool,
}

/// Enables a module or app and writes its default grants, in one transaction.
pub(crate) async fn enable(
    State(app): State<App>,
    caller: Superadmin,
    Correlation(id): Correlation,
    path: PathParams,
) -> Result<AtRevision<Enabled>, ApiError> {
    let key = known_key(&path)?;
    let mut tx = app.core.begin(&caller.subject, &id).await?;
    default_grants::store::lock(tx.conn()).await?;
    let revision = lock(tx.conn()).await?;
    let standing = find(&mut tx, key).await?;
    if rules::enable(&standing)? == Step::Unchanged {
        tx.unchanged().await?;
        return Ok(AtRevision { revision, data: Enabled { enabled: true } });
    }
    store::set_enabled(tx.conn(), key, true).await?;
    let written = default_grants::ensure(tx.conn(), &[key.to_owned()]).await?;
    let revision = bump(tx.conn()).await?;
    let grants = json!({ "anchors": written.anchors, "system": written.system });
    let payload = json!({ "enabled": { "from": false, "to": true }, "defaultGrants": grants });
    tx.commit(&event("module.enabled", &standing, payload)).await?;
    app.follower.look();
    Ok(AtRevision { revision, data: Enabled { enabled: true } })
}

/// Disables a module or app. Nothing is removed, and nothing that needs it is disabled with it.
pub(crate) async fn disable(
    State(app): State<App>,
    caller: Superadmin,
    Correlation(id): Correlation,
    path: PathParams,
) -> Result<AtRevision<Enabled>, ApiError> {
    let key = known_key(&path)?;
    let mut tx = app.core.begin(&caller.subject, &id).await?;
    let revision = lock(tx.conn()).await?;
    let standing = find(&mut tx, key).await?;
    if rules::disable(&standing)? == Step::Unchanged {
        tx.unchanged().await?;
        return Ok(AtRevision { revision, data: Enabled { enabled: false } });
    }
    store::set_enabled(tx.conn(), key, false).await?;
    let revision = bump(tx.conn()).await?;
    let payload = json!({ "enabled": { "from": true, "to": false } });
    tx.commit(&event("module.disabled", &standing, payload)).await?;
    app.follower.look();
    Ok(AtRevision { revision, data: Enabled { enabled: false } })
}

/// A text that cannot be a key is the key of nothing.
fn known_key(path: &PathParams) -> Result<&str, ApiError> {
    Some(path.text("key")).filter(|key| is_key(key)).ok_or_else(unknown)
}

async fn find(tx: &mut AuditedTx, key: &str) -> Result<Standing, ApiError> {
    store::find(tx.conn(), key).await?.ok_or_else(unknown)
}

fn unknown() -> ApiError {
    ApiError::NotFound("module or app".into())
}

fn event(action: &'static str, standing: &Standing, payload: serde_json::Value) -> AuditEvent {
    let subject = format!("{}:{}", standing.kind, standing.key);
    AuditEvent { company: None, action, subject, payload }
}
