//! `helpdesk.bindings` and `helpdesk.admin_guard`.

use contract::id::{CompanyId, GroupId, MemberId, PositionId};
use contract::principal::Named;
use contract::{Principal, Subject};
use serde_json::json;
use service::db::on_constraint;
use service::refusal::conflict;
use service::{ApiError, AuditedTx, Permit};
use sqlx::{PgConnection, PgExecutor, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use super::rules::{BoundTier, StoredBinding};

struct Row {
    id: Uuid,
    company_id: Uuid,
    member_id: Option<Uuid>,
    position_id: Option<Uuid>,
    group_id: Option<Uuid>,
    kc_sub: Option<String>,
    label: Option<String>,
    tier: String,
    granted_by: String,
    created_at: OffsetDateTime,
}

impl Row {
    fn binding(self) -> Result<StoredBinding, ApiError> {
        let (member, position) = (self.member_id.map(Into::into), self.position_id.map(Into::into));
        let principal = Named::of(member, position, self.group_id.map(Into::into)).one();
        Ok(StoredBinding {
            id: self.id.into(),
            company: self.company_id.into(),
            principal: principal.ok_or_else(|| ApiError::internal("a binding without a subject"))?,
            kc_sub: self.kc_sub,
            label: self.label,
            tier: BoundTier::of_word(&self.tier)?,
            granted_by: self.granted_by,
            created_at: self.created_at.into(),
        })
    }
}

/// Selects bindings; the tail begins with the condition.
macro_rules! bindings {
    ($tail:literal, $($value:expr),+ $(,)?) => {
        sqlx::query_as!(
            Row,
            "SELECT id, company_id, member_id, position_id, group_id, kc_sub, label, tier, granted_by, created_at
             FROM helpdesk.bindings " + $tail,
            $($value),+
        )
    };
}

/// Lists bindings whose tuples exist or may exist, oldest first.
pub(super) async fn list(pool: &PgPool, permit: &Permit) -> Result<Vec<StoredBinding>, ApiError> {
    let rows = bindings!(
        "WHERE company_id = $1 AND state <> 'pending' ORDER BY created_at, id",
        permit.company.as_uuid()
    )
    .fetch_all(pool)
    .await?;
    rows.into_iter().map(Row::binding).collect()
}

/// Finds a binding in any state.
pub(super) async fn find(
    conn: &mut PgConnection,
    company: CompanyId,
    id: Uuid,
) -> Result<Option<StoredBinding>, ApiError> {
    let row = bindings!("WHERE company_id = $1 AND id = $2", company.as_uuid(), id);
    row.fetch_optional(conn).await?.map(Row::binding).transpose()
}

/// Finds the binding of a principal to a tier, with the word of its state.
pub(super) async fn of(
    executor: impl PgExecutor<'_>,
    company: CompanyId,
    principal: Principal,
    tier: BoundTier,
) -> Result<Option<(Uuid, String)>, ApiError> {
    let found = sqlx::query!(
        "SELECT id, state FROM helpdesk.bindings
         WHERE company_id = $1 AND tier = $2 AND (member_id = $3 OR position_id = $4 OR group_id = $5)",
        company.as_uuid(),
        tier.word(),
        principal.member().map(MemberId::as_uuid),
        principal.position().map(PositionId::as_uuid),
        principal.group().map(GroupId::as_uuid)
    )
    .fetch_optional(executor)
    .await?;
    Ok(found.map(|found| (found.id, found.state)))
}

/// Locks the company's bindings against other insertions until the transaction ends.
pub(super) async fn lock(tx: &mut AuditedTx, company: CompanyId) -> Result<(), ApiError> {
    let name = format!("helpdesk.bindings:{company}");
    sqlx::query!("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", name).execute(tx.conn()).await?;
    Ok(())
}

/// The number of bindings of the company, in any state.
pub(super) async fn count(tx: &mut AuditedTx, company: CompanyId) -> Result<usize, ApiError> {
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM helpdesk.bindings WHERE company_id = $1"#,
        company.as_uuid()
    );
    usize::try_from(count.fetch_one(tx.conn()).await?).map_err(ApiError::internal)
}

/// Adds a `pending` binding; returns false when the principal is already bound to this tier, in any state.
pub(super) async fn insert(tx: &mut AuditedTx, made: &StoredBinding) -> Result<bool, ApiError> {
    let done = sqlx::query!(
        "INSERT INTO helpdesk.bindings(id, company_id, binding_kind, member_id, position_id, group_id, kc_sub, label,
           tier, state, granted_by)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'pending', $10) ON CONFLICT DO NOTHING",
        made.id.as_uuid(),
        made.company.as_uuid(),
        made.principal.kind().word(),
        made.principal.member().map(MemberId::as_uuid),
        made.principal.position().map(PositionId::as_uuid),
        made.principal.group().map(GroupId::as_uuid),
        made.kc_sub,
        made.label,
        made.tier.word(),
        made.granted_by
    )
    .execute(tx.conn())
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Counts an administrator binding that has become active. Creates the company's counter row if there is none.
pub(super) async fn count_up(tx: &mut AuditedTx, company: CompanyId) -> Result<(), ApiError> {
    sqlx::query!(
        "INSERT INTO helpdesk.admin_guard AS g(company_id, active_bindings) VALUES ($1, 1)
         ON CONFLICT (company_id) DO UPDATE SET active_bindings = g.active_bindings + 1",
        company.as_uuid()
    )
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Counts an administrator binding that is no longer active. The row stays locked until the transaction ends, and its
/// check constraint keeps the last one.
pub(super) async fn count_down(tx: &mut AuditedTx, company: CompanyId) -> Result<(), ApiError> {
    let done = sqlx::query!(
        "UPDATE helpdesk.admin_guard SET active_bindings = active_bindings - 1 WHERE company_id = $1",
        company.as_uuid()
    )
    .execute(tx.conn())
    .await
    .map_err(|error| {
        on_constraint(error, "admin_guard_active_bindings_check", || last_administrator("none"))
    })?;
    if done.rows_affected() == 1 { Ok(()) } else { Err(ApiError::internal("an admin_guard row is missing")) }
}

/// Like [`count_down`], for a binding that must go even if it is the last one: then the company's counter row is
/// deleted, as before its first binding.
pub(super) async fn count_out(tx: &mut AuditedTx, company: CompanyId) -> Result<(), ApiError> {
    let held = sqlx::query_scalar!(
        "SELECT active_bindings FROM helpdesk.admin_guard WHERE company_id = $1 FOR UPDATE",
        company.as_uuid()
    )
    .fetch_one(tx.conn())
    .await?;
    if held > 1 {
        return count_down(tx, company).await;
    }
    sqlx::query!("DELETE FROM helpdesk.admin_guard WHERE company_id = $1", company.as_uuid())
        .execute(tx.conn())
        .await?;
    Ok(())
}

/// The number of active administrator bindings of the company.
pub(super) async fn administrators(tx: &mut AuditedTx, company: CompanyId) -> Result<i64, ApiError> {
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM helpdesk.bindings
           WHERE company_id = $1 AND tier = 'admin' AND state = 'active'"#,
        company.as_uuid()
    );
    Ok(count.fetch_one(tx.conn()).await?)
}

/// A member's binding with the login that its tuple names or may name.
pub(super) struct BoundLogin {
    pub(super) company: CompanyId,
    pub(super) id: Uuid,
    pub(super) member: MemberId,
    pub(super) kc_sub: String,
    tier: String,
}

impl BoundLogin {
    /// The member row and the login that it had.
    pub(super) fn row(&self) -> Result<(MemberId, Subject), ApiError> {
        let login = Subject::parse(&self.kc_sub);
        Ok((self.member, login.ok_or_else(|| ApiError::internal("a stored subject is malformed"))?))
    }
}

/// The present and recent bindings of a login in a company.
pub(super) struct Bindings {
    pub(super) bound: Vec<BoundLogin>,
    /// Whether a binding of the login ended within [`LATELY_SECONDS`].
    pub(super) was_unbound: bool,
}

/// Longer than any call takes from its decision to the check of the bindings (`service::layers::REQUEST_TIMEOUT`).
const LATELY_SECONDS: f64 = 60.0;

/// Reads the bindings of a login in a company.
pub(super) async fn of_login(
    pool: &PgPool,
    company: CompanyId,
    login: &Subject,
) -> Result<Bindings, ApiError> {
    let found = sqlx::query!(
        r#"SELECT
             ARRAY(SELECT id FROM helpdesk.bindings
               WHERE company_id = $1 AND kc_sub = $2 AND (state <> 'pending' OR attempts > 0) ORDER BY tier) AS "ids!",
             ARRAY(SELECT member_id FROM helpdesk.bindings
               WHERE company_id = $1 AND kc_sub = $2 AND (state <> 'pending' OR attempts > 0) ORDER BY tier) AS "members!",
             EXISTS (SELECT FROM helpdesk.unbound_logins
               WHERE company_id = $1 AND kc_sub = $2 AND unbound_at > now() - make_interval(secs => $3)) AS "was_unbound!""#,
        company.as_uuid(),
        login.as_str(),
        LATELY_SECONDS
    )
    .fetch_one(pool)
    .await?;
    let bound = found.ids.into_iter().zip(found.members).map(|(id, member)| BoundLogin {
        company,
        id,
        member: member.into(),
        kc_sub: login.to_string(),
        tier: String::new(),
    });
    Ok(Bindings { bound: bound.collect(), was_unbound: found.was_unbound })
}

/// Records that a binding of the login has ended.
pub(super) async fn note_unbound(
    tx: &mut AuditedTx,
    company: CompanyId,
    login: &str,
) -> Result<(), ApiError> {
    sqlx::query!(
        "INSERT INTO helpdesk.unbound_logins(company_id, kc_sub, unbound_at) VALUES ($1, $2, clock_timestamp())
         ON CONFLICT (company_id, kc_sub) DO UPDATE SET unbound_at = excluded.unbound_at",
        company.as_uuid(),
        login
    )
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Deletes records of bindings that ended longer than [`LATELY_SECONDS`] ago.
pub(super) async fn forget_unbound(pool: &PgPool) -> Result<(), ApiError> {
    sqlx::query!(
        "DELETE FROM helpdesk.unbound_logins WHERE unbound_at <= now() - make_interval(secs => $1)",
        LATELY_SECONDS
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Lists the bindings of members in all companies, ordered by company, after a given one.
pub(super) async fn bound_logins(
    pool: &PgPool,
    after: Option<&BoundLogin>,
    limit: i64,
) -> Result<Vec<BoundLogin>, ApiError> {
    let found = sqlx::query_as!(
        BoundLogin,
        r#"SELECT company_id AS company, id, member_id AS "member!", kc_sub AS "kc_sub!", tier FROM helpdesk.bindings
           WHERE kc_sub IS NOT NULL AND (state <> 'pending' OR attempts > 0)
             AND ($1::uuid IS NULL OR (company_id, kc_sub, tier) > ($1, $2, $3))
           ORDER BY company_id, kc_sub, tier LIMIT $4"#,
        after.map(|one| one.company.as_uuid()),
        after.map(|one| one.kc_sub.as_str()),
        after.map(|one| one.tier.as_str()),
        limit
    );
    Ok(found.fetch_all(pool).await?)
}

/// Ids of bindings, in any state, that have this member row with another login or this login with another member row.
pub(super) async fn at_odds(
    pool: &PgPool,
    company: CompanyId,
    member: MemberId,
    login: &Subject,
) -> Result<Vec<Uuid>, ApiError> {
    let found = sqlx::query_scalar!(
        r#"SELECT id AS "id!" FROM helpdesk.bindings WHERE company_id = $1 AND member_id = $2 AND kc_sub <> $3
           UNION ALL SELECT id FROM helpdesk.bindings WHERE company_id = $1 AND kc_sub = $3 AND member_id <> $2"#,
        company.as_uuid(),
        member.as_uuid(),
        login.as_str()
    );
    Ok(found.fetch_all(pool).await?)
}

/// 409 `LAST_ADMINISTRATOR`; `remaining` says what would be left.
pub(super) fn last_administrator(remaining: &'static str) -> ApiError {
    let message = "the helpdesk keeps at least one administrator who can act";
    conflict("LAST_ADMINISTRATOR", message, json!({ "remaining": remaining }))
}

/// The active administrator bindings of the company other than `beside`.
pub(super) async fn other_administrators(
    tx: &mut AuditedTx,
    company: CompanyId,
    beside: Uuid,
) -> Result<Vec<StoredBinding>, ApiError> {
    let rows = bindings!(
        "WHERE company_id = $1 AND tier = 'admin' AND state = 'active' AND id <> $2 ORDER BY created_at, id",
        company.as_uuid(),
        beside
    )
    .fetch_all(tx.conn())
    .await?;
    rows.into_iter().map(Row::binding).collect()
}
