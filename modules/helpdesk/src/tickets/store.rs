//! `helpdesk.tickets`.

use contract::id::MemberId;
use contract::principal::Named;
use service::clients::org::MemberContext;
use service::{ApiError, Permit};
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::rules::{MAX_ROWS, Status, StoredTicket, View};

/// Which tickets of the company are wanted.
pub(super) struct Selection<'a> {
    /// The caller's, or all.
    pub(super) view: View,
    /// Of one status, or of any.
    pub(super) status: Option<Status>,
    /// Needed for the caller's.
    pub(super) caller: Option<&'a MemberContext>,
}

struct Row {
    id: Uuid,
    title: String,
    description: String,
    status: String,
    reporter_member_id: Uuid,
    assignee_member_id: Option<Uuid>,
    assignee_position_id: Option<Uuid>,
    assignee_group_id: Option<Uuid>,
    assignee_label: Option<String>,
    created_at: OffsetDateTime,
    updated_at: OffsetDateTime,
}

/// The newest of the wanted tickets: one more than a list may have, when there are more.
pub(super) async fn list(
    pool: &PgPool,
    permit: &Permit,
    selection: &Selection<'_>,
) -> Result<Vec<StoredTicket>, ApiError> {
    let caller = selection.caller;
    let (member, positions, groups) = MemberContext::columns(caller);
    let limit = i64::try_from(MAX_ROWS + 1).map_err(ApiError::internal)?;
    let rows = sqlx::query_as!(
        Row,
        r#"SELECT id, title, description, status, reporter_member_id, assignee_member_id, assignee_position_id,
             assignee_group_id, assignee_label, created_at, updated_at
           FROM helpdesk.tickets
           WHERE company_id = $1 AND ($2::text IS NULL OR status = $2)
             AND ($3::bool OR reporter_member_id = $4::uuid OR assignee_member_id = $4::uuid
               OR assignee_position_id = ANY($5::uuid[]) OR assignee_group_id = ANY($6::uuid[]))
           ORDER BY updated_at DESC, id LIMIT $7"#,
        permit.company.as_uuid(),
        selection.status.map(Status::word),
        selection.view == View::All,
        member,
        &positions,
        &groups,
        limit
    )
    .fetch_all(pool)
    .await?;
    rows.into_iter().map(|row| ticket(permit, row)).collect()
}

fn ticket(permit: &Permit, row: Row) -> Result<StoredTicket, ApiError> {
    let (member, position) =
        (row.assignee_member_id.map(Into::into), row.assignee_position_id.map(Into::into));
    Ok(StoredTicket {
        id: row.id.into(),
        company: permit.company,
        title: row.title,
        description: row.description,
        status: Status::of_word(&row.status)?,
        reporter: MemberId::from(row.reporter_member_id),
        // The table's check: at most one of the three.
        assignee: Named::of(member, position, row.assignee_group_id.map(Into::into)).one(),
        assignee_label: row.assignee_label,
        created_at: row.created_at.into(),
        updated_at: row.updated_at.into(),
    })
}
