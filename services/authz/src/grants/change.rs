//! The transaction of a grant. Locks first: the catalog (shared with other grants, against registry), then the objects of
//! the request; only then is read what they belong to, so that two requests never anchor one object to two companies and
//! none relies on an anchor that is being taken away.

use serde_json::json;
use service::{ApiError, AuditEvent, AuditedTx};

use super::admission::Admission;
use super::anchors;
use super::request::{GrantsRequest, Op};
use super::store;

/// Writes; answers which tuples changed, as text, or `None` when the catalog is no longer the one that was judged by.
pub(super) async fn write(
    mut tx: AuditedTx,
    request: &GrantsRequest,
    admission: &Admission,
) -> Result<Option<Vec<String>>, ApiError> {
    store::lock_catalog(tx.conn()).await?;
    let objects = anchors::anchored(&request.tuples, &admission.sorted);
    let tiers = request.tuples.iter().map(|tuple| anchors::key(&tuple.object));
    store::lock_objects(tx.conn(), objects.iter().cloned().chain(tiers)).await?;
    if store::catalog_revision(tx.conn()).await? != admission.revision() {
        tx.unchanged().await?;
        return Ok(None);
    }
    let known = store::belongings(tx.conn(), request.company, &objects, &admission.sorted).await?;
    let problems = anchors::problems(request.company, &request.tuples, &admission.sorted, known);
    if !problems.is_empty() {
        return Err(ApiError::unprocessable(&problems));
    }
    admission.may_change_tiers(request.company)?;
    let changed = match request.op {
        Op::Grant => store::add(tx.conn(), &request.tuples).await?,
        Op::Revoke => store::remove(tx.conn(), &request.tuples).await?,
    };
    finish(tx, request, &changed).await?;
    Ok(Some(changed))
}

/// No change, no audit row.
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

/// The audit row's action.
const fn action(op: Op) -> &'static str {
    match op {
        Op::Grant => "tuples.granted",
        Op::Revoke => "tuples.revoked",
    }
}
