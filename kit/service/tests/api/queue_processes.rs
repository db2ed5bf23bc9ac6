//! A queue shared by several processes that are killed at random, and the cost of a claim among many settled jobs.
//! Small by default; `QUEUE_JOBS` and `QUEUE_SETTLED` enlarge it, and the figures are printed.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::process::Stdio;
use std::time::{Duration, Instant};

use contract::Settings;
use service::config::{DatabaseConfig, DatabaseTls};
use service::workers::{Ask, Claimed, Ended, Ladder, Leased, Queue, QueueConfig, Verdict, Worked, Workers};
use sqlx::{AssertSqlSafe, PgPool, Row};
use telemetry::Metrics;
use testkit::TestDatabase;
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::queue::{JOBS, Job, make_table};

const PROCESSES: usize = 3;
const SLOTS: usize = 16;
const SLOTS_PER_KEY: usize = 4;
/// Long compared with a job and short compared with the test: the jobs of a killed process are free after it.
const LEASE: Duration = Duration::from_secs(8);
/// The variable that turns this binary into one of the processes to be killed.
const DATABASE: &str = "QUEUE_TEST_DATABASE";
/// Time between two kills, in milliseconds.
const KILL_EVERY: std::ops::Range<u64> = 100..700;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var_os(variable).and_then(|text| text.to_str()?.parse().ok()).unwrap_or(default)
}

#[expect(clippy::print_stderr, reason = "the figures were requested")]
fn told(line: &str) {
    eprintln!("{line}");
}

/// Records its start, takes a few milliseconds, and records its end. The settlement is written with its job.
struct Noting(PgPool);

impl Queue for Noting {
    type Job = Job;
    type Report = i64;
    type Error = sqlx::Error;

    async fn make_ready(&self) -> sqlx::Result<bool> {
        JOBS.make_ready(&self.0, "default").await
    }

    async fn claim(&self, ask: Ask) -> sqlx::Result<Claimed<Job>> {
        JOBS.claim(&self.0, "default", ask).await
    }

    async fn work(&self, job: &Leased<Job>) -> Worked<i64> {
        let begun = "INSERT INTO org.runs(job_id) VALUES ($1) RETURNING run";
        let run = sqlx::query_scalar(begun).bind(job.lease.id).fetch_one(&self.0).await;
        let Ok(run) = run else { return Worked { verdict: Verdict::Retry { asked: None }, report: 0 } };
        tokio::time::sleep(Duration::from_millis(u64::from(job.lease.id.as_bytes()[15] % 16))).await;
        let ended = sqlx::query("UPDATE org.runs SET ended_at = clock_timestamp() WHERE run = $1");
        let verdict = match ended.bind(run).execute(&self.0).await {
            Ok(_) => Verdict::Done,
            Err(_) => Verdict::Retry { asked: None },
        };
        Worked { verdict, report: run }
    }

    async fn settle(&self, job: &Leased<Job>, ended: &Ended<i64>) -> sqlx::Result<bool> {
        let mut tx = self.0.begin().await?;
        if !JOBS.settle(&mut tx, &job.lease, ended.settlement).await? {
            return Ok(false);
        }
        let settled = sqlx::query("UPDATE org.runs SET settled = true WHERE run = $1");
        settled.bind(ended.report.unwrap_or_default()).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(true)
    }

    async fn oldest(&self) -> sqlx::Result<Duration> {
        JOBS.oldest(&self.0, "default").await
    }
}

/// Acts as one of the queue's processes if the variable is set; otherwise does nothing.
#[tokio::test]
async fn queue_process() {
    let Some(database) = std::env::var_os(DATABASE) else { return };
    let database = database.into_string().expect("a text");
    let (port, name) = database.split_once('/').expect("<port>/<name>");
    let config = DatabaseConfig {
        host: "127.0.0.1".to_owned(),
        port: port.parse().expect("a port"),
        name: name.to_owned(),
        role: "platform_org".to_owned(),
        password: testkit::cluster::PASSWORD.to_owned(),
        max_connections: 1,
        max_worker_connections: 4,
        tls: DatabaseTls::default(),
    };
    let metrics = Metrics::new("org", "0", "unknown").expect("a registry");
    let workers = Workers::start("org", &config, &metrics, &CancellationToken::new()).expect("workers");
    let at_once = [Duration::ZERO; 100];
    let queue = QueueConfig {
        name: "jobs",
        slots: SLOTS,
        slots_per_key: SLOTS_PER_KEY,
        lease: LEASE,
        poll: Duration::from_millis(100),
        ladder: Ladder::new(&at_once).expect("a ladder"),
    };
    workers.queue(queue, Noting(workers.pool().clone()));
    std::future::pending::<()>().await;
}

fn spawn(database: &TestDatabase) -> Child {
    let environment = Settings::from_pairs(
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
    );
    let mut command = Command::new(std::env::current_exe().expect("this binary has a path"));
    command.args(["--exact", "queue_processes::queue_process", "--nocapture", "--quiet"]).env_clear();
    for name in ["PATH", "HOME"] {
        command.env(name, environment.raw(name).unwrap_or_default());
    }
    command.env(DATABASE, format!("{}/{}", database.port(), database.name()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    command.spawn().expect("it starts")
}

async fn count(owner: &PgPool, question: &'static str) -> i64 {
    sqlx::query_scalar(question).fetch_one(owner).await.expect("a count")
}

#[tokio::test]
async fn killed_processes_lose_no_job_and_settle_none_twice() {
    let jobs = number("QUEUE_JOBS", 1_500);
    let seed = number("QUEUE_SEED", RandomState::new().hash_one(0));
    let database = testkit::database().await;
    let owner = make_table(&database).await;
    let runs = "CREATE TABLE org.runs(run bigserial PRIMARY KEY, job_id uuid NOT NULL, settled boolean NOT NULL DEFAULT false, \
                  started_at timestamptz NOT NULL DEFAULT clock_timestamp(), ended_at timestamptz); \
                CREATE INDEX runs_job ON org.runs(job_id); \
                GRANT SELECT, INSERT, UPDATE ON org.runs TO platform_org; \
                GRANT USAGE ON SEQUENCE org.runs_run_seq TO platform_org";
    sqlx::raw_sql(runs).execute(&owner).await.expect("the runs");
    let made = "INSERT INTO org.jobs(id, tenant, what) \
                SELECT gen_random_uuid(), md5((n % 40)::text)::uuid, 'done' FROM generate_series(1, $1::int) n";
    let number_of_jobs = i64::try_from(jobs).expect("a number");
    sqlx::query(made).bind(number_of_jobs).execute(&owner).await.expect("the jobs");
    let begun = Instant::now();
    let mut processes: Vec<Child> = (0..PROCESSES).map(|_| spawn(&database)).collect();
    let (mut kills, mut random) = (0, seed);
    let pending = "SELECT count(*) FROM org.jobs WHERE state = 'pending'";
    while count(&owner, pending).await > 0 {
        assert!(
            begun.elapsed() < Duration::from_mins(30),
            "seed {seed}: {} are left",
            count(&owner, pending).await
        );
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let pause = KILL_EVERY.start + (random >> 33) % (KILL_EVERY.end - KILL_EVERY.start);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let unlucky = usize::try_from((random >> 20) % 3).expect("small");
        // The jobs of killed processes are free when their leases expire; no further kill is needed by then.
        if count(&owner, "SELECT count(*) FROM org.jobs WHERE state = 'pending' AND lease_token IS NULL")
            .await
            > 0
        {
            processes[unlucky].kill().await.expect("SIGKILL");
            processes[unlucky] = spawn(&database);
            kills += 1;
        }
    }
    let took = begun.elapsed();
    for process in &mut processes {
        process.kill().await.expect("SIGKILL");
    }
    report(&owner, number_of_jobs, kills, took, seed).await;
}

async fn report(owner: &PgPool, jobs: i64, kills: i64, took: Duration, seed: u64) {
    let done = count(owner, "SELECT count(*) FROM org.jobs WHERE state = 'done'").await;
    let once = "SELECT count(*) FROM (SELECT job_id FROM org.runs WHERE settled GROUP BY job_id HAVING count(*) = 1) t";
    let once = count(owner, once).await;
    let settled = count(owner, "SELECT count(*) FROM org.runs WHERE settled").await;
    let runs = count(owner, "SELECT count(*) FROM org.runs").await;
    let twice = "SELECT count(*) FROM (SELECT job_id FROM org.runs GROUP BY job_id HAVING count(*) > 1) t";
    let twice = count(owner, twice).await;
    let finished_twice = "SELECT count(*) FROM (SELECT job_id FROM org.runs WHERE ended_at IS NOT NULL GROUP BY job_id HAVING count(*) > 1) t";
    let finished_twice = count(owner, finished_twice).await;
    let at_once = "SELECT count(*) FROM org.runs a JOIN org.runs b ON a.job_id = b.job_id AND a.run < b.run \
                   WHERE b.started_at < a.ended_at";
    let at_once = count(owner, at_once).await;
    let leases = "SELECT count(*) FROM org.jobs WHERE attempt_count > 1";
    let leases = count(owner, leases).await;
    told(&format!(
        "{jobs} jobs, {PROCESSES} processes, {kills} kills, {took:.1?} (seed {seed}): {done} done, {settled} settled, \
         {leases} claimed more than once, {twice} begun more than once, {finished_twice} run to their end more than once, \
         {at_once} runs of one job at once"
    ));
    assert!(kills > 0, "nobody was killed: more jobs are needed");
    assert_eq!((done, once, settled), (jobs, jobs, jobs), "seed {seed}");
    assert_eq!(at_once, 0, "seed {seed}");
    // A process holds the jobs in its slots, and for each slot 128 jobs that only wait.
    let held = i64::try_from(SLOTS * (1 + 128)).expect("small");
    assert!(runs >= jobs && leases <= kills * held, "seed {seed}: {runs} runs, {leases} leases");
}

#[tokio::test]
async fn settled_jobs_cost_a_claim_nothing() {
    let settled = number("QUEUE_SETTLED", 20_000);
    let database = testkit::database().await;
    let owner = make_table(&database).await;
    let pending = "INSERT INTO org.jobs(id, tenant, what, is_ready) \
                   SELECT gen_random_uuid(), md5((n % 40)::text)::uuid, 'done', true FROM generate_series(1, 1000) n";
    sqlx::query(pending).execute(&owner).await.expect("a thousand ready jobs");
    sqlx::raw_sql("VACUUM ANALYZE org.jobs").execute(&owner).await.expect("as autovacuum would");
    let alone = explain(&owner, "'{}', '{}'", "{}").await;
    let number_settled = i32::try_from(settled).expect("a number");
    let more = "INSERT INTO org.jobs(id, tenant, what, state, settled_at, attempt_count) \
                SELECT gen_random_uuid(), md5((n % 40)::text)::uuid, 'done', 'done', now(), 1 FROM generate_series(1, $1) n";
    sqlx::query(more).bind(number_settled).execute(&owner).await.expect("settled jobs");
    sqlx::raw_sql("VACUUM ANALYZE org.jobs").execute(&owner).await.expect("as autovacuum would");
    let beside = explain(&owner, "'{}', '{}'", "{}").await;
    told(&format!(
        "a claim of 16 of 1,000 jobs: {} blocks, {} ms; beside {settled} settled ones: {} blocks, {} ms",
        alone.blocks, alone.milliseconds, beside.blocks, beside.milliseconds
    ));
    // The primary key of a thousand times as many rows is a level or two deeper, and each claimed job is looked up
    // there and inserted again.
    assert!(beside.blocks <= 2 * alone.blocks, "{beside:?} after {alone:?}");
    assert!(!beside.scanned.contains("Seq Scan"), "no scan of the whole table: {beside:?}");
}

#[tokio::test]
async fn the_backlog_of_a_key_whose_slots_are_taken_costs_a_claim_nothing() {
    let waiting = number("QUEUE_SETTLED", 20_000);
    let database = testkit::database().await;
    let owner = make_table(&database).await;
    let pending = "INSERT INTO org.jobs(id, tenant, what, is_ready) \
                   SELECT gen_random_uuid(), md5((n % 40)::text)::uuid, 'done', true FROM generate_series(1, 1000) n";
    sqlx::query(pending).execute(&owner).await.expect("a thousand ready jobs");
    sqlx::raw_sql("VACUUM ANALYZE org.jobs").execute(&owner).await.expect("as autovacuum would");
    let running = format!("'{{{}}}', '{{{SLOTS_PER_KEY}}}'", Uuid::nil());
    let alone = explain(&owner, &running, "{}").await;
    let backlog = "INSERT INTO org.jobs(id, tenant, what, next_attempt_at, is_ready) \
                   SELECT gen_random_uuid(), $2, 'done', now() - interval '1 day', true FROM generate_series(1, $1)";
    let waiting_jobs = i32::try_from(waiting).expect("a number");
    sqlx::query(backlog).bind(waiting_jobs).bind(Uuid::nil()).execute(&owner).await.expect("a backlog");
    sqlx::raw_sql("VACUUM ANALYZE org.jobs").execute(&owner).await.expect("as autovacuum would");
    let beside = explain(&owner, &running, "{}").await;
    told(&format!(
        "a claim of 16 of 1,000 jobs: {} blocks, {} ms; with {waiting} older ones of a full key: {} blocks, {} ms",
        alone.blocks, alone.milliseconds, beside.blocks, beside.milliseconds
    ));
    assert!(beside.blocks <= 2 * alone.blocks, "{beside:?} after {alone:?}");
    assert!(!beside.scanned.contains("Seq Scan"), "no scan of the whole table: {beside:?}");
}

#[tokio::test]
async fn the_backlog_of_a_full_company_costs_a_claim_nothing() {
    let waiting = number("QUEUE_SETTLED", 20_000);
    let database = testkit::database().await;
    let owner = make_table(&database).await;
    let pending = "INSERT INTO org.jobs(id, tenant, what, is_ready) \
                   SELECT gen_random_uuid(), md5((n % 40)::text)::uuid, 'done', true FROM generate_series(1, 1000) n";
    sqlx::query(pending).execute(&owner).await.expect("a thousand ready jobs");
    sqlx::raw_sql("VACUUM ANALYZE org.jobs").execute(&owner).await.expect("as autovacuum would");
    let full = format!("{{{}}}", Uuid::max());
    let alone = explain(&owner, "'{}', '{}'", "{}").await;
    // Twenty keys, which come before the others.
    let backlog = "INSERT INTO org.jobs(id, tenant, what, company, next_attempt_at, is_ready) \
                   SELECT gen_random_uuid(), ('00000000-0000-0000-0000-' || lpad((n % 20)::text, 12, '0'))::uuid, 'done', $2, \
                     now() - interval '1 day', true FROM generate_series(1, $1) n";
    let waiting_jobs = i32::try_from(waiting).expect("a number");
    sqlx::query(backlog).bind(waiting_jobs).bind(Uuid::max()).execute(&owner).await.expect("a backlog");
    sqlx::raw_sql("VACUUM ANALYZE org.jobs").execute(&owner).await.expect("as autovacuum would");
    let beside = explain(&owner, "'{}', '{}'", &full).await;
    told(&format!(
        "a claim of 16 of 1,000 jobs: {} blocks, {} ms; with {waiting} older ones of a full company: {} blocks, {} ms",
        alone.blocks, alone.milliseconds, beside.blocks, beside.milliseconds
    ));
    assert!(beside.blocks <= 2 * alone.blocks, "{beside:?} after {alone:?}");
    assert!(!beside.scanned.contains("Seq Scan"), "no scan of the whole table: {beside:?}");
}

#[tokio::test]
async fn jobs_that_are_leased_or_not_due_cost_a_look_for_due_ones_nothing() {
    let waiting = number("QUEUE_SETTLED", 20_000);
    let database = testkit::database().await;
    let owner = make_table(&database).await;
    let due = "INSERT INTO org.jobs(id, tenant, what, next_attempt_at) \
               SELECT gen_random_uuid(), gen_random_uuid(), 'done', now() - interval '1 s' FROM generate_series(1, 10)";
    sqlx::query(due).execute(&owner).await.expect("ten due jobs");
    sqlx::raw_sql("VACUUM ANALYZE org.jobs").execute(&owner).await.expect("as autovacuum would");
    let look = async || explain_statement(&owner, "text", &JOBS.make_ready_sql(), "'default'").await;
    let alone = look().await;
    let more = "INSERT INTO org.jobs(id, tenant, what, next_attempt_at, lease_token, leased_until) \
                SELECT gen_random_uuid(), gen_random_uuid(), 'done', now() + CASE n % 2 WHEN 0 THEN interval '1 hour' ELSE '-1 hour' END, \
                  CASE n % 2 WHEN 1 THEN gen_random_uuid() END, CASE n % 2 WHEN 1 THEN now() + interval '1 hour' END \
                FROM generate_series(1, $1) n";
    let number_waiting = i32::try_from(waiting).expect("a number");
    sqlx::query(more).bind(number_waiting).execute(&owner).await.expect("jobs that are not due or leased");
    sqlx::raw_sql("VACUUM ANALYZE org.jobs").execute(&owner).await.expect("as autovacuum would");
    let beside = look().await;
    told(&format!(
        "ten due jobs made ready: {} blocks, {} ms; beside {waiting} others: {} blocks, {} ms",
        alone.blocks, alone.milliseconds, beside.blocks, beside.milliseconds
    ));
    assert!(beside.blocks <= 2 * alone.blocks, "{beside:?} after {alone:?}");
    assert!(!beside.scanned.contains("Seq Scan"), "no scan of the whole table: {beside:?}");
}

#[derive(Debug)]
struct Cost {
    milliseconds: f64,
    blocks: u64,
    /// How the table is scanned.
    scanned: BTreeSet<&'static str>,
}

/// The cost of one claim of sixteen jobs, without its effect, with the generic plan, as after the first few claims of a
/// connection; `running` holds the keys and numbers of running jobs, `full` the full companies. The plan is printed for a large table.
async fn explain(owner: &PgPool, running: &str, full: &str) -> Cost {
    let types =
        "text, uuid, bigint, uuid[], bigint[], bigint, bigint, uuid, interval, int, uuid[], uuid[], uuid[]";
    let values = format!(
        "'default', NULL, 64, {running}, 4, 16, gen_random_uuid(), '60 s', 100, '{full}', '{{}}', '{{}}'"
    );
    explain_statement(owner, types, &JOBS.claim_sql(), &values).await
}

/// The cost of a statement with parameters of these types, likewise.
async fn explain_statement(owner: &PgPool, types: &str, sql: &str, values: &str) -> Cost {
    let prepare = format!(
        "SET plan_cache_mode = force_generic_plan; DEALLOCATE ALL; PREPARE statement({types}) AS {sql}"
    );
    let run = async || -> Vec<String> {
        let mut conn = owner.acquire().await.expect("a connection");
        sqlx::raw_sql(AssertSqlSafe(prepare.clone())).execute(&mut *conn).await.expect("prepared");
        let explain = format!("BEGIN; EXPLAIN (ANALYZE, BUFFERS) EXECUTE statement({values})");
        let rows = sqlx::raw_sql(AssertSqlSafe(explain)).fetch_all(&mut *conn).await.expect("a plan");
        sqlx::raw_sql("ROLLBACK").execute(&mut *conn).await.expect("nothing was claimed");
        rows.iter().map(|row| row.get::<String, _>(0)).collect()
    };
    // The first run fills the caches.
    run().await;
    let plan = run().await;
    if std::env::var_os("QUEUE_SETTLED").is_some() {
        for line in &plan {
            told(line);
        }
    }
    let lines: Vec<&str> = plan.iter().map(String::as_str).collect();
    let after =
        |name: &str| lines.iter().rev().find_map(|line| line.trim().strip_prefix(name)?.strip_suffix(" ms"));
    let milliseconds = after("Execution Time: ").and_then(|text| text.parse().ok()).expect("a time");
    let buffers =
        lines.iter().find_map(|line| line.trim().strip_prefix("Buffers: shared ")).expect("buffers");
    let blocks = buffers.split_whitespace().filter_map(|part| {
        let number = part.strip_prefix("hit=").or_else(|| part.strip_prefix("read="))?;
        number.parse::<u64>().ok()
    });
    let scanned =
        ["Seq Scan", "Bitmap Heap Scan", "Index Scan", "Index Only Scan"].into_iter().filter(|scan| {
            lines.iter().any(|line| {
                line.contains(&format!("{scan} on jobs")) || line.contains(&format!("{scan} using"))
            })
        });
    Cost { milliseconds, blocks: blocks.sum(), scanned: scanned.collect() }
}
