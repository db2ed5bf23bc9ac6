//! `helpdesk.tickets` and its counter. Lists read one row more than they may show, to detect truncation.

use contract::id::MemberId;
use contract::principal::Named;
use contract::{Principal, Subject};
use service::clients::org::{FoundPrincipal, MemberContext};
use service::{ApiError, CompanyTx, Permit, transaction};
use sqlx::{PgExecutor, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use super::rules::{MAX_ROWS, MAX_TEXT, Priority, Status, StoredTicket, TicketBody, TicketId};
use super::words;

pub(super) struct Row {
    id: Uuid,
    number: i64,
    title: String,
    description: String,
    status: String,
    priority: String,
    reporter_member_id: Uuid,
    assignee_member_id: Option<Uuid>,
    assignee_position_id: Option<Uuid>,
    assignee_group_id: Option<Uuid>,
    assignee_label: Option<String>,
    resolved_at: Option<OffsetDateTime>,
    created_at: OffsetDateTime,
    updated_at: OffsetDateTime,
}

/// Selects tickets; the tail names the table `t`.
macro_rules! tickets {
    ($tail:literal, $($value:expr),+ $(,)?) => {
        sqlx::query_as!(
            Row,
            "SELECT t.id, t.number, t.title, t.description, t.status, t.priority, t.reporter_member_id,
               t.assignee_member_id, t.assignee_position_id, t.assignee_group_id, t.assignee_label, t.resolved_at,
               t.created_at, t.updated_at "
                + $tail,
            $($value),+
        )
    };
}

/// Selects those of the rows `found`, in list order, that are preceded by at most `$bound` bytes of text.
/// `octet_length` does not read the stored text.
macro_rules! bounded {
    ($found:literal, $bound:literal, $($value:expr),+ $(,)?) => {
        sqlx::query_as!(
            Row,
            "SELECT t.id, t.number, t.title, t.description, t.status, t.priority, t.reporter_member_id,
               t.assignee_member_id, t.assignee_position_id, t.assignee_group_id, t.assignee_label, t.resolved_at,
               t.created_at, t.updated_at
             FROM (SELECT found.*, sum(octet_length(found.title) + octet_length(found.description)) OVER (
                 ORDER BY found.updated_at DESC, found.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
               FROM "
                + $found
                + ") AS t WHERE COALESCE(t.before, 0) <= "
                + $bound
                + "::bigint ORDER BY t.updated_at DESC, t.id",
            $($value),+
        )
    };
}

/// One more row than a list may have.
fn limit() -> i64 {
    i64::try_from(MAX_ROWS).map_or(i64::MAX, |rows| rows + 1)
}

/// The most text in a list, in bytes.
fn max_text() -> i64 {
    i64::try_from(MAX_TEXT).unwrap_or(i64::MAX)
}

/// Lists the company's tickets, last change first, optionally of one status only.
pub(super) async fn list_all(
    pool: &PgPool,
    permit: &Permit,
    status: Option<Status>,
) -> Result<Vec<StoredTicket>, ApiError> {
    let company = permit.company.as_uuid();
    let rows = match status {
        None => {
            let all = bounded!(
                "(SELECT * FROM helpdesk.tickets WHERE company_id = $1 ORDER BY updated_at DESC, id LIMIT $2) AS found",
                "$3",
                company,
                limit(),
                max_text()
            );
            all.fetch_all(pool).await?
        }
        Some(status) => {
            let of_status = bounded!(
                "(SELECT * FROM helpdesk.tickets WHERE company_id = $1 AND status = $2
                  ORDER BY updated_at DESC, id LIMIT $3) AS found",
                "$4",
                company,
                status.word(),
                limit(),
                max_text()
            );
            of_status.fetch_all(pool).await?
        }
    };
    rows.into_iter().map(|row| row.ticket(permit)).collect()
}

/// Begins a transaction whose statement keeps its plan: the statement fixes the order of its steps, so a generic plan
/// suits any values, and planning would take longer than execution.
const BEGIN_GENERIC: &str =
    "BEGIN READ ONLY; SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL jit = off";

/// Lists the tickets that the caller reported or is assigned to, last change first. Each way in which a ticket can be
/// the caller's is read by its own index in list order, so a long list costs no more than its beginning. The rows of the
/// company that are found so are looked up by the smaller of the indexes on ids; `OFFSET 0` keeps the planner from joining
/// them by reading the whole table.
pub(super) async fn list_own(
    pool: &PgPool,
    permit: &Permit,
    status: Option<Status>,
    caller: Option<&MemberContext>,
) -> Result<Vec<StoredTicket>, ApiError> {
    let (member, positions, groups) = MemberContext::columns(caller);
    let rows = bounded!(
        "(
           SELECT own.id, own.updated_at FROM (
             (SELECT id, updated_at FROM helpdesk.tickets
               WHERE company_id = $1 AND reporter_member_id = $3 AND ($2::text IS NULL OR status = $2)
               ORDER BY updated_at DESC, id LIMIT $6)
             UNION
             (SELECT id, updated_at FROM helpdesk.tickets
               WHERE company_id = $1 AND assignee_member_id = $3 AND ($2::text IS NULL OR status = $2)
               ORDER BY updated_at DESC, id LIMIT $6)
             UNION
             (SELECT of_position.id, of_position.updated_at FROM unnest($4::uuid[]) AS held(id)
               CROSS JOIN LATERAL (SELECT id, updated_at FROM helpdesk.tickets
                 WHERE company_id = $1 AND assignee_position_id = held.id AND ($2::text IS NULL OR status = $2)
                 ORDER BY updated_at DESC, id LIMIT $6) AS of_position)
             UNION
             (SELECT of_group.id, of_group.updated_at FROM unnest($5::uuid[]) AS joined(id)
               CROSS JOIN LATERAL (SELECT id, updated_at FROM helpdesk.tickets
                 WHERE company_id = $1 AND assignee_group_id = joined.id AND ($2::text IS NULL OR status = $2)
                 ORDER BY updated_at DESC, id LIMIT $6) AS of_group)
           ) AS own ORDER BY own.updated_at DESC, own.id LIMIT $6) AS newest
         CROSS JOIN LATERAL (SELECT * FROM helpdesk.tickets WHERE id = newest.id OFFSET 0) AS found",
        "$7",
        permit.company.as_uuid(),
        status.map(Status::word),
        member,
        &positions,
        &groups,
        limit(),
        max_text()
    );
    let mut tx = transaction::begin(pool, BEGIN_GENERIC).await?;
    let found = rows.fetch_all(&mut *tx).await?;
    tx.commit().await?;
    found.into_iter().map(|row| row.ticket(permit)).collect()
}

/// Reads tickets of the company by id, in list order.
pub(super) async fn of_ids(
    executor: impl PgExecutor<'_>,
    permit: &Permit,
    ids: &[Uuid],
) -> Result<Vec<StoredTicket>, ApiError> {
    let rows = tickets!(
        "FROM helpdesk.tickets t WHERE t.company_id = $1 AND t.id = ANY($2::uuid[]) ORDER BY t.updated_at DESC, t.id",
        permit.company.as_uuid(),
        ids
    );
    rows.fetch_all(executor).await?.into_iter().map(|row| row.ticket(permit)).collect()
}

/// Finds a ticket of the company.
pub(crate) async fn find(
    pool: &PgPool,
    permit: &Permit,
    id: TicketId,
) -> Result<Option<StoredTicket>, ApiError> {
    let row = tickets!(
        "FROM helpdesk.tickets t WHERE t.company_id = $1 AND t.id = $2",
        permit.company.as_uuid(),
        id.as_uuid()
    );
    row.fetch_optional(pool).await?.map(|row| row.ticket(permit)).transpose()
}

/// Locks a ticket of the company until the transaction ends, and reads it.
pub(crate) async fn lock(
    tx: &mut CompanyTx,
    permit: &Permit,
    id: TicketId,
) -> Result<Option<StoredTicket>, ApiError> {
    let row = tickets!(
        "FROM helpdesk.tickets t WHERE t.company_id = $1 AND t.id = $2 FOR UPDATE",
        tx.company().as_uuid(),
        id.as_uuid()
    );
    row.fetch_optional(tx.conn()).await?.map(|row| row.ticket(permit)).transpose()
}

/// Opens a ticket with the company's next number. The counter's row stays locked until the transaction ends, so that
/// numbers are unique and without gaps.
pub(super) async fn insert(
    tx: &mut CompanyTx,
    reporter: MemberId,
    subject: &Subject,
    body: TicketBody,
) -> Result<StoredTicket, ApiError> {
    let (id, company) = (TicketId::mint(), tx.company());
    let TicketBody { title, description, priority } = body;
    let made = sqlx::query!(
        r#"WITH counted AS (
             INSERT INTO helpdesk.ticket_counters AS c(company_id, last_number) VALUES ($2, 1)
             ON CONFLICT (company_id) DO UPDATE SET last_number = c.last_number + 1 RETURNING last_number)
           INSERT INTO helpdesk.tickets(id, company_id, number, title, description, priority, reporter_member_id,
             reporter_kc_sub)
           SELECT $1, $2, counted.last_number, $3, $4, $5, $6, $7 FROM counted
           RETURNING number, created_at"#,
        id.as_uuid(),
        company.as_uuid(),
        title,
        description,
        priority.word(),
        reporter.as_uuid(),
        subject.as_str()
    )
    .fetch_one(tx.conn())
    .await?;
    words::insert(tx, id, made.number, (&title, &description)).await?;
    Ok(StoredTicket {
        id,
        company,
        number: made.number,
        title,
        description,
        status: Status::Open,
        priority,
        reporter,
        assignee: None,
        assignee_label: None,
        resolved_at: None,
        created_at: made.created_at.into(),
        updated_at: made.created_at.into(),
    })
}

/// Assigns a ticket that [`lock`] holds.
pub(super) async fn assign(
    tx: &mut CompanyTx,
    ticket: StoredTicket,
    to: Option<FoundPrincipal>,
) -> Result<StoredTicket, ApiError> {
    let assignee = to.as_ref().map(|to| to.principal);
    let id = |of: fn(Principal) -> Option<Uuid>| assignee.and_then(of);
    let updated_at = sqlx::query_scalar!(
        "UPDATE helpdesk.tickets SET assignee_kind = $3, assignee_member_id = $4, assignee_position_id = $5,
           assignee_group_id = $6, assignee_label = $7, updated_at = GREATEST(updated_at, now())
         WHERE company_id = $1 AND id = $2 AND status <> 'closed' RETURNING updated_at",
        tx.company().as_uuid(),
        ticket.id.as_uuid(),
        assignee.map(|to| to.kind().word()),
        id(|to| to.member().map(MemberId::as_uuid)),
        id(|to| to.position().map(contract::id::PositionId::as_uuid)),
        id(|to| to.group().map(contract::id::GroupId::as_uuid)),
        to.as_ref().map(|to| to.title.as_str())
    )
    .fetch_one(tx.conn())
    .await?;
    let label = to.map(|to| to.title);
    Ok(StoredTicket { assignee, assignee_label: label, updated_at: updated_at.into(), ..ticket })
}

/// Moves a ticket if its status and assignee are still those that the check used; otherwise returns `None`.
pub(crate) async fn move_on(
    tx: &mut CompanyTx,
    before: &StoredTicket,
    to: Status,
) -> Result<Option<StoredTicket>, ApiError> {
    let id = |of: fn(Principal) -> Option<Uuid>| before.assignee.and_then(of);
    let moved = sqlx::query!(
        "UPDATE helpdesk.tickets SET status = $4, updated_at = GREATEST(updated_at, now()),
           resolved_at = CASE WHEN $4 = 'resolved' THEN now() END
         WHERE company_id = $1 AND id = $2 AND status = $3
           AND (assignee_member_id, assignee_position_id, assignee_group_id) IS NOT DISTINCT FROM ($5::uuid, $6::uuid, $7::uuid)
         RETURNING updated_at, resolved_at",
        tx.company().as_uuid(),
        before.id.as_uuid(),
        before.status.word(),
        to.word(),
        id(|to| to.member().map(MemberId::as_uuid)),
        id(|to| to.position().map(contract::id::PositionId::as_uuid)),
        id(|to| to.group().map(contract::id::GroupId::as_uuid)),
    )
    .fetch_optional(tx.conn())
    .await?;
    Ok(moved.map(|moved| StoredTicket {
        status: to,
        resolved_at: moved.resolved_at,
        updated_at: moved.updated_at.into(),
        ..before.clone()
    }))
}

/// Updates the time of change of a ticket that [`lock`] holds.
pub(crate) async fn touch(tx: &mut CompanyTx, id: TicketId) -> Result<(), ApiError> {
    sqlx::query!(
        "UPDATE helpdesk.tickets SET updated_at = GREATEST(updated_at, now()) WHERE company_id = $1 AND id = $2",
        tx.company().as_uuid(),
        id.as_uuid()
    )
    .execute(tx.conn())
    .await?;
    Ok(())
}

impl Row {
    fn ticket(self, permit: &Permit) -> Result<StoredTicket, ApiError> {
        let (member, position) =
            (self.assignee_member_id.map(Into::into), self.assignee_position_id.map(Into::into));
        Ok(StoredTicket {
            id: self.id.into(),
            company: permit.company,
            number: self.number,
            title: self.title,
            description: self.description,
            status: Status::of_word(&self.status)?,
            priority: Priority::of_word(&self.priority)?,
            reporter: MemberId::from(self.reporter_member_id),
            // The table's check constraint: at most one of the three is set.
            assignee: Named::of(member, position, self.assignee_group_id.map(Into::into)).one(),
            assignee_label: self.assignee_label,
            resolved_at: self.resolved_at,
            created_at: self.created_at.into(),
            updated_at: self.updated_at.into(),
        })
    }
}
