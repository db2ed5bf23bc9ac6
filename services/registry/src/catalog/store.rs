//! SQL of the catalog: reads of the whole catalog, and the revision that every change increments.

use contract::Subject;
use contract::manifest::version;
use serde::Deserialize;
use service::ApiError;
use sqlx::PgConnection;
use sqlx::types::Json;

use super::rules::{Catalog, Dependency, Edition, Kind, Module, Registered};

/// Reads modules, apps and the revision in one statement, so that they are consistent.
pub(crate) async fn load(conn: &mut PgConnection) -> Result<Catalog, ApiError> {
    let found = sqlx::query!(
        r#"SELECT r.revision, r.xmin::text || ' ' || date_part('epoch', pg_postmaster_start_time())::text AS "written!",
             coalesce((
               SELECT jsonb_agg(jsonb_build_object(
                 'key', m.key, 'displayName', m.display_name, 'version', m.version, 'installed', m.installed,
                 'enabled', m.enabled, 'enabling', EXISTS (SELECT FROM registry.enabling e WHERE e.key = m.key), 'scopeType', m.scope_type, 'mandatory', m.mandatory, 'basePath', m.base_path,
                 'healthPath', m.health_path, 'port', m.port, 'licenseClass', m.license_class,
                 'clientId', m.service_client_id, 'subject', m.service_subject, 'dependencies', coalesce(m.manifest -> 'dependencies', '[]'))
                 ORDER BY m.key COLLATE "C")
               FROM registry.modules m), '[]') AS "rows!: Json<Vec<Row>>"
           FROM registry.model_revision r"#
    )
    .fetch_one(conn)
    .await?;
    let registered = found.rows.0.into_iter().map(Registered::try_from).collect::<Result<Vec<_>, _>>()?;
    let edition = Edition { revision: found.revision, written: found.written };
    Ok(Catalog { edition, registered })
}

/// Reads the current edition.
pub(crate) async fn edition(conn: &mut PgConnection) -> sqlx::Result<Edition> {
    sqlx::query_as!(
        Edition,
        r#"SELECT revision, xmin::text || ' ' || date_part('epoch', pg_postmaster_start_time())::text AS "written!"
             FROM registry.model_revision"#
    )
    .fetch_one(conn)
    .await
}

/// Takes the catalog's lock until this transaction ends and returns the revision. Every change takes the lock before it
/// reads the state on which it depends.
pub(crate) async fn lock(conn: &mut PgConnection) -> sqlx::Result<i64> {
    sqlx::query_scalar!("SELECT revision FROM registry.model_revision FOR UPDATE").fetch_one(conn).await
}

/// Increments the revision and returns it.
pub(crate) async fn bump(conn: &mut PgConnection) -> sqlx::Result<i64> {
    sqlx::query_scalar!("UPDATE registry.model_revision SET revision = revision + 1 RETURNING revision")
        .fetch_one(conn)
        .await
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "columns of a row")]
struct Row {
    key: String,
    display_name: String,
    version: String,
    installed: bool,
    enabled: bool,
    enabling: bool,
    scope_type: String,
    mandatory: bool,
    base_path: String,
    health_path: String,
    port: Option<u16>,
    license_class: String,
    client_id: Option<String>,
    subject: Option<Subject>,
    dependencies: Vec<DependencyRow>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DependencyRow {
    module_key: String,
    version_range: String,
}

/// Rows were checked when they were written, so an unreadable row is a bug and never becomes a default.
impl TryFrom<Row> for Registered {
    type Error = ApiError;

    fn try_from(row: Row) -> Result<Self, ApiError> {
        let unreadable =
            |what: &str| ApiError::internal(format!("the catalog's row {} has no readable {what}", row.key));
        let version = version::parse(&row.version).ok_or_else(|| unreadable("version"))?;
        let kind = match (row.client_id, row.port) {
            (Some(client_id), _) => Kind::App { client_id, subject: row.subject },
            (None, Some(port)) => Kind::Module(Module {
                scope_type: row.scope_type,
                mandatory: row.mandatory,
                base_path: row.base_path,
                health_path: row.health_path,
                port,
                license_class: row.license_class,
                dependencies: dependencies(row.dependencies)
                    .ok_or_else(|| unreadable("range of a dependency"))?,
            }),
            (None, None) => return Err(unreadable("kind")),
        };
        let Row { key, display_name, installed, enabled, enabling, .. } = row;
        Ok(Self { key, display_name, version, installed, enabled, enabling, kind })
    }
}

fn dependencies(rows: Vec<DependencyRow>) -> Option<Vec<Dependency>> {
    let read = |row: DependencyRow| {
        let range = version::parse_range(&row.version_range)?;
        Some(Dependency { module_key: row.module_key, range })
    };
    rows.into_iter().map(read).collect()
}
