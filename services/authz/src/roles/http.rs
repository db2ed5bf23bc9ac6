//! `POST /internal/authz/platform-roles`, `DELETE /internal/authz/platform-roles/{role}/{subjectId}`. The bearer must
//! hold the role itself, whatever the gateway has checked, and must still hold it once the guard is locked: a write
//! that waited while its actor's role was revoked is refused. The bearer is the actor of the audit row.

use axum::extract::State;
use contract::Subject;
use contract::decision::{MAX_NAME, SUPERADMIN};
use contract::fields::{Fields, FromBody, Text};
use serde::Serialize;
use service::{ApiError, AuditedTx, Correlation, Data, PathParams, RawBody, Superadmin};

use super::{Change, rules, store};
use crate::App;

/// `PlatformRoleRequest`; also the answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlatformRole {
    subject_id: Subject,
    role: String,
}

impl FromBody for PlatformRole {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let subject_id = fields.subject("subjectId");
        let role = fields.text("role", Text::line(MAX_NAME));
        Some(Self { subject_id: subject_id?, role: role? })
    }
}

/// Grants the role. For a holder it answers 200 and writes nothing.
pub async fn grant(
    State(app): State<App>,
    caller: Superadmin,
    Correlation(correlation): Correlation,
    body: RawBody,
) -> Result<Data<PlatformRole>, ApiError> {
    let wanted: PlatformRole = body.parse()?;
    require_superadmin(&wanted.role)?;
    let subject = wanted.subject_id.as_str();
    let mut tx = app.core.begin(&caller.subject, &correlation).await?;
    store::lock_guard(tx.conn()).await?;
    caller.confirm(&app, &correlation).await?;
    if !store::is_known(tx.conn(), subject).await? {
        return Err(ApiError::NotFound("subject".into()));
    }
    if store::add(tx.conn(), subject).await? {
        commit(tx, subject, Change::Granted, correlation.as_str()).await?;
    } else {
        tx.unchanged().await?;
    }
    Ok(Data(wanted))
}

/// Revokes the role, except from the last holder.
pub async fn revoke(
    State(app): State<App>,
    caller: Superadmin,
    Correlation(correlation): Correlation,
    path: PathParams,
) -> Result<Data<PlatformRole>, ApiError> {
    require_superadmin(path.text("role"))?;
    let held = || ApiError::NotFound("holder of the platform role".into());
    let subject = path.subject("subjectId").ok_or_else(held)?;
    let mut tx = app.core.begin(&caller.subject, &correlation).await?;
    store::lock_guard(tx.conn()).await?;
    caller.confirm(&app, &correlation).await?;
    rules::may_revoke(subject.as_str(), &store::holders(tx.conn()).await?)?;
    store::remove(tx.conn(), subject.as_str()).await?;
    commit(tx, subject.as_str(), Change::Revoked, correlation.as_str()).await?;
    Ok(Data(PlatformRole { subject_id: subject, role: SUPERADMIN.to_owned() }))
}

async fn commit(mut tx: AuditedTx, subject: &str, change: Change, correlation: &str) -> Result<(), ApiError> {
    let actor = tx.actor().to_owned();
    store::write_ledger(tx.conn(), subject, change, &actor, Some(correlation)).await?;
    tx.commit(&change.event(subject)).await
}

fn require_superadmin(role: &str) -> Result<(), ApiError> {
    if role == SUPERADMIN {
        return Ok(());
    }
    Err(ApiError::unprocessable_field("role", "enum", format!("only {SUPERADMIN}")))
}
