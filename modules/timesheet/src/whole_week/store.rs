//! `timesheet.entries` of one week, and the projects that its rows name.

use std::collections::BTreeMap;

use service::{ApiError, AuditedTx, Permit};
use uuid::Uuid;

use crate::entries::rules::EntryId;
use crate::projects::rules::{ProjectId, Status};

/// The status of those of the projects that the company has; they do not change until the transaction ends.
pub(super) async fn projects(
    tx: &mut AuditedTx,
    permit: &Permit,
    ids: &[ProjectId],
) -> Result<BTreeMap<ProjectId, Status>, ApiError> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.as_uuid()).collect();
    let rows = sqlx::query!(
        "SELECT id, status FROM timesheet.projects WHERE company_id = $1 AND id = ANY($2) ORDER BY id FOR SHARE",
        permit.company.as_uuid(),
        &ids
    )
    .fetch_all(tx.conn())
    .await?;
    let known = rows.into_iter().map(|row| {
        let unknown =
            || ApiError::internal(format!("project {} has the unknown status \"{}\"", row.id, row.status));
        Ok((ProjectId::from(row.id), Status::of_word(&row.status).ok_or_else(unknown)?))
    });
    known.collect()
}

/// Drops entries of a week that is locked.
pub(super) async fn drop_entries(
    tx: &mut AuditedTx,
    permit: &Permit,
    ids: &[EntryId],
) -> Result<(), ApiError> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.as_uuid()).collect();
    sqlx::query!(
        "DELETE FROM timesheet.entries WHERE company_id = $1 AND id = ANY($2)",
        permit.company.as_uuid(),
        &ids
    )
    .execute(tx.conn())
    .await?;
    Ok(())
}
