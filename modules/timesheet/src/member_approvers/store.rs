//! `timesheet.member_approvers`, and the approvers of submissions that wait for a decision.
//!
//! A submission gets its approver when it is created. To keep one from being created with the old approver while a
//! change looks for waiting submissions, both take the member's advisory lock: a change exclusively, submissions
//! shared. A row lock would not do, because a member without an assignment has no row.

use contract::id::{CompanyId, MemberId};
use contract::page::{Page, PageRequest};
use contract::timestamp::Timestamp;
use service::{ApiError, CompanyTx, Permit, Reads, page};
use time::OffsetDateTime;
use uuid::Uuid;

use super::rules::{Assignment, Wish};
use crate::submissions;

/// A submission that was moved to another approver.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repointed {
    pub(super) submission: Uuid,
    pub(super) from: Option<MemberId>,
}

/// Lists one page, ordered by member.
pub(super) async fn list(
    reads: &Reads,
    permit: &Permit,
    page: PageRequest,
) -> Result<Page<Assignment>, ApiError> {
    let rows = |limit: i64, offset: i64| {
        sqlx::query!(
            r#"SELECT member_id, approver_member_id, assigned_at, count(*) OVER () AS "total!"
           FROM timesheet.member_approvers WHERE company_id = $1
           ORDER BY member_id LIMIT $2 OFFSET $3"#,
            permit.company.as_uuid(),
            limit,
            offset
        )
        .fetch_all(reads)
    };
    let company = permit.company;
    page::load(
        page,
        rows,
        |row| row.total,
        |row| Ok(assignment(company, row.member_id, row.approver_member_id, row.assigned_at)),
    )
    .await
}

/// Takes the exclusive lock to change the member's approver.
pub(super) async fn lock(tx: &mut CompanyTx, member: MemberId) -> Result<(), ApiError> {
    sqlx::query!("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", lock_name(tx, member))
        .execute(tx.conn())
        .await?;
    Ok(())
}

/// Reads the member's approver, and keeps it from changing until the transaction ends.
pub(crate) async fn approver_of(tx: &mut CompanyTx, member: MemberId) -> Result<Option<MemberId>, ApiError> {
    sqlx::query!("SELECT pg_advisory_xact_lock_shared(hashtextextended($1, 0))", lock_name(tx, member))
        .execute(tx.conn())
        .await?;
    Ok(find(tx, member).await?.map(|assignment| assignment.approver_member_id))
}

fn lock_name(tx: &CompanyTx, member: MemberId) -> String {
    format!("timesheet.member_approvers/{}/{member}", tx.company())
}

/// Finds the member's assignment.
pub(super) async fn find(tx: &mut CompanyTx, member: MemberId) -> Result<Option<Assignment>, ApiError> {
    let row = sqlx::query!(
        "SELECT approver_member_id, assigned_at FROM timesheet.member_approvers
         WHERE company_id = $1 AND member_id = $2",
        tx.company().as_uuid(),
        member.as_uuid()
    )
    .fetch_optional(tx.conn())
    .await?;
    Ok(row.map(|row| assignment(tx.company(), member.as_uuid(), row.approver_member_id, row.assigned_at)))
}

/// Writes the assignment of a member that [`lock`] holds.
pub(super) async fn save(tx: &mut CompanyTx, wish: Wish) -> Result<Assignment, ApiError> {
    let row = sqlx::query!(
        "INSERT INTO timesheet.member_approvers(company_id, member_id, approver_member_id, assigned_by)
         VALUES ($1, $2, $3, $4)
         ON CONFLICT (company_id, member_id) DO UPDATE
           SET approver_member_id = excluded.approver_member_id, assigned_by = excluded.assigned_by, assigned_at = now()
         RETURNING assigned_at",
        tx.company().as_uuid(),
        wish.member.as_uuid(),
        wish.approver.as_uuid(),
        tx.actor()
    )
    .fetch_one(tx.conn())
    .await?;
    Ok(assignment(tx.company(), wish.member.as_uuid(), wish.approver.as_uuid(), row.assigned_at))
}

/// Moves the member's waiting submissions to the new approver; returns them with their former approvers.
pub(super) async fn repoint(tx: &mut CompanyTx, wish: Wish) -> Result<Vec<Repointed>, ApiError> {
    let waiting = sqlx::query!(
        "SELECT id, assigned_approver_member_id, week_start FROM timesheet.submissions
         WHERE company_id = $1 AND member_id = $2 AND is_current AND status = 'submitted'
           AND assigned_approver_member_id IS DISTINCT FROM $3
         ORDER BY id FOR UPDATE",
        tx.company().as_uuid(),
        wish.member.as_uuid(),
        wish.approver.as_uuid()
    )
    .fetch_all(tx.conn())
    .await?;
    let ids: Vec<Uuid> = waiting.iter().map(|row| row.id).collect();
    sqlx::query!(
        "UPDATE timesheet.submissions SET assigned_approver_member_id = $3
         WHERE company_id = $1 AND id = ANY($2)",
        tx.company().as_uuid(),
        &ids,
        wish.approver.as_uuid()
    )
    .execute(tx.conn())
    .await?;
    let from: Vec<_> = waiting
        .iter()
        .map(|row| (row.assigned_approver_member_id.map(MemberId::from), row.week_start))
        .collect();
    submissions::counts::shift(tx, &from, wish.approver).await?;
    let moved = waiting.into_iter().map(|row| Repointed {
        submission: row.id,
        from: row.assigned_approver_member_id.map(MemberId::from),
    });
    Ok(moved.collect())
}

fn assignment(company: CompanyId, member: Uuid, approver: Uuid, at: OffsetDateTime) -> Assignment {
    Assignment {
        company_id: company,
        member_id: member.into(),
        approver_member_id: approver.into(),
        assigned_at: Timestamp::from(at),
    }
}
