//! Rows of `org.assignments`. Dates come from the database's clock, in UTC.

use contract::id::{AssignmentId, CompanyId, MemberId, PositionId};
use sqlx::types::time::Date;
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use super::rules::{Day, OrgAssignment, Placed};

struct Row {
    id: Uuid,
    position_id: Uuid,
    member_id: Uuid,
    valid_from: Date,
    valid_to: Option<Date>,
}

impl From<Row> for OrgAssignment {
    fn from(row: Row) -> Self {
        Self {
            id: row.id.into(),
            position_id: row.position_id.into(),
            member_id: row.member_id.into(),
            valid_from: Day(row.valid_from),
            valid_to: row.valid_to.map(Day),
        }
    }
}

/// Returns the company of a position.
pub(super) async fn company_of(
    conn: &mut PgConnection,
    position: PositionId,
) -> sqlx::Result<Option<CompanyId>> {
    let company =
        sqlx::query_scalar!("SELECT company_id FROM org.positions WHERE id = $1", position.as_uuid())
            .fetch_optional(conn)
            .await?;
    Ok(company.map(CompanyId::from))
}

/// Locks a position until the transaction ends, so that its terms do not overlap.
pub(super) async fn hold_position(conn: &mut PgConnection, position: PositionId) -> sqlx::Result<()> {
    sqlx::query!("SELECT id FROM org.positions WHERE id = $1 FOR UPDATE", position.as_uuid())
        .fetch_optional(conn)
        .await?;
    Ok(())
}

/// Returns the open term of a position.
pub(super) async fn open_term(
    conn: &mut PgConnection,
    position: PositionId,
) -> sqlx::Result<Option<OrgAssignment>> {
    let row = sqlx::query_as!(
        Row,
        "SELECT id, position_id, member_id, valid_from, valid_to FROM org.assignments
          WHERE position_id = $1 AND valid_to IS NULL",
        position.as_uuid()
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(OrgAssignment::from))
}

/// Returns the assignment with this id.
pub(super) async fn find(db: impl PgExecutor<'_>, id: AssignmentId) -> sqlx::Result<Option<Placed>> {
    let row = sqlx::query!(
        "SELECT id, company_id, position_id, member_id, valid_from, valid_to FROM org.assignments WHERE id = $1",
        id.as_uuid()
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(|row| Placed {
        company: row.company_id.into(),
        assignment: OrgAssignment {
            id: row.id.into(),
            position_id: row.position_id.into(),
            member_id: row.member_id.into(),
            valid_from: Day(row.valid_from),
            valid_to: row.valid_to.map(Day),
        },
    }))
}

/// Starts a term today.
pub(super) async fn begin(
    conn: &mut PgConnection,
    company: CompanyId,
    position: PositionId,
    member: MemberId,
) -> sqlx::Result<OrgAssignment> {
    let row = sqlx::query_as!(
        Row,
        "INSERT INTO org.assignments(id, company_id, position_id, member_id, valid_from)
         VALUES ($1, $2, $3, $4, (now() AT TIME ZONE 'UTC')::date)
         RETURNING id, position_id, member_id, valid_from, valid_to",
        AssignmentId::mint().as_uuid(),
        company.as_uuid(),
        position.as_uuid(),
        member.as_uuid(),
    )
    .fetch_one(conn)
    .await?;
    Ok(row.into())
}

/// Ends an open term today; returns `None` if the term has already ended.
pub(super) async fn end(conn: &mut PgConnection, id: AssignmentId) -> sqlx::Result<Option<OrgAssignment>> {
    let row = sqlx::query_as!(
        Row,
        "UPDATE org.assignments SET valid_to = greatest(valid_from, (now() AT TIME ZONE 'UTC')::date)
          WHERE id = $1 AND valid_to IS NULL
          RETURNING id, position_id, member_id, valid_from, valid_to",
        id.as_uuid()
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(OrgAssignment::from))
}
