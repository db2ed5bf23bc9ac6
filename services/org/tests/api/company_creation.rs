//! A company gets the default grants of every enabled module in the transaction that creates it, even if a module is
//! enabled concurrently.

use serde_json::json;
use sqlx::{Connection, PgPool};

use crate::support::Org;
use crate::units::futures;

/// Adds a module to the catalog, as registry does.
pub(crate) async fn module(db: &PgPool, key: &str, port: i32, installed: bool, enabled: bool) {
    sqlx::query(
        "INSERT INTO registry.modules(key, kind, display_name, version, port, installed, enabled, manifest, fragment, content_hash)
         VALUES ($1, 'module', $1, '1.0.0', $2, $3, $4, '{}', '{}', sha256(''))",
    )
    .bind(key)
    .bind(port)
    .bind(installed)
    .bind(enabled)
    .execute(db)
    .await
    .expect("a module");
}

pub(crate) fn defaults(company: &str, key: &str) -> [String; 2] {
    let object = format!("company_module:{company}/{key}");
    [format!("{object}#company@company:{company}"), format!("{object}#system@system:platform")]
}

#[tokio::test]
async fn every_enabled_module_and_no_other_is_granted() {
    let org = Org::start().await;
    module(&org.owner, "timesheet", 8160, true, true).await;
    module(&org.owner, "helpdesk", 8180, true, true).await;
    module(&org.owner, "docs", 8170, true, false).await;
    module(&org.owner, "notification", 8150, false, false).await;
    let company = org.company("ACME").await;
    let expected: Vec<String> =
        ["helpdesk", "timesheet"].iter().flat_map(|key| defaults(&company, key)).collect();
    assert_eq!(org.tuples("default").await, expected);
    let ledger: Vec<String> = sqlx::query_scalar(
        "SELECT company_id::text || ' ' || key FROM registry.default_grant_ledger ORDER BY 1",
    )
    .fetch_all(&org.owner)
    .await
    .expect("the ledger");
    assert_eq!(ledger, [format!("{company} helpdesk"), format!("{company} timesheet")]);
    let body = json!({ "typeKey": "company", "code": "ACME", "name": "again" });
    assert_eq!(org.post("/internal/org/admin/units", body).await.status, 409);
    let unit = json!({ "typeKey": "department", "parentId": company, "code": "D", "name": "D" });
    assert_eq!(org.post("/internal/org/admin/units", unit).await.status, 201);
    assert_eq!(org.tuples("default").await, expected, "only companies have default grants");
}

/// registry writes the grants of companies in portions and never revisits companies created in between.
#[tokio::test]
async fn what_is_being_enabled_is_granted_as_well() {
    let org = Org::start().await;
    module(&org.owner, "docs", 8170, true, false).await;
    module(&org.owner, "helpdesk", 8180, true, false).await;
    sqlx::query(
        "INSERT INTO registry.enabling(key, requested_by, companies_total) VALUES ('docs', 'root', 5000)",
    )
    .execute(&org.owner)
    .await
    .expect("an enabling");
    let company = org.company("ACME").await;
    assert_eq!(org.tuples("default").await, defaults(&company, "docs"));
}

/// Runs registry's enabling transaction, which first takes the lock.
async fn enable(db: &PgPool, key: &str) {
    let mut conn = db.acquire().await.expect("a connection");
    let mut tx = conn.begin().await.expect("a transaction");
    for sql in [
        "SELECT pg_advisory_xact_lock(hashtextextended('platform.default_grants', 0)), $1::text",
        "UPDATE registry.modules SET enabled = true WHERE key = $1",
        "INSERT INTO registry.default_grant_ledger(company_id, key) SELECT company_id, $1 FROM org.company_facts ON CONFLICT DO NOTHING",
        "INSERT INTO authz.tuple(object_type, object_id, relation, subject_type, subject_id, source)
         SELECT 'company_module', c.company_id::text || '/' || $1, p.relation, p.kind, coalesce(p.id, c.company_id::text), 'default'
           FROM org.company_facts c, (VALUES ('company', 'company', NULL), ('system', 'system', 'platform')) AS p(relation, kind, id)
             ON CONFLICT DO NOTHING",
    ] {
        sqlx::query(sql).bind(key).execute(&mut *tx).await.expect(sql);
    }
    tx.commit().await.expect("committed");
}

#[tokio::test]
async fn no_company_misses_a_module_that_is_enabled_at_the_same_moment() {
    let org = Org::start().await;
    let rounds = 20;
    for round in 0..rounds {
        module(&org.owner, &format!("module{round}"), 9_000 + round, true, false).await;
    }
    for round in 0..rounds {
        let key = format!("module{round}");
        let creations = futures((0..3).map(|number| org.company_in(round, number)).collect());
        tokio::join!(creations, enable(&org.owner, &key));
    }
    let missing: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM org.units c CROSS JOIN registry.modules m CROSS JOIN (VALUES ('company'), ('system')) AS r(relation)
          WHERE NOT EXISTS (SELECT FROM authz.tuple t WHERE t.object_type = 'company_module'
                               AND t.object_id = c.id::text || '/' || m.key AND t.relation = r.relation)",
    )
    .fetch_one(&org.owner)
    .await
    .expect("a count");
    assert_eq!(missing, 0);
    let companies: i64 =
        sqlx::query_scalar("SELECT count(*) FROM org.units").fetch_one(&org.owner).await.expect("a count");
    assert_eq!(companies, i64::from(rounds) * 3);
}

impl Org {
    async fn company_in(&self, round: i32, number: i32) -> String {
        self.company(&format!("R{round}N{number}")).await
    }
}
