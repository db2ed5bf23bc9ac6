//! `timesheet.entries` of one week, and the projects of its rows.

use std::collections::BTreeMap;

use service::{ApiError, CompanyTx};
use uuid::Uuid;

use crate::entries::rules::EntryId;
use crate::projects::rules::{ProjectId, Status};

/// Reads the status of those of the projects that the company has, and keeps it from changing until the transaction
/// ends.
pub(super) async fn projects(
    tx: &mut CompanyTx,
    ids: &[ProjectId],
) -> Result<BTreeMap<ProjectId, Status>, ApiError> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.as_uuid()).collect();
    let rows = sqlx::query!(
        "SELECT id, status FROM timesheet.projects WHERE company_id = $1 AND id = ANY($2) ORDER BY id FOR SHARE",
        tx.company().as_uuid(),
        &ids
    )
    .fetch_all(tx.conn())
    .await?;
    rows.into_iter().map(|row| Ok((ProjectId::from(row.id), Status::of_word(&row.status)?))).collect()
}

/// Deletes entries of a locked week.
pub(super) async fn drop_entries(tx: &mut CompanyTx, ids: &[EntryId]) -> Result<(), ApiError> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.as_uuid()).collect();
    sqlx::query!(
        "DELETE FROM timesheet.entries WHERE company_id = $1 AND id = ANY($2)",
        tx.company().as_uuid(),
        &ids
    )
    .execute(tx.conn())
    .await?;
    Ok(())
}
