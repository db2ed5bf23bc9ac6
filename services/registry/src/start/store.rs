//! SQL of the start-up pass. The caller must hold the locks of the default grants and the catalog.

use sqlx::PgConnection;

use crate::bundles::ShippedModule;

/// The current row of a module or app.
#[derive(Clone, Debug)]
pub(super) struct Existing {
    pub(super) kind: String,
    pub(super) version: String,
    pub(super) content_hash: Vec<u8>,
}

/// A claim that belongs to another module or app.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    pub(super) what: String,
    pub(super) owner: String,
}

/// Raises the statement timeout: a pass may take longer than a request.
pub(super) async fn take_time(conn: &mut PgConnection) -> sqlx::Result<()> {
    sqlx::query!("SET LOCAL statement_timeout = '60s'").execute(conn).await?;
    Ok(())
}

pub(super) async fn find(conn: &mut PgConnection, key: &str) -> sqlx::Result<Option<Existing>> {
    sqlx::query_as!(Existing, "SELECT kind, version, content_hash FROM registry.modules WHERE key = $1", key)
        .fetch_optional(conn)
        .await
}

/// Adds or updates the module's row from its files. `installed` and `enabled` do not change, except that an installed
/// mandatory module becomes enabled.
pub(super) async fn write(conn: &mut PgConnection, module: &ShippedModule) -> sqlx::Result<()> {
    let manifest = &module.contract.manifest;
    sqlx::query!(
        "INSERT INTO registry.modules(key, kind, display_name, version, scope_type, mandatory, base_path, health_path, port,
                                      license_class, manifest, fragment, content_hash)
         VALUES ($1, 'module', $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
         ON CONFLICT (key) DO UPDATE SET
           display_name = EXCLUDED.display_name, version = EXCLUDED.version, scope_type = EXCLUDED.scope_type,
           mandatory = EXCLUDED.mandatory, base_path = EXCLUDED.base_path, health_path = EXCLUDED.health_path,
           port = EXCLUDED.port, license_class = EXCLUDED.license_class, manifest = EXCLUDED.manifest,
           fragment = EXCLUDED.fragment, content_hash = EXCLUDED.content_hash, updated_at = now(),
           enabled = registry.modules.enabled OR (EXCLUDED.mandatory AND registry.modules.installed)",
        manifest.key,
        manifest.display_name,
        manifest.version.to_string(),
        manifest.scope_type.as_str(),
        manifest.mandatory,
        manifest.base_path(),
        manifest.service.health_path,
        i32::from(manifest.service.port),
        manifest.license.class.as_str(),
        module.manifest,
        module.fragment,
        module.content_hash,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Adds the version to the history, which keeps the first content of each version.
pub(super) async fn write_version(
    conn: &mut PgConnection,
    module: &ShippedModule,
    actor: &str,
) -> sqlx::Result<()> {
    sqlx::query!(
        "INSERT INTO registry.module_versions(key, version, manifest, content_hash, actor) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (key, version) DO NOTHING",
        module.contract.manifest.key,
        module.contract.manifest.version.to_string(),
        module.manifest,
        module.content_hash,
        actor,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Removes claims that the module no longer declares.
pub(super) async fn give_up_claims(conn: &mut PgConnection, module: &ShippedModule) -> sqlx::Result<u64> {
    let key = &module.contract.manifest.key;
    let types = sqlx::query!(
        "DELETE FROM registry.object_types WHERE key = $1 AND NOT (object_type = ANY($2))",
        key,
        &module.object_types()
    )
    .execute(&mut *conn)
    .await?;
    let features = sqlx::query!(
        "DELETE FROM registry.feature_keys WHERE key = $1 AND NOT (feature_key = ANY($2))",
        key,
        &module.feature_keys()
    )
    .execute(conn)
    .await?;
    Ok(types.rows_affected() + features.rows_affected())
}

/// Adds the module's claims that nothing else has.
pub(super) async fn take_claims(conn: &mut PgConnection, module: &ShippedModule) -> sqlx::Result<u64> {
    let key = &module.contract.manifest.key;
    let types = sqlx::query!(
        "INSERT INTO registry.object_types(object_type, key) SELECT claimed, $1 FROM unnest($2::text[]) AS claimed
         ON CONFLICT (object_type) DO NOTHING",
        key,
        &module.object_types()
    )
    .execute(&mut *conn)
    .await?;
    let features = sqlx::query!(
        "INSERT INTO registry.feature_keys(feature_key, key) SELECT claimed, $1 FROM unnest($2::text[]) AS claimed
         ON CONFLICT (feature_key) DO NOTHING",
        key,
        &module.feature_keys()
    )
    .execute(conn)
    .await?;
    Ok(types.rows_affected() + features.rows_affected())
}

/// Returns one of the module's claims that belongs to another module or app, if any.
pub(super) async fn foreign_claim(
    conn: &mut PgConnection,
    module: &ShippedModule,
) -> sqlx::Result<Option<Taken>> {
    sqlx::query_as!(
        Taken,
        r#"SELECT object_type AS "what!", key AS "owner!" FROM registry.object_types
            WHERE object_type = ANY($2) AND key <> $1
           UNION ALL
           SELECT feature_key, key FROM registry.feature_keys WHERE feature_key = ANY($3) AND key <> $1
           LIMIT 1"#,
        module.contract.manifest.key,
        &module.object_types(),
        &module.feature_keys(),
    )
    .fetch_optional(conn)
    .await
}

/// Installs and enables those of `keys` that are not installed; returns their keys.
pub(super) async fn install(conn: &mut PgConnection, keys: &[String]) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!(
        "UPDATE registry.modules SET installed = true, enabled = true, updated_at = now()
          WHERE key = ANY($1) AND kind = 'module' AND NOT installed RETURNING key",
        keys
    )
    .fetch_all(conn)
    .await
}

/// Returns those of `keys` that are modules and neither installed nor being enabled.
pub(super) async fn not_installed(conn: &mut PgConnection, keys: &[String]) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!(
        "SELECT key FROM registry.modules m
          WHERE key = ANY($1) AND kind = 'module' AND NOT installed
            AND NOT EXISTS (SELECT FROM registry.enabling e WHERE e.key = m.key) ORDER BY key",
        keys
    )
    .fetch_all(conn)
    .await
}

/// Returns the keys of all enabled modules and apps, which get default grants.
pub(super) async fn enabled_keys(conn: &mut PgConnection) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!("SELECT key FROM registry.modules WHERE installed AND enabled ORDER BY key")
        .fetch_all(conn)
        .await
}
