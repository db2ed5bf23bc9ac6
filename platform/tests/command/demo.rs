//! `platform demo` on a running platform: the first run creates a company, the second changes nothing.

use std::collections::BTreeMap;
use std::fs;

use rustix::process::Signal;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, PgPool};

use crate::fixture::Platform;

#[tokio::test]
async fn the_demo_makes_a_company_once() {
    let platform = Platform::new().with_free_ports();
    let started = platform.start();
    let pool = database(&platform);

    let first = platform.run(&["demo"]);
    first.succeeded();
    assert!(first.out.starts_with("Northwind Studio is ready: "), "{}", first.out);
    for part in ["1. ", "5. ", "platform token --user carol", "--cacert ", "/submissions?view=approvals"] {
        assert!(first.out.contains(part), "no \"{part}\" in: {}", first.out);
    }
    assert!(first.err.contains("demo: members ("), "a log has a line for each stage: {}", first.err);
    let rows = everything(&pool).await;
    for (table, count) in [
        ("org.units", 8),
        ("org.members", 14),
        ("org.positions", 7),
        ("org.assignments", 6),
        ("org.groups", 3),
        ("org.group_members", 10),
        ("timesheet.projects", 4),
        ("timesheet.submissions", 3),
        ("notification.channels", 1),
        ("notification.messages", 1),
        ("helpdesk.bindings", 2),
        ("helpdesk.tickets", 3),
        ("helpdesk.comments", 2),
    ] {
        assert_eq!(rows.get(table).map(|(count, _)| *count), Some(count), "{table} of {rows:?}");
    }
    let states = sqlx::query_scalar::<_, String>("SELECT status::text FROM timesheet.submissions ORDER BY 1");
    assert_eq!(states.fetch_all(&pool).await.expect("rows"), ["approved", "rejected", "submitted"]);

    let second = platform.run(&["demo"]);
    second.succeeded();
    assert!(second.out.starts_with("Northwind Studio exists already; nothing was changed"), "{}", second.out);
    assert!(second.out.contains("Five things to try"), "{}", second.out);
    assert_eq!(everything(&pool).await, rows, "no row of company or timesheet, and no audit row of theirs");

    // A further run creates only what is missing.
    sqlx::query(
        "DELETE FROM org.group_members WHERE member_id = (SELECT id FROM org.members WHERE code = 'N009')",
    )
    .execute(&pool)
    .await
    .expect("the owner may");
    let third = platform.run(&["demo"]);
    assert!(
        third.out.starts_with("Northwind Studio is ready: 1 things created"),
        "{}{}",
        third.out,
        third.err
    );
    pool.close().await;
    assert_eq!(started.end(Signal::TERM), Some(0));
}

/// The superuser's connection to the embedded database.
pub(crate) fn database(platform: &Platform) -> PgPool {
    let secret = fs::read_to_string(platform.data_dir.join("secrets/db-superuser")).expect("it is kept");
    let options = PgConnectOptions::new_without_pgpass()
        .host("127.0.0.1")
        .port(8191 + platform.offset())
        .username("postgres")
        .password(secret.trim())
        .database("platform");
    PgPoolOptions::new().max_connections(1).connect_lazy_with(options)
}

/// Count and content of every table of org and timesheet, of the tuples and of their audit trails.
async fn everything(pool: &PgPool) -> BTreeMap<String, (i64, String)> {
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT schemaname || '.' || tablename FROM pg_tables WHERE schemaname IN ('org', 'timesheet', 'notification') \
         OR (schemaname, tablename) IN (('authz', 'tuple'), ('audit', 'org__events'), ('audit', 'timesheet__events'), \
                                        ('audit', 'notification__events'), ('audit', 'authz__events'), \
                                        ('helpdesk', 'tickets'), ('helpdesk', 'comments'), ('helpdesk', 'bindings'), \
                                        ('audit', 'helpdesk__events'))",
    )
    .fetch_all(pool)
    .await
    .expect("the tables");
    assert!(tables.len() > 12, "{tables:?}");
    let mut found = BTreeMap::new();
    for table in tables {
        let content = format!(
            "SELECT count(*), COALESCE(md5(string_agg(t::text, ',' ORDER BY t::text)), '') FROM {table} t"
        );
        let row = sqlx::query_as(AssertSqlSafe(content)).fetch_one(pool).await.expect("its content");
        found.insert(table, row);
    }
    found
}
