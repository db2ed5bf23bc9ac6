//! A write of org that PostgreSQL gives up because of a real deadlock is done again, and answers as if nothing had been.

use serde_json::json;
use sqlx::{AssertSqlSafe, PgConnection};

use crate::support::{Org, until};

/// How often one is provoked.
const DEADLOCKS: usize = 3;
const COMPANY: &str = "SELECT FROM org.units WHERE id = $1::uuid FOR UPDATE";
const MEMBER: &str = "SELECT FROM org.members WHERE id = $1::uuid FOR UPDATE";
const COUNTS: &str = "SELECT FROM org.member_counts WHERE company_id = $1::uuid FOR UPDATE";

/// A change of a member holds its company, then the member, then the company's counts. Another session has the counts
/// and waits for the company before the change comes to the counts: then each waits for the other.
#[tokio::test]
async fn a_change_of_a_member_survives_real_deadlocks() {
    let org = start().await;
    let company = org.company("ACME").await;
    let member = org.member(&company, "M1").await;
    let path = format!("/internal/org/admin/members/{member}");
    for round in 0..DEADLOCKS {
        let active = round % 2 == 1;
        let mut other = org.owner.begin().await.expect("a transaction");
        // The service is the one that notices and gives way.
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
    assert_eq!(updates, DEADLOCKS, "one row for each change, none for what was given up");
}

/// With deadlocks that are noticed soon, and patience with the other sessions of the test.
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
