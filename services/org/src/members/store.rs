//! Rows of `org.members`.

use contract::Subject;
use contract::id::{CompanyId, MemberId};
use contract::page::{Page, PageRequest};
use service::ApiError;
use sqlx::{PgConnection, PgExecutor, PgPool};
use uuid::Uuid;

use super::rules::OrgMember;

struct Row {
    id: Uuid,
    company_id: Uuid,
    code: String,
    display_name: String,
    email: Option<String>,
    user_id: Option<String>,
    is_active: bool,
}

impl From<Row> for OrgMember {
    fn from(row: Row) -> Self {
        Self {
            id: row.id.into(),
            company_id: row.company_id.into(),
            code: row.code,
            display_name: row.display_name,
            email: row.email,
            user_id: row.user_id,
            is_active: row.is_active,
        }
    }
}

/// Returns the member with this id.
pub(crate) async fn find(db: impl PgExecutor<'_>, id: MemberId) -> sqlx::Result<Option<OrgMember>> {
    let row = sqlx::query_as!(
        Row,
        "SELECT id, company_id, code, display_name, email, user_id, is_active FROM org.members WHERE id = $1",
        id.as_uuid()
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(OrgMember::from))
}

/// Returns the member with this id and locks its row until the transaction ends.
pub(crate) async fn lock(conn: &mut PgConnection, id: MemberId) -> sqlx::Result<Option<OrgMember>> {
    let row = sqlx::query_as!(
        Row,
        "SELECT id, company_id, code, display_name, email, user_id, is_active FROM org.members WHERE id = $1
            FOR UPDATE",
        id.as_uuid()
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(OrgMember::from))
}

/// Returns a company's members with these ids and locks their rows, by id, until the transaction ends.
pub(crate) async fn lock_all(
    conn: &mut PgConnection,
    company: CompanyId,
    ids: &[MemberId],
) -> sqlx::Result<Vec<OrgMember>> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.as_uuid()).collect();
    let rows = sqlx::query_as!(
        Row,
        "SELECT id, company_id, code, display_name, email, user_id, is_active FROM org.members
          WHERE company_id = $1 AND id = ANY($2) ORDER BY id FOR UPDATE",
        company.as_uuid(),
        &ids,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(OrgMember::from).collect())
}

/// Returns the salt of the names in a member's audit rows; `None` for a former member.
pub(super) async fn name_salt(conn: &mut PgConnection, id: MemberId) -> sqlx::Result<Option<Vec<u8>>> {
    let found = sqlx::query_scalar!("SELECT name_salt FROM org.members WHERE id = $1", id.as_uuid());
    Ok(found.fetch_optional(conn).await?.flatten())
}

/// Adds a member and returns the salt of the names in its audit rows, or `None` if there is no such company.
///
/// # Errors
/// 409 if the code is taken in the company.
pub(crate) async fn insert(conn: &mut PgConnection, member: &OrgMember) -> Result<Option<Vec<u8>>, ApiError> {
    let added = sqlx::query_scalar!(
        "INSERT INTO org.members(id, company_id, code, display_name, email)
         SELECT $1, id, $3, $4, $5 FROM org.units WHERE id = $2 AND type_key = 'company' RETURNING name_salt",
        member.id.as_uuid(),
        member.company_id.as_uuid(),
        member.code,
        member.display_name,
        member.email,
    )
    .fetch_optional(conn)
    .await;
    added.map(Option::flatten).map_err(refusal)
}

/// Stores a changed member.
///
/// # Errors
/// 409 if another linked member of the company has the same address.
pub(crate) async fn update(conn: &mut PgConnection, member: &OrgMember) -> Result<(), ApiError> {
    let changed = sqlx::query!(
        "UPDATE org.members SET display_name = $2, email = $3, is_active = $4, updated_at = now() WHERE id = $1",
        member.id.as_uuid(),
        member.display_name,
        member.email,
        member.is_active,
    )
    .execute(conn)
    .await;
    changed.map(|_| ()).map_err(refusal)
}

/// Links a member to a subject, or unlinks it if `subject` is `None`.
///
/// # Errors
/// 409 if another member of the company is linked to the subject, or another linked member has the same address.
pub(crate) async fn link(
    conn: &mut PgConnection,
    id: MemberId,
    subject: Option<&Subject>,
) -> Result<(), ApiError> {
    let changed = sqlx::query!(
        "UPDATE org.members SET user_id = $2, updated_at = now() WHERE id = $1",
        id.as_uuid(),
        subject.map(Subject::as_str),
    )
    .execute(conn)
    .await;
    changed.map(|_| ()).map_err(refusal)
}

fn refusal(error: sqlx::Error) -> ApiError {
    let constraint = error.as_database_error().and_then(sqlx::error::DatabaseError::constraint);
    match constraint {
        Some("members_code") => {
            ApiError::conflict_field("code", "another member of this company has this code")
        }
        Some("members_email") => {
            ApiError::conflict_field("email", "another linked member of this company has this address")
        }
        Some("members_user") => {
            ApiError::conflict_field("userId", "the user is linked to another member of this company")
        }
        _ => error.into(),
    }
}

/// Returns a page of a company's members, including inactive ones; empty for an unknown company.
pub(crate) async fn page(
    pool: &PgPool,
    company: CompanyId,
    request: PageRequest,
) -> sqlx::Result<Page<OrgMember>> {
    let rows = sqlx::query!(
        r#"WITH page AS MATERIALIZED (
             SELECT id, display_name FROM org.members WHERE company_id = $1
             ORDER BY display_name COLLATE "C", id LIMIT $2 OFFSET $3)
           SELECT m.id AS "id!", m.company_id AS "company_id!", m.code AS "code!", m.display_name AS "display_name!",
                  m.email, m.user_id, m.is_active AS "is_active!",
                  (SELECT members FROM org.member_counts WHERE company_id = $1) AS "total!"
             FROM page p CROSS JOIN LATERAL (
               SELECT id, company_id, code, display_name, email, user_id, is_active
                 FROM org.members WHERE id = p.id OFFSET 0) m
            ORDER BY p.display_name COLLATE "C", p.id"#,
        company.as_uuid(),
        request.limit(),
        request.offset(),
    )
    .fetch_all(pool)
    .await?;
    let total = match rows.first() {
        Some(row) => row.total,
        None => count(pool, company).await?,
    };
    let items = rows.into_iter().map(|row| OrgMember {
        id: row.id.into(),
        company_id: row.company_id.into(),
        code: row.code,
        display_name: row.display_name,
        email: row.email,
        user_id: row.user_id,
        is_active: row.is_active,
    });
    Ok(Page::new(request, items.collect(), total))
}

/// Reads the total for a page past the end, which has no row to carry it.
async fn count(pool: &PgPool, company: CompanyId) -> sqlx::Result<i64> {
    let kept =
        sqlx::query_scalar!("SELECT members FROM org.member_counts WHERE company_id = $1", company.as_uuid());
    kept.fetch_optional(pool).await.map(Option::unwrap_or_default)
}
