//! SQL of app registration. The caller must hold the catalog's lock, so that nothing it reads changes before it
//! commits.

use std::collections::BTreeMap;

use contract::Subject;
use contract::fragment::{Relations, parse_relations};
use contract::manifest::version;
use serde_json::Value;
use service::{ApiError, AuditedTx};
use sqlx::PgConnection;

use super::rules::Checked;
use super::verdict::{Own, Removed, Standing};

/// Reads the registered state against which the manifest is judged.
pub(super) async fn standing(conn: &mut PgConnection, checked: &Checked) -> Result<Standing, ApiError> {
    let mut standing = Standing {
        client_owner: client_owner(conn, checked).await?,
        type_owners: type_owners(conn, checked).await?,
        feature_owners: feature_owners(conn, checked).await?,
        ..Standing::default()
    };
    let rows = sqlx::query!(
        r#"SELECT key, version, installed, enabled, service_client_id, content_hash, fragment -> 'relations' AS "relations!"
             FROM registry.modules ORDER BY key"#
    )
    .fetch_all(conn)
    .await?;
    for row in rows {
        let relations = stored_relations(&row.key, &row.relations)?;
        match row.service_client_id {
            Some(client_id) if row.key == checked.key => {
                let (content_hash, enabled) = (row.content_hash, row.enabled);
                let version = stored_version(&row.key, &row.version)?;
                standing.own = Some(Own { version, enabled, client_id, content_hash, relations });
            }
            _ => {
                standing.is_module |= row.key == checked.key;
                if row.installed {
                    standing.others.push(relations);
                }
            }
        }
    }
    Ok(standing)
}

/// Adds or updates the app; `enabled` does not change. If `account` is `None` and the client is the same, the stored
/// account is kept.
pub(super) async fn write(
    tx: &mut AuditedTx,
    checked: &Checked,
    account: Option<&Subject>,
) -> Result<(), ApiError> {
    let actor = tx.actor().to_owned();
    write_row(tx.conn(), checked, account).await?;
    write_version(tx.conn(), checked, &actor).await?;
    write_claims(tx.conn(), checked).await?;
    Ok(())
}

/// Whether there are tuples of the removed type or relation.
pub(super) async fn has_tuples(conn: &mut PgConnection, removed: &Removed) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"SELECT authz.has_tuples($1, $2) AS "found!""#,
        removed.object_type,
        removed.relation.as_deref().unwrap_or_default()
    )
    .fetch_one(conn)
    .await
}

async fn write_row(
    conn: &mut PgConnection,
    checked: &Checked,
    account: Option<&Subject>,
) -> sqlx::Result<()> {
    sqlx::query!(
        "INSERT INTO registry.modules(key, kind, display_name, version, installed, enabled, manifest, fragment, content_hash,
                                      service_client_id, service_subject)
         VALUES ($1, 'app', $2, $3, true, false, $4, $5, $6, $7, $8)
         ON CONFLICT (key) DO UPDATE SET
           display_name = EXCLUDED.display_name, version = EXCLUDED.version, manifest = EXCLUDED.manifest,
           fragment = EXCLUDED.fragment, content_hash = EXCLUDED.content_hash,
           service_client_id = EXCLUDED.service_client_id,
           service_subject = CASE WHEN EXCLUDED.service_subject IS NULL
               AND modules.service_client_id = EXCLUDED.service_client_id
             THEN modules.service_subject ELSE EXCLUDED.service_subject END,
           updated_at = now()",
        checked.key,
        checked.display_name,
        checked.version.to_string(),
        checked.manifest(),
        checked.fragment(),
        checked.content_hash(),
        checked.client_id,
        account.map(Subject::as_str),
    )
    .execute(conn)
    .await?;
    Ok(())
}

async fn write_version(conn: &mut PgConnection, checked: &Checked, actor: &str) -> sqlx::Result<()> {
    sqlx::query!(
        "INSERT INTO registry.module_versions(key, version, manifest, content_hash, actor) VALUES ($1, $2, $3, $4, $5)",
        checked.key,
        checked.version.to_string(),
        checked.manifest(),
        checked.content_hash(),
        actor,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Replaces the app's object types and feature keys by those of this version.
async fn write_claims(conn: &mut PgConnection, checked: &Checked) -> sqlx::Result<()> {
    let key = &checked.key;
    sqlx::query!("DELETE FROM registry.object_types WHERE key = $1", key).execute(&mut *conn).await?;
    sqlx::query!("DELETE FROM registry.feature_keys WHERE key = $1", key).execute(&mut *conn).await?;
    sqlx::query!(
        "INSERT INTO registry.object_types(object_type, key) SELECT claimed, $1 FROM unnest($2::text[]) AS claimed",
        key,
        &checked.object_types()
    )
    .execute(&mut *conn)
    .await?;
    sqlx::query!(
        "INSERT INTO registry.feature_keys(feature_key, key) SELECT claimed, $1 FROM unnest($2::text[]) AS claimed",
        key,
        &checked.feature_keys()
    )
    .execute(conn)
    .await?;
    Ok(())
}

async fn client_owner(conn: &mut PgConnection, checked: &Checked) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar!(
        "SELECT key FROM registry.modules WHERE service_client_id = $1 AND key <> $2",
        checked.client_id,
        checked.key
    )
    .fetch_optional(conn)
    .await
}

async fn type_owners(conn: &mut PgConnection, checked: &Checked) -> sqlx::Result<BTreeMap<String, String>> {
    let rows = sqlx::query!(
        "SELECT object_type, key FROM registry.object_types WHERE object_type = ANY($1) AND key <> $2",
        &checked.object_types(),
        checked.key
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.object_type, row.key)).collect())
}

async fn feature_owners(
    conn: &mut PgConnection,
    checked: &Checked,
) -> sqlx::Result<BTreeMap<String, String>> {
    let rows = sqlx::query!(
        "SELECT feature_key, key FROM registry.feature_keys WHERE feature_key = ANY($1) AND key <> $2",
        &checked.feature_keys(),
        checked.key
    )
    .fetch_all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.feature_key, row.key)).collect())
}

/// Parses stored relations. They were checked when they were written, so an unreadable row is a bug.
fn stored_relations(key: &str, value: &Value) -> Result<Relations, ApiError> {
    parse_relations(value, "relations")
        .map_err(|_| ApiError::internal(format!("the relations of {key} cannot be read")))
}

fn stored_version(key: &str, text: &str) -> Result<semver::Version, ApiError> {
    version::parse(text).ok_or_else(|| ApiError::internal(format!("the version of {key} cannot be read")))
}
