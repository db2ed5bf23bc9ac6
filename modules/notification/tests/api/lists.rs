//! Long lists: what they contain, and how they are read.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::ModuleApi;

use crate::start;
use crate::support::{be_member, channel};

/// Enough rows that a plan does not read the whole table just because it is small.
const MANY: usize = 6_000;
/// Far longer than a terminated backend takes to end.
const PATIENCE: Duration = Duration::from_mins(1);

/// Inserts messages through two channels in turn, each with a settled delivery; every hundredth is dead. The tables are
/// analyzed in the same transaction, so that no plan is made for seemingly empty tables. The transaction commits
/// synchronously, because VACUUM does not mark rows as all-visible before their commit is on disk.
async fn fill(module: &ModuleApi, channels: [&str; 2]) {
    let [even, odd] = channels;
    module
        .execute(format!(
            "SET LOCAL synchronous_commit = on; \
             WITH made AS (INSERT INTO notification.messages(id, company_id, channel_id, subject_line, body, created_by, created_at) \
               SELECT gen_random_uuid(), '{0}', CASE n % 2 WHEN 0 THEN '{even}' ELSE '{odd}' END::uuid, n::text, \
                 (SELECT string_agg(md5((n * 50 + i)::text), '') FROM generate_series(1, 50) i), 'x', \
                 '2026-01-01'::timestamptz + n * interval '1 second' \
               FROM generate_series(0, {MANY} - 1) n RETURNING *) \
             INSERT INTO notification.delivery_jobs(id, company_id, message_id, channel_id, kind, target, payload, state, settled_at, created_at) \
             SELECT gen_random_uuid(), '{0}', id, channel_id, 'email', 'a@example.com', body, \
               CASE subject_line::int % 100 WHEN 0 THEN 'dead' ELSE 'done' END, now(), created_at FROM made; \
             ANALYZE notification.messages; ANALYZE notification.delivery_jobs",
            module.company
        ))
        .await;
    let (start, mut turn) = (Instant::now(), tokio::time::interval(Duration::from_millis(20)));
    loop {
        for table in ["messages", "delivery_jobs", "message_reads", "channels", "subscriptions"] {
            module.execute(format!("VACUUM ANALYZE notification.{table}")).await;
        }
        if all_visible(module).await {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "a vacuum finds rows that somebody may not see yet");
        turn.tick().await;
    }
}

/// Whether the last vacuum found every row of the long tables visible to all. While one of the module's own transactions
/// is under way it does not, and then a count costs less by the table than by its index.
async fn all_visible(module: &ModuleApi) -> bool {
    let sql = "SELECT to_jsonb(bool_and(relallvisible = relpages)) FROM pg_class
               WHERE oid IN ('notification.messages'::regclass, 'notification.delivery_jobs'::regclass)";
    module.database.rows(sql.to_owned()).await[0] == json!(true)
}

async fn page(module: &ModuleApi, tail: &str) -> (Value, usize) {
    let reply = module.ask("GET", tail, None).await;
    assert_eq!(reply.status, 200, "{tail}: {}", reply.text);
    (reply.data()["total"].clone(), reply.data()["items"].as_array().expect("a page").len())
}

/// The number of messages read by sequential scans, and of uses of the lists' indexes. The worker reads jobs with its
/// own statements, so sequential reads of jobs say nothing about the lists.
async fn reads(module: &ModuleApi) -> (i64, i64) {
    let sql = "SELECT jsonb_build_object(
                 'rows', (SELECT sum(seq_tup_read) FROM pg_stat_user_tables
                   WHERE schemaname = 'notification' AND relname = 'messages'),
                 'uses', (SELECT sum(idx_scan) FROM pg_stat_user_indexes
                   WHERE indexrelname IN ('messages_list', 'delivery_jobs_list')))";
    let found = module.database.rows(sql.to_owned()).await;
    let number = |name: &str| found[0][name].as_i64().expect("a number");
    (number("rows"), number("uses"))
}

/// Ends the module's connections, because a backend reports its statistics when it exits.
async fn leave(module: &ModuleApi) {
    let ended = "WITH mine AS MATERIALIZED (SELECT pid FROM pg_stat_activity
                   WHERE datname = current_database() AND usename = 'platform_notification')
                 SELECT to_jsonb(pid) FROM mine WHERE pg_terminate_backend(pid)";
    let ended: Vec<String> =
        module.database.rows(ended.to_owned()).await.iter().map(ToString::to_string).collect();
    let left = format!("SELECT to_jsonb(pid) FROM pg_stat_activity WHERE pid IN ({})", ended.join(", "));
    let (start, mut turn) = (Instant::now(), tokio::time::interval(Duration::from_millis(20)));
    while !module.database.rows(left.clone()).await.is_empty() {
        assert!(start.elapsed() < PATIENCE, "{ended:?} are still running");
        turn.tick().await;
    }
}

#[tokio::test]
async fn a_long_list_is_counted_exactly_and_no_table_is_read_whole() {
    let module = start().await;
    be_member(&module);
    let (app, mail) =
        (channel(&module, "app", "in_app", None).await, channel(&module, "mail", "email", None).await);
    fill(&module, [&app, &mail]).await;
    let (_, first) = reads(&module).await;
    let all = [
        ("/messages".to_owned(), json!(MANY), 25),
        (format!("/messages?pageSize=7&page={}", MANY / 7 + 1), json!(MANY), MANY % 7),
        (format!("/messages?page={MANY}"), json!(MANY), 0),
        ("/deliveries".to_owned(), json!(MANY), 25),
        ("/deliveries?state=dead&pageSize=50&page=2".to_owned(), json!(MANY / 100), MANY / 100 - 50),
        ("/deliveries?state=pending".to_owned(), json!(0), 0),
        (format!("/deliveries?channelId={mail}&pageSize=100"), json!(MANY / 2), 100),
        (format!("/deliveries?channelId={app}&state=dead"), json!(MANY / 100), 25),
        (format!("/deliveries?channelId={mail}&state=dead"), json!(0), 0),
    ];
    for (tail, total, items) in &all {
        assert_eq!(page(&module, tail).await, (total.clone(), *items), "{tail}");
    }
    module.hold(&["member"]);
    assert_eq!(page(&module, "/messages?page=3").await, (json!(MANY / 2), 25), "a member's own");
    leave(&module).await;
    let (rows, last) = reads(&module).await;
    assert!(last > first, "the indexes of the lists are used");
    assert_eq!(rows, 0, "no message was read by a sequential scan");
}
