//! Modules forget closed accounts: a module stores names of members beside their ids (who owns a document, who works on
//! a ticket), and org lists former members in the order in which it forgot them. A loop follows that order
//! ([`Parts::forget_members`](crate::module::Parts::forget_members)). The table `<schema>.former_members_seen` stores
//! its position, updated in the same transaction as the names.

use std::time::Duration;

use contract::CorrelationId;
use contract::id::{CompanyId, MemberId};
use serde::Deserialize;
use sqlx::{AssertSqlSafe, PgConnection};

use crate::clients::org::OrgClient;
use crate::module::Parts;
use crate::workers::{Next, Pace};
use crate::{ApiError, AuditEvent, AuditedTx, Core};

/// Actor of the audit rows.
const ACTOR: &str = "system:forgetting";
/// Interval between questions to org.
pub(crate) const INTERVAL: Duration = Duration::from_secs(10);

/// Replaces a former member's name.
pub const FORMER_MEMBER: &str = "Former member";

/// A member whose account is closed.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FormerMember {
    /// Its position in org's order.
    pub seq: i64,
    /// Its company.
    pub company_id: CompanyId,
    /// The row that remains.
    pub member_id: MemberId,
    /// The closed subject.
    pub kc_sub: String,
}

/// How a module forgets the names of a member.
pub trait Forgets: Send + Sync + 'static {
    /// Replaces or removes each name and address; returns the number of changed rows.
    fn forget(
        conn: &mut PgConnection,
        former: &FormerMember,
    ) -> impl Future<Output = sqlx::Result<u64>> + Send;
}

/// Forgets the members that org has listed since the last round, at most one page of them.
///
/// # Errors
/// org or the database is unavailable; the next round forgets the rest.
pub async fn step<F: Forgets>(core: &Core, org: &OrgClient) -> Result<Next, ApiError> {
    let seen: i64 =
        sqlx::query_scalar(sql(core, "SELECT seq FROM {}.former_members_seen")).fetch_one(&core.pool).await?;
    let former = org.former_members(seen, &CorrelationId::generate()).await?;
    let is_last = former.is_empty();
    for member in former {
        forget::<F>(core, &member).await?;
    }
    Ok(if is_last { Next::Interval } else { Next::In(Duration::ZERO) })
}

async fn forget<F: Forgets>(core: &Core, member: &FormerMember) -> Result<(), ApiError> {
    let mut tx = core.begin_as(ACTOR, None).await?;
    if !advance(core, &mut tx, member.seq).await? {
        // Another process got there first.
        return tx.unchanged().await;
    }
    // A very active member has many rows, and no request waits for this.
    sqlx::raw_sql("SET LOCAL statement_timeout = '30s'").execute(tx.conn()).await?;
    if F::forget(tx.conn(), member).await? > 0 {
        tx.record(&AuditEvent {
            company: Some(member.company_id),
            action: "member.forgotten",
            subject: format!("member:{}", member.member_id),
            payload: serde_json::json!({}),
        })
        .await?;
    }
    tx.commit_recorded().await
}

async fn advance(core: &Core, tx: &mut AuditedTx, seq: i64) -> Result<bool, ApiError> {
    let moved = sqlx::query(sql(core, "UPDATE {}.former_members_seen SET seq = $1 WHERE seq < $1"));
    Ok(moved.bind(seq).execute(tx.conn()).await?.rows_affected() == 1)
}

/// The schema is a constant of the crate, so this text holds no input. The name differs by module, so this cannot be a
/// checked query.
fn sql(core: &Core, text: &str) -> AssertSqlSafe<String> {
    AssertSqlSafe(text.replace("{}", core.name))
}

impl Parts {
    /// Starts the loop that follows org's former members.
    pub fn forget_members<F: Forgets>(&self) {
        let (core, org) = (self.core.for_workers(), self.org.clone());
        self.core.workers.every("forgetting", Pace::every(INTERVAL).after(INTERVAL), move || {
            let (core, org) = (core.clone(), org.clone());
            async move { step::<F>(&core, &org).await }
        });
    }
}
