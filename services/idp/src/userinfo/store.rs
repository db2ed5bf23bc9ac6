//! SQL of the user behind a session.

use sqlx::PgExecutor;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::users::rules::User;

/// The user of a session that is still live.
pub(super) async fn user_of_session(
    db: impl PgExecutor<'_>,
    session: Uuid,
    user: Uuid,
    now: OffsetDateTime,
) -> sqlx::Result<Option<User>> {
    sqlx::query_as!(
        User,
        "SELECT u.id, u.username, u.enabled, u.email, u.first_name, u.last_name, u.service_client, u.created_at, u.must_change_password, \
         EXISTS (SELECT FROM idp.totp t WHERE t.user_id = u.id) AS \"has_totp!\", \
         EXISTS (SELECT FROM idp.passkeys p WHERE p.user_id = u.id) AS \"has_passkey!\" \
         FROM idp.sessions s JOIN idp.users u ON u.id = s.user_id \
         WHERE s.id = $1 AND s.user_id = $2 AND s.idle_until > $3 AND s.ends_at > $3",
        session,
        user,
        now
    )
    .fetch_optional(db)
    .await
}
