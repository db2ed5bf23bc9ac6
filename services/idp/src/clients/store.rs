//! SQL of clients.

use sqlx::PgConnection;
use sqlx::PgExecutor;
use time::OffsetDateTime;

use crate::clients::rules::{Client, ClientKind};

/// A client by its id.
pub(crate) async fn find(db: impl PgExecutor<'_>, client_id: &str) -> sqlx::Result<Option<Client>> {
    let row = sqlx::query!(
        "SELECT client_id, kind, secret_tag, redirect_uris, web_origins, enabled \
         FROM idp.clients WHERE client_id = $1",
        client_id
    )
    .fetch_optional(db)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let kind = ClientKind::parse(&row.kind)
        .ok_or_else(|| sqlx::Error::Decode(format!("idp.clients.kind is \"{}\"", row.kind).into()))?;
    Ok(Some(Client {
        id: row.client_id,
        kind,
        secret_tag: row.secret_tag,
        redirect_uris: row.redirect_uris,
        web_origins: row.web_origins,
        enabled: row.enabled,
    }))
}

/// Creates or replaces the client.
pub(crate) async fn put(conn: &mut PgConnection, client: &Client, now: OffsetDateTime) -> sqlx::Result<()> {
    sqlx::query!(
        "INSERT INTO idp.clients(client_id, kind, secret_tag, redirect_uris, web_origins, enabled, created_at, \
         updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $7) \
         ON CONFLICT (client_id) DO UPDATE SET kind = excluded.kind, secret_tag = excluded.secret_tag, \
         redirect_uris = excluded.redirect_uris, web_origins = excluded.web_origins, \
         enabled = excluded.enabled, updated_at = excluded.updated_at",
        client.id,
        client.kind.name(),
        client.secret_tag,
        &client.redirect_uris,
        &client.web_origins,
        client.enabled,
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Disables every enabled client that is not in `declared`; returns their ids.
pub(crate) async fn disable_others(
    conn: &mut PgConnection,
    declared: &[String],
    now: OffsetDateTime,
) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!(
        "UPDATE idp.clients SET enabled = false, updated_at = $2 \
         WHERE enabled AND client_id <> ALL($1) RETURNING client_id",
        declared,
        now
    )
    .fetch_all(conn)
    .await
}
