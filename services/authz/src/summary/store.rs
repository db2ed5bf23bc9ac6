//! The rows of a summary, all from one moment.

use contract::Subject;
use contract::fragment::base_model;
use contract::id::CompanyId;
use serde::Deserialize;
use serde_json::Value;
use sqlx::PgPool;
use sqlx::types::Json;

/// Maximum number of a subject's direct tuples that a summary looks at, and so lists, in the order of their index. This
/// bounds the cost, however many there are and whatever company they belong to. Those on modules are few and come
/// first.
const MAX_TUPLES: usize = 10_000;

/// The rows that a summary is built from.
#[derive(Debug)]
pub(super) struct Rows {
    /// Active companies in which the subject is an active member.
    pub(super) companies: Vec<CompanyId>,
    /// Enabled modules and apps, by key.
    pub(super) modules: Vec<Module>,
    /// The subject's own tuples on these modules in these companies and on their objects, by object.
    pub(super) tuples: Vec<Held>,
    /// Whether `tuples` is complete.
    pub(super) are_all: bool,
}

/// An enabled module or app.
#[derive(Debug, Deserialize)]
pub(super) struct Module {
    pub(super) key: String,
    pub(super) features: Vec<String>,
    pub(super) fragment: Value,
}

/// One tuple of the subject.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Held {
    pub(super) object_type: String,
    pub(super) object_id: String,
    pub(super) relation: String,
}

/// Reads the rows for one company or for all of the subject's. An object belongs to the module and company of its only
/// anchor; an object with several anchors belongs to none.
pub(super) async fn read(pool: &PgPool, subject: &Subject, company: Option<CompanyId>) -> sqlx::Result<Rows> {
    let limit = i64::try_from(MAX_TUPLES + 1).unwrap_or(i64::MAX);
    let base = base_model();
    let base_types: Vec<String> = base.keys().cloned().collect();
    let tiers: Vec<String> =
        base.get("company_module").into_iter().flat_map(|tiers| tiers.keys().cloned()).collect();
    let row = sqlx::query!(
        r#"WITH company AS MATERIALIZED (
    SELECT m.company_id AS id
      FROM org.member_facts m JOIN org.company_facts c ON c.company_id = m.company_id
     WHERE m.kc_sub = $1 AND m.is_active AND c.is_active AND ($2::uuid IS NULL OR m.company_id = $2)),
  module AS MATERIALIZED (
    SELECT key, features, fragment FROM registry.module_facts WHERE installed AND enabled),
  own AS MATERIALIZED (
    SELECT object_type, object_id, relation FROM authz.tuple
     WHERE subject_type = 'user' AND subject_id = $1 AND subject_relation = ''
       AND object_type <> ALL($5)
     ORDER BY relation, object_type, object_id LIMIT $3)
SELECT
  (SELECT coalesce(jsonb_agg(id ORDER BY id), '[]') FROM company) AS "companies!: Json<Vec<CompanyId>>",
  (SELECT coalesce(jsonb_agg(jsonb_build_object('key', key, 'features', features, 'fragment', fragment)
        ORDER BY key COLLATE "C"), '[]') FROM module
  ) AS "modules!: Json<Vec<Module>>",
  (SELECT coalesce(jsonb_agg(jsonb_build_object(
        'objectType', t.object_type, 'objectId', t.object_id, 'relation', t.relation)
        ORDER BY t.object_type <> 'company_module', t.object_type, t.object_id, t.relation), '[]')
     FROM (SELECT t.object_type, t.object_id, t.relation FROM authz.tuple t
            WHERE t.subject_type = 'user' AND t.subject_id = $1 AND t.subject_relation = ''
              AND t.relation = ANY($4) AND t.object_type = 'company_module'
              AND left(t.object_id, 37) IN (SELECT id || '/' FROM company)
              AND substr(t.object_id, 38) IN (SELECT key FROM module)
           UNION ALL
           SELECT own.object_type, own.object_id, own.relation FROM own
            WHERE (SELECT count(*) = 1 AND bool_and(left(a.subject_id, 37) IN (SELECT id || '/' FROM company)
                       AND substr(a.subject_id, 38) IN (SELECT key FROM module)) FROM authz.tuple a
                    WHERE a.object_type = own.object_type AND a.object_id = own.object_id
                      AND a.relation = 'company_module' AND a.subject_type = 'company_module' AND a.subject_relation = '')
           LIMIT $3) t
  ) AS "tuples!: Json<Vec<Held>>",
  (SELECT count(*) FROM own) AS "looked_at!""#,
        subject.as_str(),
        company.map(CompanyId::as_uuid),
        limit,
        &tiers,
        &base_types,
    )
    .fetch_one(pool)
    .await?;
    let mut tuples = row.tuples.0;
    let are_all = tuples.len() <= MAX_TUPLES && row.looked_at < limit;
    tuples.truncate(MAX_TUPLES);
    Ok(Rows { companies: row.companies.0, modules: row.modules.0, tuples, are_all })
}
