//! org retries a write that PostgreSQL aborts because of a real deadlock; the client sees only success.

use serde_json::json;
use sqlx::{AssertSqlSafe, PgConnection};

use testkit::until;

use crate::support::Org;

/// Number of provoked deadlocks.
const DEADLOCKS: usize = 3;
const COMPANY: &str = "SELECT FROM org.units WHERE id = $1::uuid FOR UPDATE";
const MEMBER: &str = "SELECT FROM org.members WHERE id = $1::uuid FOR UPDATE";
const COUNTS: &str = "SELECT FROM org.member_counts WHERE company_id = $1::uuid FOR UPDATE";

/// A change of a member locks its company, then the member, then the company's counts. Another session holds the counts
/// and waits for the company before the change reaches the counts, so each waits for the other.
#[tokio::test]
async fn a_change_of_a_member_survives_real_deadlocks() {
    let org = start().await;
    let company = org.company("ACME").await;
    let member = org.member(&company, "M1").await;
    let path = format!("/internal/org/admin/members/{member}");
    for round in 0..DEADLOCKS {
        let active = round % 2 == 1;
        let mut other = org.owner.begin().await.expect("a transaction");
        // PostgreSQL must abort the service's transaction, not this one.
        sqlx::query("SET LOCAL deadlock_timeout = '1min'").execute(&mut *other).await.expect("it may");
        hold(&mut other, COUNTS, &company).await;
        let mut gate = org.owner.begin().await.expect("a transaction");
        hold(&mut gate, MEMBER, &member).await;
        let change = org.put(&path, json!({ "isActive": active }));
        let circle = async {
            until("the change holds its company and waits for the member", || waits(&org, "platform_org"))
                .await;
            hold(&mut other, COMPANY, &company).await;
            other.commit().await.expect("the change gave way");
        };
        let open = async {
            until("the other waits for the company", || waits(&org, testkit::SUPERUSER)).await;
            gate.rollback().await.expect("the member is free");
        };
        let (reply, (), ()) = tokio::join!(change, circle, open);
        assert_eq!((reply.status, &reply.data()["isActive"]), (200, &json!(active)), "{}", reply.text);
    }
    let updates = org.audit().await.iter().filter(|row| row.contains("member.updated")).count();
    assert_eq!(updates, DEADLOCKS, "one row per change, none for an aborted one");
}

/// Without a limit of its own, the search would wait until the time of its request is over.
#[tokio::test]
async fn a_search_of_a_large_company_is_cancelled_after_a_second() {
    let org = start().await;
    let company = org.company("ACME").await;
    sqlx::query("INSERT INTO org.member_counts(company_id, members, active) VALUES ($1::uuid, 6000, 6000)")
        .bind(&company)
        .execute(&org.owner)
        .await
        .expect("counts of a large company");
    let mut holding = org.owner.begin().await.expect("a transaction");
    let lock = "LOCK TABLE org.members IN ACCESS EXCLUSIVE MODE";
    sqlx::query(lock).execute(&mut *holding).await.expect("held");
    for text in ["m", "member"] {
        let reply = org.get(&format!("/internal/org/companies/{company}/members?q={text}")).await;
        let told = (reply.status, reply.body["error"]["details"]["dependency"].as_str());
        assert_eq!(told, (503, Some("postgres")), "{text}: {}", reply.text);
    }
    holding.rollback().await.expect("let go");
}

/// Starts org with a short deadlock timeout and no lock or statement timeout.
async fn start() -> Org {
    let database = testkit::database().await;
    for setting in ["deadlock_timeout = '100ms'", "lock_timeout = 0", "statement_timeout = 0"] {
        let sql = format!("ALTER ROLE platform_org IN DATABASE \"{}\" SET {setting}", database.name());
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&database.owner_pool()).await.expect("the superuser may");
    }
    Org::start_on(database).await
}

async fn hold(conn: &mut PgConnection, sql: &'static str, id: &str) {
    sqlx::query(sql).bind(id).execute(conn).await.expect(sql);
}

async fn waits(org: &Org, role: &str) -> bool {
    sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
           AND usename = $1 AND wait_event_type = 'Lock')",
    )
    .bind(role)
    .fetch_one(&org.owner)
    .await
    .expect("the sessions")
}
