//! The transaction of a grant. It locks first: the guard of the platform role if the caller holds it, then the catalog
//! (shared with other grants, exclusive against registry), then the objects of the request. Only then does it read what
//! the objects belong to and whether the caller still has the right. Thus two requests never anchor one object to two
//! companies, no request relies on an anchor that is being removed, and a caller who is losing the right cannot restore
//! it.

use contract::id::CompanyId;
use serde_json::json;
use service::{ApiError, AuditEvent, AuditedTx, Caller};

use super::admission::Admission;
use super::anchors;
use super::request::{GrantsRequest, Op, Tuple};
use super::store;
use super::types::Sorted;
use crate::{App, roles};

/// Writes for the caller; returns the changed tuples as text, or `None` when the catalog has changed since the
/// judgement.
pub(super) async fn write(
    (app, caller): (&App, &Caller),
    mut tx: AuditedTx,
    request: &GrantsRequest,
    admission: &Admission,
) -> Result<Option<Vec<String>>, ApiError> {
    if admission.holds_role() {
        roles::lock_guard(tx.conn()).await?;
    }
    let locked = lock(&mut tx, request.company, &request.tuples, &admission.sorted, admission.revision());
    if !locked.await? || !admission.judge_again(app, caller, request).await? {
        tx.unchanged().await?;
        return Ok(None);
    }
    let changed = match request.op {
        Op::Grant => store::add(tx.conn(), &request.tuples).await?,
        Op::Revoke => store::remove(tx.conn(), &request.tuples).await?,
    };
    finish(tx, request, &changed).await?;
    Ok(Some(changed))
}

/// Locks what the tuples name and checks that it belongs to the company; `false` when the catalog has another revision.
pub(super) async fn lock(
    tx: &mut AuditedTx,
    company: CompanyId,
    tuples: &[Tuple],
    sorted: &[Sorted],
    revision: i64,
) -> Result<bool, ApiError> {
    store::lock_catalog(tx.conn()).await?;
    let objects = anchors::anchored(tuples, sorted);
    let tiers = tuples.iter().map(|tuple| anchors::key(&tuple.object));
    store::lock_objects(tx.conn(), objects.iter().cloned().chain(tiers)).await?;
    if store::catalog_revision(tx.conn()).await? != revision {
        return Ok(false);
    }
    let known = store::belongings(tx.conn(), company, &objects, sorted).await?;
    let problems = anchors::problems(company, tuples, sorted, known);
    if problems.is_empty() { Ok(true) } else { Err(ApiError::unprocessable(&problems)) }
}

/// Commits with an audit row, unless nothing changed.
async fn finish(tx: AuditedTx, request: &GrantsRequest, changed: &[String]) -> Result<(), ApiError> {
    if changed.is_empty() {
        return tx.unchanged().await;
    }
    let event = AuditEvent {
        company: Some(request.company),
        action: action(request.op),
        subject: format!("company:{}", request.company),
        payload: json!({ "tuples": changed, "requested": request.tuples.len() }),
    };
    tx.commit(&event).await
}

/// The action of the audit row.
const fn action(op: Op) -> &'static str {
    match op {
        Op::Grant => "tuples.granted",
        Op::Revoke => "tuples.revoked",
    }
}
