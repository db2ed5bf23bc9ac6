//! The rows of a summary, all of one moment.

use contract::Subject;
use contract::id::CompanyId;
use serde::Deserialize;
use serde_json::Value;
use sqlx::PgPool;
use sqlx::types::Json;

/// Most direct tuples that a summary lists; the answer says when there are more.
pub(super) const MAX_TUPLES: usize = 10_000;

/// What the subject is told about.
#[derive(Debug)]
pub(super) struct Rows {
    /// Active companies in which the subject is an active member.
    pub(super) companies: Vec<CompanyId>,
    /// Enabled modules and apps, by key.
    pub(super) modules: Vec<Module>,
    /// The subject's own tuples on these modules in these companies and on their objects, by object; one more than
    /// [`MAX_TUPLES`] at most.
    pub(super) tuples: Vec<Held>,
}

/// An enabled module or app.
#[derive(Debug, Deserialize)]
pub(super) struct Module {
    pub(super) key: String,
    pub(super) features: Vec<String>,
    pub(super) fragment: Value,
}

/// A tuple of the subject.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Held {
    pub(super) object_type: String,
    pub(super) object_id: String,
    pub(super) relation: String,
}

/// In one company, or in all of the subject's. An object is of the one module in the one company that it is anchored to, and
/// with several anchors of none. The tuples are taken in the order of their index, so that a subject with very many costs what
/// is listed.
pub(super) async fn read(pool: &PgPool, subject: &Subject, company: Option<CompanyId>) -> sqlx::Result<Rows> {
    let limit = i64::try_from(MAX_TUPLES + 1).unwrap_or(i64::MAX);
    let row = sqlx::query!(
        r#"WITH company AS MATERIALIZED (
    SELECT m.company_id AS id
      FROM org.member_facts m JOIN org.company_facts c ON c.company_id = m.company_id
     WHERE m.kc_sub = $1 AND m.is_active AND c.is_active AND ($2::uuid IS NULL OR m.company_id = $2)),
  module AS MATERIALIZED (
    SELECT key, features, fragment FROM registry.module_facts WHERE installed AND enabled)
SELECT
  (SELECT coalesce(jsonb_agg(id ORDER BY id), '[]') FROM company) AS "companies!: Json<Vec<CompanyId>>",
  (SELECT coalesce(jsonb_agg(jsonb_build_object('key', key, 'features', features, 'fragment', fragment)
        ORDER BY key COLLATE "C"), '[]') FROM module
  ) AS "modules!: Json<Vec<Module>>",
  (SELECT coalesce(jsonb_agg(jsonb_build_object(
        'objectType', t.object_type, 'objectId', t.object_id, 'relation', t.relation)
        ORDER BY t.object_type, t.object_id, t.relation), '[]')
     FROM (SELECT t.object_type, t.object_id, t.relation FROM authz.tuple t
            WHERE t.subject_type = 'user' AND t.subject_id = $1 AND t.subject_relation = ''
              AND (t.object_type = 'company_module' AND left(t.object_id, 37) IN (SELECT id || '/' FROM company)
                    AND substr(t.object_id, 38) IN (SELECT key FROM module)
                OR (SELECT count(*) = 1 AND bool_and(left(a.subject_id, 37) IN (SELECT id || '/' FROM company)
                        AND substr(a.subject_id, 38) IN (SELECT key FROM module)) FROM authz.tuple a
                     WHERE a.object_type = t.object_type AND a.object_id = t.object_id AND a.relation = 'company_module'
                       AND a.subject_type = 'company_module' AND a.subject_relation = ''))
            ORDER BY t.relation, t.object_type, t.object_id LIMIT $3) t
  ) AS "tuples!: Json<Vec<Held>>""#,
        subject.as_str(),
        company.map(CompanyId::as_uuid),
        limit,
    )
    .fetch_one(pool)
    .await?;
    Ok(Rows { companies: row.companies.0, modules: row.modules.0, tuples: row.tuples.0 })
}
