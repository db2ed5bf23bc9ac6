//! Removes the addresses that this module stores of members whose account is closed.

use service::forgetting::{Forgets, FormerMember};
use sqlx::PgConnection;

/// Ends the subscriptions of a former member, and deletes mail that was sent or is to be sent to them, also to addresses
/// that their subscriptions had before. Mail to an address that is the channel's own or another subscriber's, too, stays.
#[derive(Clone, Copy, Debug)]
pub struct Addresses;

impl Forgets for Addresses {
    async fn forget(conn: &mut PgConnection, former: &FormerMember) -> sqlx::Result<u64> {
        let (company, member) = (former.company_id.as_uuid(), former.member_id.as_uuid());
        let deliveries = sqlx::query!(
            "DELETE FROM notification.delivery_jobs j USING (
               SELECT channel_id, member_id, lower(email) AS email FROM notification.subscriptions
                WHERE company_id = $1 AND member_id = $2 AND email IS NOT NULL
               UNION SELECT channel_id, member_id, email FROM notification.former_addresses
                WHERE company_id = $1 AND member_id = $2) s
              WHERE j.company_id = $1 AND j.channel_id = s.channel_id AND j.kind = 'email' AND lower(j.target) = s.email
                AND NOT EXISTS (SELECT FROM notification.channels c
                  WHERE c.id = s.channel_id AND lower(c.target) = s.email)
                AND NOT EXISTS (SELECT FROM notification.subscriptions o
                  WHERE o.channel_id = s.channel_id AND o.member_id <> s.member_id AND lower(o.email) = s.email)",
            company,
            member
        )
        .execute(&mut *conn)
        .await?;
        let addresses = sqlx::query!(
            "DELETE FROM notification.former_addresses WHERE company_id = $1 AND member_id = $2",
            company,
            member
        )
        .execute(&mut *conn)
        .await?;
        let subscriptions = sqlx::query!(
            "UPDATE notification.subscriptions SET email = NULL, updated_at = now()
              WHERE company_id = $1 AND member_id = $2 AND email IS NOT NULL",
            company,
            member
        )
        .execute(conn)
        .await?;
        Ok(deliveries.rows_affected() + addresses.rows_affected() + subscriptions.rows_affected())
    }
}
