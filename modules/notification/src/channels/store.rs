//! `notification.channels`. Keys are ordered by code point, so that lists have the same order on every machine.

use contract::id::CompanyId;
use contract::page::{Page, PageRequest};
use serde_json::json;
use service::db::on_constraint;
use service::refusal::conflict;
use service::{ApiError, CompanyTx, Permit, page};
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::rules::{Channel, ChannelBody, ChannelId, Kind};

struct Row {
    id: Uuid,
    key: String,
    label: String,
    kind: String,
    target: Option<String>,
    created_at: OffsetDateTime,
}

impl Row {
    fn channel(self, company: CompanyId) -> Result<Channel, ApiError> {
        Ok(Channel {
            id: self.id.into(),
            company_id: company,
            key: self.key,
            label: self.label,
            kind: Kind::of_word(&self.kind)?,
            target: self.target,
            created_at: self.created_at.into(),
        })
    }
}

/// Lists one page of the channels that are not deleted, including targets.
pub(super) async fn list(
    pool: &PgPool,
    permit: &Permit,
    page: PageRequest,
) -> Result<Page<Channel>, ApiError> {
    let rows = |limit: i64, offset: i64| {
        sqlx::query!(
            r#"SELECT id, key, label, kind, target, created_at, count(*) OVER () AS "total!"
           FROM notification.channels WHERE company_id = $1 AND deleted_at IS NULL
           ORDER BY key COLLATE "C", id LIMIT $2 OFFSET $3"#,
            permit.company.as_uuid(),
            limit,
            offset
        )
        .fetch_all(pool)
    };
    let found = page::load(
        page,
        rows,
        |row| row.total,
        |row| {
            let (id, key, label, kind) = (row.id, row.key, row.label, row.kind);
            Row { id, key, label, kind, target: row.target, created_at: row.created_at }
                .channel(permit.company)
        },
    );
    found.await
}

/// Finds a channel that is not deleted, including its target.
pub(super) async fn find(pool: &PgPool, permit: &Permit, id: ChannelId) -> Result<Option<Channel>, ApiError> {
    let row = sqlx::query_as!(
        Row,
        "SELECT id, key, label, kind, target, created_at FROM notification.channels
         WHERE company_id = $1 AND id = $2 AND deleted_at IS NULL",
        permit.company.as_uuid(),
        id.as_uuid()
    )
    .fetch_optional(pool)
    .await?;
    row.map(|row| row.channel(permit.company)).transpose()
}

/// Adds a channel to the transaction's company.
pub(super) async fn insert(
    tx: &mut CompanyTx,
    id: ChannelId,
    body: ChannelBody,
) -> Result<Channel, ApiError> {
    let (company, actor) = (tx.company(), tx.actor().to_owned());
    let ChannelBody { key, label, kind, target } = body;
    let made = sqlx::query_scalar!(
        "INSERT INTO notification.channels(id, company_id, key, label, kind, target, created_by)
         VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING created_at",
        id.as_uuid(),
        company.as_uuid(),
        key,
        label,
        kind.word(),
        target,
        actor
    )
    .fetch_one(tx.conn())
    .await
    .map_err(|error| {
        // The unique index detects a taken key; a check before the insert would race with another writer.
        on_constraint(error, "channels_key", || {
            let message = "another channel of the company has this key";
            conflict("CHANNEL_KEY_TAKEN", message, json!({ "key": key }))
        })
    })?;
    Ok(Channel { id, company_id: company, key, label, kind, target, created_at: made.into() })
}

/// Marks a channel as deleted; waits for messages that are being published through it.
pub(super) async fn delete(tx: &mut CompanyTx, id: ChannelId) -> Result<Option<Channel>, ApiError> {
    let company = tx.company();
    // Messages lock the row `FOR KEY SHARE`, which an update alone would not wait for.
    let found = sqlx::query_scalar!(
        "SELECT id FROM notification.channels WHERE company_id = $1 AND id = $2 AND deleted_at IS NULL FOR UPDATE",
        company.as_uuid(),
        id.as_uuid()
    )
    .fetch_optional(tx.conn())
    .await?;
    if found.is_none() {
        return Ok(None);
    }
    let row = sqlx::query_as!(
        Row,
        "UPDATE notification.channels SET deleted_at = now() WHERE company_id = $1 AND id = $2
         RETURNING id, key, label, kind, target, created_at",
        company.as_uuid(),
        id.as_uuid()
    )
    .fetch_one(tx.conn())
    .await?;
    row.channel(company).map(Some)
}
