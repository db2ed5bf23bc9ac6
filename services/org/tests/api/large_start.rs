//! A start with a large number of linked members: org is ready at once and compares the derived tuples with their rows
//! in the background, in portions. `ORG_MEMBERS=1000000` tests the size that the platform promises.

use std::time::{Duration, Instant};

use crate::support::Org;

/// Members in `cargo test`: several portions.
const SOME: i64 = 5_000;
/// The promised limit, at the promised size.
const READY: Duration = Duration::from_secs(10);

#[tokio::test]
async fn org_is_ready_at_once_and_repairs_beside_its_requests() {
    let members = std::env::var_os("ORG_MEMBERS")
        .map_or(SOME, |text| text.to_str().and_then(|text| text.parse().ok()).expect("a number"));
    let first = Org::start().await;
    let company = first.company("LARGE").await;
    fill(&first, &company, members).await;
    let begun = Instant::now();
    let org = Org::start_on(first.database.clone()).await;
    let ready = begun.elapsed();
    // The tuples of the first and the last member are missing, and one tuple has no member.
    let is_repaired = async || {
        let wrong: i64 = sqlx::query_scalar(
            "SELECT (SELECT count(*) FROM authz.tuple WHERE source = 'org' AND subject_id IN ('s0', $1))
                  - (SELECT count(*) FROM authz.tuple WHERE source = 'org' AND subject_id = 'nobody')",
        )
        .bind(format!("s{}", members - 1))
        .fetch_one(&org.owner)
        .await
        .expect("the tuples");
        wrong == 2
    };
    let patience = Duration::from_secs(20 + members.unsigned_abs() / 2_000);
    let repaired = async {
        while !is_repaired().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(patience, repaired).await.expect("repaired in time");
    println!("{members} linked members: ready after {ready:?}, repaired after {:?}", begun.elapsed());
    assert!(ready < READY, "{ready:?}");
    let first = org.ask(&format!("/internal/org/companies/{company}/members/by-kcsub/s0")).await;
    assert_eq!(first.data()["isActive"], true, "{}", first.text);
}

/// Adds linked members with their tuples, without entries in the change log.
async fn fill(org: &Org, company: &str, members: i64) {
    let mut owner = org.owner.acquire().await.expect("a connection");
    for statement in [
        // The test does not search, and filling these indexes takes minutes.
        "DROP INDEX org.members_letters",
        "DROP INDEX IF EXISTS org.members_search",
        "ALTER TABLE authz.tuple DISABLE TRIGGER USER",
        "INSERT INTO org.members(id, company_id, code, display_name, user_id)
         SELECT gen_random_uuid(), $1::uuid, 'C' || n, 'Member ' || n, 's' || n FROM generate_series(0, $2 - 1) AS n",
        "INSERT INTO authz.tuple(object_type, object_id, relation, subject_type, subject_id, subject_relation, source)
         SELECT 'company', $1, 'member', 'user', 's' || n, '', 'org' FROM generate_series(1, $2 - 2) AS n",
        "INSERT INTO authz.tuple(object_type, object_id, relation, subject_type, subject_id, subject_relation, source)
         SELECT 'company', $1, 'member', 'user', 'nobody', '', 'org' WHERE $2 > 0",
        "SELECT feed.wire()",
    ] {
        let query = sqlx::query(statement);
        let query = if statement.contains("$1") { query.bind(company).bind(members) } else { query };
        query.execute(&mut *owner).await.expect(statement);
    }
    for table in ["VACUUM (ANALYZE) org.members", "VACUUM (ANALYZE) authz.tuple"] {
        sqlx::query(table).execute(&mut *owner).await.expect(table);
    }
}
