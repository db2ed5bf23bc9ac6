//! `POST /internal/platform/modules/{key}/enable` and `/disable`.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use contract::CorrelationId;
use contract::manifest::is_key;
use http::StatusCode;
use serde::Serialize;
use serde_json::json;
use service::caller::Correlation;
use service::{ApiError, AuditedTx, PathParams, Superadmin};
use uuid::Uuid;

use super::rules::{self, Progress, Standing, Step};
use super::{event, store};
use crate::App;
use crate::catalog::rules::ENABLING;
use crate::catalog::store::{bump, lock};
use crate::default_grants::{self, Portion};
use crate::reply::AtRevision;

/// The response of `enable` and `disable`.
#[derive(Debug, Serialize)]
pub(crate) struct Enabled {
    enabled: bool,
}

/// The response of `enable` while the enabling continues in the background.
#[derive(Debug, Serialize)]
pub(crate) struct Accepted {
    enabled: bool,
    state: &'static str,
    companies: Progress,
}

/// Enables a module or app and writes its default grants in one transaction: 200. If there are too many companies for
/// one transaction, starts the enabling in the background, or reports its progress: 202.
pub(crate) async fn enable(
    State(app): State<App>,
    caller: Superadmin,
    Correlation(id): Correlation,
    path: PathParams,
) -> Result<Response, ApiError> {
    let key = known_key(&path)?;
    let mut tx = caller.begin(&app, &id).await?;
    default_grants::store::lock(tx.conn()).await?;
    let revision = lock(tx.conn()).await?;
    let standing = find(&mut tx, key).await?;
    let step = rules::enable(&standing)?;
    if let Some(progress) = store::progress(tx.conn(), key).await? {
        tx.unchanged().await?;
        return Ok(accepted(revision, progress));
    }
    if step == Step::Unchanged {
        tx.unchanged().await?;
        return Ok(AtRevision { revision, data: Enabled { enabled: true } }.into_response());
    }
    let portion = Portion::after(tx.conn(), Uuid::nil()).await?;
    if !portion.is_last {
        return begin_enabling(&app, tx, &standing, &id).await;
    }
    store::set_enabled(tx.conn(), key, true).await?;
    let written = portion.ensure(tx.conn(), &[key.to_owned()]).await?;
    let revision = bump(tx.conn()).await?;
    let grants = json!({ "anchors": written.anchors, "system": written.system });
    let payload = json!({ "enabled": { "from": false, "to": true }, "defaultGrants": grants });
    tx.commit(&event("module.enabled", &standing, payload)).await?;
    app.follower.look();
    Ok(AtRevision { revision, data: Enabled { enabled: true } }.into_response())
}

async fn begin_enabling(
    app: &App,
    mut tx: AuditedTx,
    standing: &Standing,
    id: &CorrelationId,
) -> Result<Response, ApiError> {
    let total = default_grants::store::active_companies(tx.conn()).await?;
    let actor = tx.actor().to_owned();
    store::begin_enabling(tx.conn(), &standing.key, &actor, Some(id.as_str()), total).await?;
    let revision = bump(tx.conn()).await?;
    tx.commit(&event("module.enabling", standing, json!({ "companies": total }))).await?;
    tracing::info!(key = standing.key, companies = total, "enabling in every company");
    app.follower.look();
    app.enabling.look();
    Ok(accepted(revision, Progress { done: 0, total }))
}

fn accepted(revision: i64, companies: Progress) -> Response {
    let data = Accepted { enabled: false, state: ENABLING, companies };
    (StatusCode::ACCEPTED, AtRevision { revision, data }).into_response()
}

/// Disables a module or app, or cancels its enabling. Removes nothing, and does not disable modules that depend on it.
pub(crate) async fn disable(
    State(app): State<App>,
    caller: Superadmin,
    Correlation(id): Correlation,
    path: PathParams,
) -> Result<AtRevision<Enabled>, ApiError> {
    let key = known_key(&path)?;
    let mut tx = caller.begin(&app, &id).await?;
    let revision = lock(tx.conn()).await?;
    let standing = find(&mut tx, key).await?;
    if rules::disable(&standing)? == Step::Unchanged {
        tx.unchanged().await?;
        return Ok(AtRevision { revision, data: Enabled { enabled: false } });
    }
    store::set_enabled(tx.conn(), key, false).await?;
    let revision = bump(tx.conn()).await?;
    let action = if standing.enabling { "module.enabling_cancelled" } else { "module.disabled" };
    let payload = json!({ "enabled": { "from": standing.enabled, "to": false } });
    tx.commit(&event(action, &standing, payload)).await?;
    tracing::info!(key = standing.key, action, "disabled in every company");
    app.follower.look();
    Ok(AtRevision { revision, data: Enabled { enabled: false } })
}

/// Returns the key in the path; 404 if it is malformed.
fn known_key(path: &PathParams) -> Result<&str, ApiError> {
    Some(path.text("key")).filter(|key| is_key(key)).ok_or_else(unknown)
}

async fn find(tx: &mut AuditedTx, key: &str) -> Result<Standing, ApiError> {
    store::find(tx.conn(), key).await?.ok_or_else(unknown)
}

fn unknown() -> ApiError {
    ApiError::NotFound("module or app".into())
}
