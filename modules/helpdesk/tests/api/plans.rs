//! How PostgreSQL reads for lists, searches and background work in a company with many tickets: never a large table in
//! full. The statements are the module's own, taken from `.sqlx`.

use std::fs;
use std::path::Path;

use serde_json::json;
use sqlx::{AssertSqlSafe, PgPool, Row};

use crate::search::fill;
use crate::world::{AGENT, ALICE, World};

const TICKETS: u32 = 20_000;

/// A statement of the module: a unique part of its text, the values of its parameters, and whether the module plans it
/// for its values each time.
struct Statement {
    part: &'static str,
    values: &'static str,
    is_search: bool,
}

const fn kept(part: &'static str, values: &'static str) -> Statement {
    Statement { part, values, is_search: false }
}

const fn search(part: &'static str, values: &'static str) -> Statement {
    Statement { part, values, is_search: true }
}

const PASSING: &str = "SELECT t.id FROM helpdesk.tickets t WHERE";
const AMONG: &str = "FROM unnest($12::uuid[]) AS hit(id)";
const WORDS: &str = "generate_series(c.last_number / 4096";
const WITHIN: &str = "WITH passing AS MATERIALIZED (SELECT t.id";
const OWN: &str = "SELECT own.id AS \"id!\"";
const WITHIN_OWN: &str = "WITH passing AS MATERIALIZED (SELECT own.id";
const COUNT: &str = "(SELECT FROM helpdesk.tickets t WHERE";

/// `{c}` is the company and `{m}` a member of it; `{few}` stands for a hundred tickets, `{ids}` for two thousand.
const STATEMENTS: [Statement; 23] = [
    kept("FROM helpdesk.tickets WHERE company_id = $1 ORDER BY", "'{c}', 1001, 2097152"),
    kept("FROM helpdesk.tickets WHERE company_id = $1 AND status = $2", "'{c}', 'open', 1001, 2097152"),
    kept("AS newest", "'{c}', NULL, '{m}', '{}', ARRAY[md5('group4')::uuid], 1001, 2097152"),
    kept("AS newest", "'{c}', 'open', '{m}', '{}', '{}', 1001, 2097152"),
    kept("t.company_id = $1 AND t.id = $2", "'{c}', md5('1')::uuid"),
    kept("t.id = ANY($2::uuid[])", "'{c}', {few}"),
    kept("FROM helpdesk.comments", "'{c}', md5('1')::uuid, true, 1001, 2097152"),
    kept("make_interval(days => s.auto_close_resolved_days)", "now(), 20, '{}'"),
    search(PASSING, "'{c}', NULL, NULL, true, NULL, '{}', '{}', false, false, NULL, 1001"),
    search(PASSING, "'{c}', 'open', NULL, true, NULL, '{}', '{}', false, false, NULL, 2001"),
    search(PASSING, "'{c}', NULL, 'low', true, NULL, '{}', '{}', false, false, NULL, 2001"),
    search(PASSING, "'{c}', NULL, NULL, true, NULL, '{}', '{}', false, true, NULL, 2001"),
    search(PASSING, "'{c}', NULL, NULL, true, NULL, '{}', '{}', false, false, md5('group4')::uuid, 2001"),
    search(OWN, "'{c}', NULL, NULL, true, '{m}', '{}', ARRAY[md5('group4')::uuid], true, false, NULL, 2001"),
    search(
        OWN,
        "'{c}', NULL, NULL, false, '{m}', '{}', ARRAY[md5('group4')::uuid], false, false, NULL, 5001",
    ),
    search(AMONG, "'{c}', NULL, 'low', true, NULL, '{}', '{}', false, false, NULL, 1001, {ids}"),
    search(WORDS, "'{c}', $$'\x01ticket':*$$, 2001"),
    search(WORDS, "'{c}', $$'\x01sixth':* & '\x01ticket':*$$, 2001"),
    search(WORDS, "'{c}', $$'\x0117'$$, 2001"),
    search(
        WITHIN,
        "'{c}', 'open', NULL, true, NULL, '{}', '{}', false, false, NULL, 2001, $$'\x01ticket':*$$, 1001",
    ),
    search(
        OWN,
        "'{c}', 'open', 'low', false, '{m}', '{}', ARRAY[md5('group4')::uuid], false, true, NULL, 5001",
    ),
    search(
        WITHIN_OWN,
        "'{c}', NULL, NULL, false, '{m}', '{}', ARRAY[md5('group4')::uuid], false, false, NULL, 5001,
         $$'\x01ticket':*$$, 1001",
    ),
    search(COUNT, "'{c}', 'open', NULL, true, NULL, '{}', '{}', false, false, NULL, 1501"),
];

#[tokio::test]
async fn no_list_and_no_search_reads_a_large_table_whole() {
    let world = World::start().await;
    make_large(&world).await;
    let owner = world.module.database.owner_pool();
    let (few, many) = (ids(&owner, 100).await, ids(&owner, 2_000).await);
    let company = world.module.company.to_string();
    let member = world.people[ALICE].member.to_string();
    let statements = statements();
    for statement in &STATEMENTS {
        let mut found = statements.iter().filter(|text| text.contains(statement.part));
        let (text, other) = (found.next().expect(statement.part), found.next());
        assert!(other.is_none(), "two statements hold {:?}", statement.part);
        let values = statement.values.replace("{c}", &company).replace("{m}", &member);
        let values = values.replace("{few}", &few).replace("{ids}", &many);
        let kinds: &[&str] = if statement.is_search { &["custom"] } else { &["custom", "generic"] };
        for kind in kinds {
            let plan = plan(&owner, text, &values, kind, statement.is_search).await;
            let about = format!("{} {} ({kind})", statement.part, statement.values);
            for table in ["tickets", "comments", "ticket_words"] {
                assert!(!plan.contains(&format!("Seq Scan on {table}")), "{about}:\n{plan}");
            }
            assert!(examined(&plan) < TICKETS / 2, "{about} reads {}:\n{plan}", examined(&plan));
        }
    }
}

#[tokio::test]
async fn the_keys_that_wait_for_a_row_are_found_by_the_row() {
    let world = World::start().await;
    let keys = "INSERT INTO helpdesk.idempotency_keys(company_id, operation, actor, idem_key, fingerprint, status, resource_id,
         expires_at)
       SELECT md5('company')::uuid, 'createTicket', 's', n::text, decode(repeat('00', 32), 'hex'), 201, md5(n::text)::uuid,
         now() + interval '3 days' FROM generate_series(1, 20000) n";
    for sql in [keys, "VACUUM ANALYZE helpdesk.idempotency_keys"] {
        world.module.execute(sql.to_owned()).await;
    }
    let owner = world.module.database.owner_pool();
    // The statement with which `service::idempotency` stores the response of keys whose row another request settled.
    let text = "UPDATE helpdesk.idempotency_keys SET status = 201 WHERE company_id = $1 AND resource_id = $2 AND status IS NULL";
    let plan = plan(&owner, text, "md5('company')::uuid, md5('1')::uuid", "generic", false).await;
    assert!(plan.contains("idempotency_keys_waiting"), "{plan}");
    assert!(examined(&plan) < 10, "{plan}");
}

/// Scatters the words of tickets over the table, as `0003_words_by_segments.sql` may have left them, and runs the
/// migration that rewrites them in order.
#[tokio::test]
async fn the_words_of_one_segment_lie_together_after_the_migration_that_orders_them() {
    let world = World::start().await;
    fill(&world, 1, 6_000).await;
    world
        .module
        .execute(
            "WITH moved AS (DELETE FROM helpdesk.ticket_words RETURNING ticket_id, company_id, number, words)
             INSERT INTO helpdesk.ticket_words(ticket_id, company_id, number, words)
               SELECT ticket_id, company_id, number, words FROM moved ORDER BY md5(number::text)"
                .to_owned(),
        )
        .await;
    let owner = world.module.database.owner_pool();
    // Rows stored before the row with the next smaller number.
    let disorder = async || -> i64 {
        let sql =
            "SELECT count(*) FROM (SELECT ctid, lag(ctid) OVER (ORDER BY company_id, number) AS previous
                     FROM helpdesk.ticket_words) AS row WHERE ctid < previous";
        sqlx::query_scalar(sql).fetch_one(&owner).await.expect("a count")
    };
    let words = async || -> String {
        let sql =
            "SELECT md5(string_agg(ticket_id || ' ' || number || ' ' || words::text, ',' ORDER BY ticket_id))
                     FROM helpdesk.ticket_words";
        sqlx::query_scalar(sql).fetch_one(&owner).await.expect("the words")
    };
    let before = words().await;
    assert!(disorder().await > 1_000, "precondition: the rows are out of order");
    world.module.execute(include_str!("../../migrations/0004_words_in_order.sql").to_owned()).await;
    assert_eq!((disorder().await, words().await), (0, before));
    let found = world.list(AGENT, "/tickets?view=all&q=early%20sixth").await;
    assert_eq!(found.len(), 1_000, "the search finds what it found, by the module's own role");
}

#[tokio::test]
async fn tickets_of_before_are_found_by_their_words_without_punctuation_after_the_migration() {
    let world = World::start().await;
    let body = json!({ "title": "No mail", "description": "smtp.example.com: it's down" });
    assert_eq!(world.ask(ALICE, "POST", "/tickets", Some(body)).await.status, 201);
    let search = "/tickets/search?q=example";
    let total = async || world.ask(AGENT, "GET", search, None).await.data()["total"].clone();
    let new =
        world.count("SELECT count(*) FROM helpdesk.ticket_words WHERE words::text LIKE '%.example%'").await;
    assert_eq!((total().await, new), (json!(1), 1), "control: a new ticket");
    let old = "UPDATE helpdesk.ticket_words w SET words = array_to_tsvector((
          SELECT array_agg(right(t.company_id::text, 8) || '.' || to_hex(t.number / 4096) || '.' || word.lexeme)
            FROM unnest(to_tsvector('simple', t.number || ' ' || t.title || ' ' || t.description)) AS word))
        FROM helpdesk.tickets t WHERE t.id = w.ticket_id";
    world.module.execute(old.to_owned()).await;
    assert_eq!(total().await, json!(0), "precondition: the words of before");
    let migration = include_str!("../../migrations/0007_words_without_punctuation.sql");
    world.module.execute(migration.to_owned()).await;
    assert_eq!(total().await, json!(1));
}

/// Creates tickets: most are closed, every fourth is assigned to a group, and one in fifty belongs to ALICE.
async fn make_large(world: &World) {
    fill(world, 1, TICKETS).await;
    for sql in [
        "INSERT INTO helpdesk.comments(id, company_id, ticket_id, author_kc_sub, body)
           SELECT md5(t.number || '/' || n)::uuid, t.company_id, t.id, 's', 'x'
             FROM helpdesk.tickets t, generate_series(1, 3) n",
        "UPDATE helpdesk.tickets SET status = CASE WHEN number % 100 > 1 THEN 'closed' ELSE status END,
           assignee_kind = CASE WHEN number % 4 = 0 THEN 'group' END,
           assignee_group_id = CASE WHEN number % 4 = 0 THEN md5('group' || number % 20)::uuid END,
           reporter_member_id = CASE WHEN number % 50 > 0 THEN md5('member' || number % 499)::uuid ELSE reporter_member_id END",
        "VACUUM ANALYZE helpdesk.tickets",
        "VACUUM ANALYZE helpdesk.comments",
        "VACUUM ANALYZE helpdesk.ticket_words",
    ] {
        world.module.execute(sql.to_owned()).await;
    }
}

/// The ids of this many tickets, as an SQL array.
async fn ids(owner: &PgPool, limit: u32) -> String {
    let sql = format!("SELECT array_agg(id)::text FROM (SELECT id FROM helpdesk.tickets LIMIT {limit}) AS t");
    let ids: String = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(owner).await.expect("ids");
    format!("'{ids}'")
}

/// The plan of a statement, executed and planned as in the module.
async fn plan(owner: &PgPool, text: &str, values: &str, kind: &str, is_search: bool) -> String {
    let scans = if is_search { "off" } else { "on" };
    let prepare = format!(
        "DEALLOCATE ALL; SET enable_seqscan = {scans}; SET plan_cache_mode = force_{kind}_plan; PREPARE q AS {text}"
    );
    let mut conn = owner.acquire().await.expect("a connection");
    sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut *conn).await.expect("prepared");
    let explain = format!("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) EXECUTE q({values})");
    let rows = sqlx::raw_sql(AssertSqlSafe(explain)).fetch_all(&mut *conn).await.expect("a plan");
    let lines: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    lines.join("\n")
}

/// The number of rows that a plan's scans read, including those that a filter removes.
fn examined(plan: &str) -> u32 {
    let number = |line: &str, before: &str| -> Option<u32> {
        let rest = line.split(before).nth(1)?;
        rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
    };
    let mut sum = 0;
    let mut loops = 1;
    for line in plan.lines() {
        if let Some(found) = number(line, "loops=") {
            loops = found;
            if line.contains(" Scan ") {
                sum += number(line, "actual rows=").unwrap_or_default() * loops;
            }
        }
        sum += number(line, "Rows Removed by Filter: ").unwrap_or_default() * loops;
    }
    sum
}

/// The module's statements.
fn statements() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.sqlx");
    let files = fs::read_dir(folder).expect("the prepared statements");
    let query = |file: fs::DirEntry| -> Option<String> {
        let text = fs::read_to_string(file.path()).expect("a file");
        let data: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        data["query"].as_str().map(str::to_owned)
    };
    let all = files.filter_map(|file| query(file.expect("a file")));
    all.filter(|text| text.contains("helpdesk.") && !text.contains("FOR UPDATE")).collect()
}
