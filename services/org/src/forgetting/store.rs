//! Finds the member rows of closed subjects and erases their personal data.

use contract::id::{CompanyId, MemberId};
use sqlx::{PgConnection, PgPool};

use super::http::FormerMember;

/// Age from which a former member is listed: longer than any request of a module takes.
const SETTLED_SECONDS: f64 = 10.0;

/// Lists member rows of closed subjects that still hold personal data, by id, after the row `after`.
pub(super) async fn of_closed(
    pool: &PgPool,
    after: Option<MemberId>,
    limit: i64,
) -> sqlx::Result<Vec<MemberId>> {
    let rows = sqlx::query_scalar!(
        "SELECT m.id FROM identity.subject_facts f JOIN org.members m ON m.user_id = f.kc_sub
          WHERE f.lifecycle = 'closed' AND m.name_salt IS NOT NULL AND ($1::uuid IS NULL OR m.id > $1)
          ORDER BY m.id LIMIT $2",
        after.map(MemberId::as_uuid),
        limit
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(MemberId::from).collect())
}

/// Erases the personal data of a row whose subject is closed; returns false if there is no such row. The new code
/// contains the row's id, unless another member of the company has that code.
pub(super) async fn forget(conn: &mut PgConnection, member: MemberId) -> sqlx::Result<bool> {
    let done = sqlx::query!(
        "UPDATE org.members m
            SET code = 'former-' || CASE
                  WHEN EXISTS (SELECT FROM org.members o WHERE o.company_id = m.company_id AND o.id <> m.id
                    AND lower(o.code) = 'former-' || m.id) THEN gen_random_uuid() ELSE m.id END,
                display_name = 'Former member', email = NULL, is_active = false,
                name_salt = NULL, updated_at = now()
          WHERE m.id = $1 AND m.name_salt IS NOT NULL
            AND EXISTS (SELECT FROM identity.subject_facts f WHERE f.kc_sub = m.user_id AND f.lifecycle = 'closed')",
        member.as_uuid()
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Adds the member to the list that modules read. An advisory lock serializes these transactions, so that rows become
/// visible, and settle, in the order of `seq`: the time is taken under the lock.
pub(super) async fn tell(
    conn: &mut PgConnection,
    company: CompanyId,
    member: MemberId,
    subject: &str,
) -> sqlx::Result<()> {
    sqlx::query!("SELECT pg_advisory_xact_lock(hashtextextended('platform.former_members', 0))")
        .execute(&mut *conn)
        .await?;
    sqlx::query!(
        "INSERT INTO org.former_members(company_id, member_id, kc_sub, forgotten_at)
         VALUES ($1, $2, $3, clock_timestamp())",
        company.as_uuid(),
        member.as_uuid(),
        subject
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Lists the former members after `after`, except those forgotten so recently that a request which read their names may
/// still be in progress.
pub(super) async fn former_after(pool: &PgPool, after: i64, limit: i64) -> sqlx::Result<Vec<FormerMember>> {
    let rows = sqlx::query!(
        "SELECT seq, company_id, member_id, kc_sub FROM org.former_members
          WHERE seq > $1 AND forgotten_at < now() - make_interval(secs => $3) ORDER BY seq LIMIT $2",
        after,
        limit,
        SETTLED_SECONDS,
    )
    .fetch_all(pool)
    .await?;
    let former = rows.into_iter().map(|row| FormerMember {
        seq: row.seq,
        company_id: row.company_id.into(),
        member_id: row.member_id.into(),
        kc_sub: row.kc_sub,
    });
    Ok(former.collect())
}
