//! `POST /internal/platform/apps`: 200 with the app's capability; 400 for a manifest with missing keys or wrong types;
//! 422 with each field that breaks a rule.

use axum::extract::State;
use contract::{CorrelationId, Subject};
use serde_json::{Map, Value, json};
use service::caller::Correlation;
use service::{ApiError, AuditEvent, AuditedTx, RawBody, Superadmin};

use super::rules::{self, AppManifest, Checked};
use super::store;
use super::verdict::{self, Standing, Verdict};
use crate::App;
use crate::catalog::rules::Capability;
use crate::catalog::store::{bump, lock};
use crate::reply::AtRevision;

/// Registers an app, or updates it to a higher version.
pub(crate) async fn register(
    State(app): State<App>,
    caller: Superadmin,
    Correlation(id): Correlation,
    body: RawBody,
) -> Result<AtRevision<Capability>, ApiError> {
    let manifest: AppManifest = body.parse()?;
    let checked = rules::check(manifest, &body.json()?, &app.reserved);
    let checked = checked.map_err(|problems| ApiError::unprocessable(&problems))?;
    let account = account_of(&app, &checked.client_id, &id).await;
    let mut tx = caller.begin(&app, &id).await?;
    let revision = lock(tx.conn()).await?;
    let standing = store::standing(tx.conn(), &checked).await?;
    let verdict =
        verdict::judge(&checked, &standing).map_err(|problems| ApiError::unprocessable(&problems))?;
    let enabled = standing.own.as_ref().is_some_and(|own| own.enabled);
    let data = capability(&checked, enabled);
    if verdict == Verdict::Same {
        tx.unchanged().await?;
        return Ok(AtRevision { revision, data });
    }
    refuse_removal_in_use(&mut tx, &checked, &standing).await?;
    store::write(&mut tx, &checked, account.as_ref()).await?;
    let revision = bump(tx.conn()).await?;
    tx.commit(&event(&checked, &standing)).await?;
    app.follower.look();
    app.backends.look();
    Ok(AtRevision { revision, data })
}

/// Returns the account of the app's client. If identity cannot answer, the app is registered without a backend; the
/// worker in `backends` finds it later.
async fn account_of(app: &App, client_id: &str, id: &CorrelationId) -> Option<Subject> {
    match app.backends.identity.account_of(client_id, id).await {
        Ok(found) => found,
        Err(error) => {
            tracing::warn!(%error, client_id, "could not look up the account of an app's client");
            None
        }
    }
}

/// Refuses a version that removes an object type or relation with tuples, which would lose their meaning.
async fn refuse_removal_in_use(
    tx: &mut AuditedTx,
    checked: &Checked,
    standing: &Standing,
) -> Result<(), ApiError> {
    let mut problems = Vec::new();
    for removed in verdict::removed(checked, standing) {
        if store::has_tuples(tx.conn(), &removed).await? {
            problems.push(removed.problem());
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(ApiError::unprocessable(&problems)) }
}

fn capability(checked: &Checked, enabled: bool) -> Capability {
    Capability {
        module: checked.key.clone(),
        installed: true,
        enabled,
        dependencies: Vec::new(),
        missing_dependencies: Vec::new(),
        state: None,
    }
}

fn event(checked: &Checked, standing: &Standing) -> AuditEvent {
    let own = standing.own.as_ref();
    let mut payload = Map::new();
    let version = checked.version.to_string();
    payload.insert(
        "version".to_owned(),
        json!({ "from": own.map(|own| own.version.to_string()), "to": version }),
    );
    let client = own.map(|own| own.client_id.as_str());
    if client != Some(checked.client_id.as_str()) {
        payload.insert("serviceClientId".to_owned(), json!({ "from": client, "to": checked.client_id }));
    }
    let action = if own.is_some() { "app.updated" } else { "app.registered" };
    AuditEvent {
        company: None,
        action,
        subject: format!("app:{}", checked.key),
        payload: Value::Object(payload),
    }
}
