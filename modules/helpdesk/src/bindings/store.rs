//! `helpdesk.bindings` and `helpdesk.admin_guard`.

use contract::Principal;
use contract::id::{CompanyId, GroupId, MemberId, PositionId};
use contract::principal::Named;
use serde_json::json;
use service::db::on_constraint;
use service::refusal::conflict;
use service::{ApiError, AuditedTx, Permit};
use sqlx::{PgConnection, PgExecutor, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use super::rules::{BoundTier, MAX_BINDINGS, StoredBinding};

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

/// Rows of bindings; the tail begins with the condition.
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

/// The bindings whose tuples stand, or may stand; one more than a list may have, when there are more.
pub(super) async fn list(pool: &PgPool, permit: &Permit) -> Result<Vec<StoredBinding>, ApiError> {
    let rows = bindings!(
        "WHERE company_id = $1 AND state <> 'pending' ORDER BY created_at, id LIMIT $2",
        permit.company.as_uuid(),
        i64::try_from(MAX_BINDINGS).map_err(ApiError::internal)? + 1
    )
    .fetch_all(pool)
    .await?;
    rows.into_iter().map(Row::binding).collect()
}

/// A binding whatever its state.
pub(super) async fn find(
    conn: &mut PgConnection,
    company: CompanyId,
    id: Uuid,
) -> Result<Option<StoredBinding>, ApiError> {
    let row = bindings!("WHERE company_id = $1 AND id = $2", company.as_uuid(), id);
    row.fetch_optional(conn).await?.map(Row::binding).transpose()
}

/// The binding of a principal to a tier, and the word of its state.
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

/// Adds a `pending` binding; `false`: its principal is bound to this tier already, in whatever state.
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

/// One more administrator binding of the company is active. The row of a company without one is made here.
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

/// One administrator binding of the company is active no more. The row stays locked until the transaction ends, and its
/// check keeps the last one.
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
    if done.rows_affected() == 1 { Ok(()) } else { Err(ApiError::internal("a company without its guard")) }
}

/// 409: without this binding the company has no administrator; `remaining` says what would be left.
pub(super) fn last_administrator(remaining: &'static str) -> ApiError {
    let message = "the helpdesk keeps at least one administrator who can act";
    conflict("LAST_ADMINISTRATOR", message, json!({ "remaining": remaining }))
}

/// The active administrator bindings of the company beside one.
pub(super) async fn other_administrators(
    tx: &mut AuditedTx,
    company: CompanyId,
    beside: Uuid,
) -> Result<Vec<StoredBinding>, ApiError> {
    let rows = bindings!(
        "WHERE company_id = $1 AND tier = 'admin' AND state = 'active' AND id <> $2
         ORDER BY created_at, id LIMIT $3",
        company.as_uuid(),
        beside,
        i64::try_from(MAX_BINDINGS).map_err(ApiError::internal)?
    )
    .fetch_all(tx.conn())
    .await?;
    rows.into_iter().map(Row::binding).collect()
}
