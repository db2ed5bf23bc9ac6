//! The SQL of grants. Tuples are locked by their object, through a fixed number of advisory locks taken in one order: a
//! role that may not update `authz.tuple` cannot lock its rows, and an object without tuples has no row.

use std::collections::BTreeSet;

use contract::grants::DEFAULT_GRANTS_LOCK;
use contract::id::CompanyId;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::anchors::{Belongings, Key};
use super::request::Tuple;
use super::types::Sorted;

/// A registered app and, if known, the account of its client.
pub(super) struct App {
    pub(super) key: String,
    pub(super) account: Option<String>,
}

/// The app that owns a client of the identity provider.
pub(super) async fn app_of_client(pool: &PgPool, client: &str) -> sqlx::Result<Option<App>> {
    let app = sqlx::query_as!(
        App,
        r#"SELECT key AS "key!", service_subject AS account FROM registry.app_backends WHERE service_client_id = $1"#,
        client
    );
    app.fetch_optional(pool).await
}

/// The apps among these modules.
pub(super) async fn apps_among(pool: &PgPool, keys: &BTreeSet<String>) -> sqlx::Result<Vec<String>> {
    let keys: Vec<String> = keys.iter().cloned().collect();
    sqlx::query_scalar!(
        r#"SELECT key AS "key!" FROM registry.app_backends WHERE key = ANY($1) ORDER BY key"#,
        &keys
    )
    .fetch_all(pool)
    .await
}

/// Freezes the catalog until the transaction ends: registry takes this lock exclusively before it changes the catalog.
pub(super) async fn lock_catalog(conn: &mut PgConnection) -> sqlx::Result<()> {
    sqlx::query!(
        r#"SELECT pg_catalog.pg_advisory_xact_lock_shared(pg_catalog.hashtextextended($1, 0)) AS "locked!: ()""#,
        DEFAULT_GRANTS_LOCK
    )
    .fetch_one(conn)
    .await?;
    Ok(())
}

/// Locks objects until the transaction ends. This is a statement of its own, so that later statements see what others
/// committed before the locks were acquired.
pub(crate) async fn lock_objects(
    conn: &mut PgConnection,
    objects: impl Iterator<Item = Key>,
) -> sqlx::Result<()> {
    let (types, ids): (Vec<String>, Vec<String>) = objects.unzip();
    sqlx::query!(
        r#"SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtext('authz.grants'), bucket) AS "locked!: ()"
             FROM (SELECT DISTINCT (pg_catalog.hashtextextended(o.kind || ':' || o.id, 0) & 127)::int AS bucket
                     FROM unnest($1::text[], $2::text[]) AS o(kind, id) ORDER BY bucket OFFSET 0) AS buckets"#,
        &types,
        &ids,
    )
    .fetch_all(conn)
    .await?;
    Ok(())
}

/// The current revision of the catalog.
pub(super) async fn catalog_revision(conn: &mut PgConnection) -> sqlx::Result<i64> {
    sqlx::query_scalar!("SELECT revision FROM registry.model_revision").fetch_one(conn).await
}

/// What the objects are anchored to, and which of the positions and groups belong to the company.
pub(super) async fn belongings(
    conn: &mut PgConnection,
    company: CompanyId,
    objects: &BTreeSet<Key>,
    sorted: &[Sorted],
) -> sqlx::Result<Belongings> {
    let mut known = Belongings::default();
    let (types, ids): (Vec<String>, Vec<String>) = objects.iter().cloned().unzip();
    let anchors = sqlx::query!(
        "SELECT t.object_type, t.object_id, t.subject_id
           FROM unnest($1::text[], $2::text[]) AS o(kind, id)
           JOIN authz.tuple t ON t.object_type = o.kind AND t.object_id = o.id AND t.relation = 'company_module'
            AND t.subject_type = 'company_module' AND t.subject_relation = ''",
        &types,
        &ids,
    );
    for row in anchors.fetch_all(&mut *conn).await? {
        known.anchors.entry((row.object_type, row.object_id)).or_default().insert(row.subject_id);
    }
    known.units = units(conn, company, sorted).await?;
    Ok(known)
}

async fn units(
    conn: &mut PgConnection,
    company: CompanyId,
    sorted: &[Sorted],
) -> sqlx::Result<BTreeSet<Uuid>> {
    let positions: Vec<Uuid> = sorted.iter().filter_map(|one| one.grantee.position()).collect();
    let groups: Vec<Uuid> = sorted.iter().filter_map(|one| one.grantee.group()).collect();
    let found = sqlx::query_scalar!(
        r#"SELECT position_id AS "id!" FROM org.position_facts WHERE company_id = $1 AND position_id = ANY($2)
            UNION ALL SELECT group_id FROM org.group_facts WHERE company_id = $1 AND group_id = ANY($3)"#,
        company.as_uuid(),
        &positions,
        &groups,
    );
    Ok(found.fetch_all(conn).await?.into_iter().collect())
}

/// The six columns of the tuples, each as a list.
#[derive(Default)]
struct Columns {
    object_type: Vec<String>,
    object_id: Vec<String>,
    relation: Vec<String>,
    subject_type: Vec<String>,
    subject_id: Vec<String>,
    subject_relation: Vec<String>,
}

fn columns(tuples: &[Tuple]) -> Columns {
    let mut columns = Columns::default();
    for tuple in tuples {
        columns.object_type.push(tuple.object.kind.clone());
        columns.object_id.push(tuple.object.id.clone());
        columns.relation.push(tuple.relation.clone());
        columns.subject_type.push(tuple.subject.kind.clone());
        columns.subject_id.push(tuple.subject.id.clone());
        columns.subject_relation.push(tuple.subject.relation.clone());
    }
    columns
}

/// Adds missing tuples; returns those added, as text.
pub(super) async fn add(conn: &mut PgConnection, tuples: &[Tuple]) -> sqlx::Result<Vec<String>> {
    let given = columns(tuples);
    sqlx::query_scalar!(
        r#"INSERT INTO authz.tuple AS t
             (object_type, object_id, relation, subject_type, subject_id, subject_relation, source)
           SELECT g.a, g.b, g.c, g.d, g.e, g.f, 'grant'
             FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[]) AS g(a, b, c, d, e, f)
            ORDER BY 1, 2, 3, 4, 5, 6
           ON CONFLICT DO NOTHING
           RETURNING format('%s:%s#%s@%s:%s', t.object_type, t.object_id, t.relation, t.subject_type, t.subject_id)
             || CASE WHEN t.subject_relation = '' THEN '' ELSE '#' || t.subject_relation END AS "tuple!""#,
        &given.object_type,
        &given.object_id,
        &given.relation,
        &given.subject_type,
        &given.subject_id,
        &given.subject_relation,
    )
    .fetch_all(conn)
    .await
}

/// Removes existing tuples; returns those removed, as text.
pub(super) async fn remove(conn: &mut PgConnection, tuples: &[Tuple]) -> sqlx::Result<Vec<String>> {
    let given = columns(tuples);
    sqlx::query_scalar!(
        r#"DELETE FROM authz.tuple AS t
            USING unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[]) AS g(a, b, c, d, e, f)
            WHERE t.object_type = g.a AND t.object_id = g.b AND t.relation = g.c
              AND t.subject_type = g.d AND t.subject_id = g.e AND t.subject_relation = g.f
           RETURNING format('%s:%s#%s@%s:%s', t.object_type, t.object_id, t.relation, t.subject_type, t.subject_id)
             || CASE WHEN t.subject_relation = '' THEN '' ELSE '#' || t.subject_relation END AS "tuple!""#,
        &given.object_type,
        &given.object_id,
        &given.relation,
        &given.subject_type,
        &given.subject_id,
        &given.subject_relation,
    )
    .fetch_all(conn)
    .await
}

/// Whether each tuple exists, in order.
pub(super) async fn standing(pool: &PgPool, tuples: &[Tuple]) -> sqlx::Result<Vec<bool>> {
    let asked = columns(tuples);
    sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM authz.tuple t
                WHERE t.object_type = g.a AND t.object_id = g.b AND t.relation = g.c
                  AND t.subject_type = g.d AND t.subject_id = g.e AND t.subject_relation = g.f) AS "stands!"
             FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
                  WITH ORDINALITY AS g(a, b, c, d, e, f, place)
            ORDER BY g.place"#,
        &asked.object_type,
        &asked.object_id,
        &asked.relation,
        &asked.subject_type,
        &asked.subject_id,
        &asked.subject_relation,
    )
    .fetch_all(pool)
    .await
}
