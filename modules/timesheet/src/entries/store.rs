//! `timesheet.entries`. Writes happen under the lock of the member's week.

use contract::Day;
use contract::id::MemberId;
use service::{ApiError, CompanyTx, Permit, Reads};

use super::rules::{Content, Entry, EntryBody, EntryId, EntryStatus, Hours, Sums};
use crate::projects::rules::{ProjectId, Status as ProjectStatus};
use crate::weeks::rules::{Status, Week};

/// Lists a member's entries of a week, by day and project code.
pub(crate) async fn list(
    reads: &Reads,
    permit: &Permit,
    member: MemberId,
    week: Week,
) -> Result<Vec<Entry>, ApiError> {
    let rows = sqlx::query!(
        r#"SELECT e.id, e.project_id, e.entry_date, (e.real_hours * 100)::int AS "real!",
             (e.billable_hours * 100)::int AS "billable!", e.note, s.status AS "status?"
           FROM timesheet.entries e
           JOIN timesheet.projects p ON p.company_id = e.company_id AND p.id = e.project_id
           LEFT JOIN timesheet.submissions s ON s.company_id = e.company_id AND s.member_id = e.member_id
             AND s.week_start = e.week_start AND s.is_current
           WHERE e.company_id = $1 AND e.member_id = $2 AND e.week_start = $3
           ORDER BY e.entry_date, p.code COLLATE "C""#,
        permit.company.as_uuid(),
        member.as_uuid(),
        week.monday()
    )
    .fetch_all(reads)
    .await?;
    let entries = rows.into_iter().map(|row| {
        let current = row.status.as_deref().map(Status::of_word).transpose()?;
        let content = Content {
            project_id: row.project_id.into(),
            entry_date: Day::from(row.entry_date),
            real_hours: Hours::of_hundredths(row.real),
            billable_hours: Hours::of_hundredths(row.billable),
            note: row.note,
        };
        let (company_id, status) = (permit.company, EntryStatus::of(current));
        Ok(Entry { id: row.id.into(), company_id, member_id: member, content, status })
    });
    entries.collect()
}

/// Lists a member's entries of a locked week, by day and project.
pub(crate) async fn of_week(
    tx: &mut CompanyTx,
    member: MemberId,
    week: Week,
) -> Result<Vec<(EntryId, Content)>, ApiError> {
    let rows = sqlx::query!(
        r#"SELECT id, project_id, entry_date, (real_hours * 100)::int AS "real!",
             (billable_hours * 100)::int AS "billable!", note
           FROM timesheet.entries WHERE company_id = $1 AND member_id = $2 AND week_start = $3
           ORDER BY entry_date, project_id"#,
        tx.company().as_uuid(),
        member.as_uuid(),
        week.monday()
    )
    .fetch_all(tx.conn())
    .await?;
    let entries = rows.into_iter().map(|row| {
        let content = Content {
            project_id: row.project_id.into(),
            entry_date: Day::from(row.entry_date),
            real_hours: Hours::of_hundredths(row.real),
            billable_hours: Hours::of_hundredths(row.billable),
            note: row.note,
        };
        (row.id.into(), content)
    });
    Ok(entries.collect())
}

/// Finds the member's entry for the body's project and day.
pub(super) async fn find(
    tx: &mut CompanyTx,
    member: MemberId,
    body: &EntryBody,
) -> Result<Option<(EntryId, Content)>, ApiError> {
    let row = sqlx::query!(
        r#"SELECT id, (real_hours * 100)::int AS "real!", (billable_hours * 100)::int AS "billable!", note
           FROM timesheet.entries
           WHERE company_id = $1 AND member_id = $2 AND entry_date = $3 AND project_id = $4"#,
        tx.company().as_uuid(),
        member.as_uuid(),
        body.day.date(),
        body.project.as_uuid()
    )
    .fetch_optional(tx.conn())
    .await?;
    Ok(row.map(|row| {
        let content = Content {
            project_id: body.project,
            entry_date: body.day,
            real_hours: Hours::of_hundredths(row.real),
            billable_hours: Hours::of_hundredths(row.billable),
            note: row.note,
        };
        (row.id.into(), content)
    }))
}

/// Sums the member's hours of the day for other projects.
pub(super) async fn others(tx: &mut CompanyTx, member: MemberId, body: &EntryBody) -> Result<Sums, ApiError> {
    let row = sqlx::query!(
        r#"SELECT coalesce(sum(real_hours) * 100, 0)::int AS "real!",
             coalesce(sum(billable_hours) * 100, 0)::int AS "billable!"
           FROM timesheet.entries
           WHERE company_id = $1 AND member_id = $2 AND entry_date = $3 AND project_id <> $4"#,
        tx.company().as_uuid(),
        member.as_uuid(),
        body.day.date(),
        body.project.as_uuid()
    )
    .fetch_one(tx.conn())
    .await?;
    Ok(Sums { real: Hours::of_hundredths(row.real), billable: Hours::of_hundredths(row.billable) })
}

/// Reads the status of a project of the company, and keeps it from changing until the transaction ends.
pub(super) async fn project(tx: &mut CompanyTx, id: ProjectId) -> Result<Option<ProjectStatus>, ApiError> {
    let word = sqlx::query_scalar!(
        "SELECT status FROM timesheet.projects WHERE company_id = $1 AND id = $2 FOR SHARE",
        tx.company().as_uuid(),
        id.as_uuid()
    )
    .fetch_optional(tx.conn())
    .await?;
    Ok(word.as_deref().map(ProjectStatus::of_word).transpose()?)
}

/// Writes an entry of a week that is locked.
pub(crate) async fn save(
    tx: &mut CompanyTx,
    member: MemberId,
    id: EntryId,
    content: &Content,
) -> Result<(), ApiError> {
    sqlx::query!(
        "INSERT INTO timesheet.entries(id, company_id, member_id, week_start, project_id, entry_date, real_hours,
           billable_hours, note)
         VALUES ($1, $2, $3, $4, $5, $6, $7::int / 100.0, $8::int / 100.0, $9)
         ON CONFLICT (company_id, member_id, entry_date, project_id) DO UPDATE
           SET real_hours = excluded.real_hours, billable_hours = excluded.billable_hours, note = excluded.note,
             updated_at = now()",
        id.as_uuid(),
        tx.company().as_uuid(),
        member.as_uuid(),
        Week::of(content.entry_date).monday(),
        content.project_id.as_uuid(),
        content.entry_date.date(),
        content.real_hours.hundredths(),
        content.billable_hours.hundredths(),
        content.note
    )
    .execute(tx.conn())
    .await?;
    Ok(())
}
