//! Queues: leases, retries, fairness between keys, shutdown of a service. The test creates its own table of jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use service::workers::{
    Ask, Attempted, Broken, Claimed, Ended, JobTable, Kept, Ladder, Lease, Leased, Position, Queue,
    QueueConfig, Settlement, Verdict, Worked,
};
use sqlx::{AssertSqlSafe, FromRow, PgPool};
use testkit::TestDatabase;
use tokio::sync::{Notify, Semaphore, mpsc};
use uuid::Uuid;

use crate::workers::{NEVER, PATIENCE, Running, soon, value};

pub(crate) const JOBS: JobTable = JobTable { table: "org.jobs", key: "tenant", company: "company" };
mod companies;
mod ready;

const GROUP: &str = "default";
const LEASE: Duration = Duration::from_mins(1);

/// Creates the table as a migration would.
pub(crate) async fn make_table(database: &TestDatabase) -> PgPool {
    let owner = database.owner_pool();
    let table = "
        CREATE TABLE org.jobs(
          id uuid PRIMARY KEY, tenant uuid NOT NULL, what text NOT NULL,
          company uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
          claim_group text NOT NULL DEFAULT 'default',
          state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'done', 'dead')),
          attempt_count int NOT NULL DEFAULT 0 CHECK (attempt_count BETWEEN 0 AND 100),
          next_attempt_at timestamptz NOT NULL DEFAULT now(), settled_at timestamptz,
          lease_token uuid, leased_until timestamptz, is_ready boolean NOT NULL DEFAULT false,
          CHECK ((state = 'pending') = (settled_at IS NULL)),
          CHECK ((lease_token IS NULL) = (leased_until IS NULL)),
          CHECK (state = 'pending' OR lease_token IS NULL),
          CONSTRAINT jobs_are_ready CHECK (state = 'pending' OR NOT is_ready));
        CREATE INDEX jobs_ready ON org.jobs(claim_group, company, tenant, next_attempt_at) WHERE is_ready AND state = 'pending';
        CREATE INDEX jobs_waiting ON org.jobs(claim_group, greatest(next_attempt_at, leased_until))
          WHERE NOT is_ready AND state = 'pending';
        GRANT SELECT, INSERT, UPDATE ON org.jobs TO platform_org";
    sqlx::raw_sql(table).execute(&owner).await.expect("the table");
    owner
}

#[derive(Debug, FromRow)]
pub(crate) struct Job {
    pub(crate) what: String,
}

/// Adds a job of a tenant, which is ready if it is due; `due_in` counts from the database's current time.
async fn add(owner: &PgPool, tenant: Uuid, what: &str, due_in: &str) -> Uuid {
    let id = Uuid::now_v7();
    let sql = format!(
        "INSERT INTO org.jobs(id, tenant, what, next_attempt_at, is_ready) \
         VALUES ($1, $2, $3, now() + interval '{due_in}', interval '{due_in}' <= interval '0')"
    );
    sqlx::query(AssertSqlSafe(sql)).bind(id).bind(tenant).bind(what).execute(owner).await.expect("a job");
    id
}

/// `state attempts` of a job.
async fn state(owner: &PgPool, id: Uuid) -> String {
    let sql = "SELECT state || ' ' || attempt_count FROM org.jobs WHERE id = $1";
    sqlx::query_scalar(sql).bind(id).fetch_one(owner).await.expect("the job")
}

async fn until(owner: &PgPool, id: Uuid, expected: &str) {
    let reached = async {
        let mut pace = tokio::time::interval(Duration::from_millis(5));
        while state(owner, id).await != expected {
            pace.tick().await;
        }
    };
    let is_reached = tokio::time::timeout(PATIENCE, reached).await.is_ok();
    assert!(is_reached, "{} instead of {expected}", state(owner, id).await);
}

/// The behaviour of jobs in the tests.
#[derive(Clone)]
struct Doing {
    pool: PgPool,
    /// Ids of the jobs whose work begins.
    begun: mpsc::UnboundedSender<Uuid>,
    /// Hanging jobs wait for one permit each.
    release: Arc<Semaphore>,
    running: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    together: Arc<Together>,
    reports: mpsc::UnboundedSender<(Uuid, Result<&'static str, Broken>)>,
}

impl Queue for Doing {
    type Job = Job;
    type Report = &'static str;
    type Error = sqlx::Error;

    async fn make_ready(&self) -> sqlx::Result<bool> {
        JOBS.make_ready(&self.pool, GROUP).await
    }

    async fn claim(&self, ask: Ask) -> sqlx::Result<Claimed<Job>> {
        JOBS.claim(&self.pool, GROUP, ask).await
    }

    #[expect(clippy::panic, reason = "the worker is tested with a panic")]
    async fn work(&self, job: &Leased<Job>) -> Worked<&'static str> {
        self.begun.send(job.lease.id).expect("the test listens");
        let verdict = match job.job.what.as_str() {
            "done" => Verdict::Done,
            "third" if job.lease.attempt == 3 => Verdict::Done,
            "dead" => Verdict::Dead,
            "later" => Verdict::Later { after: Duration::from_hours(1) },
            "panic" => panic!("a job that always panics"),
            "endless" => std::future::pending().await,
            "hang" => {
                let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
                self.most.fetch_max(running, Ordering::SeqCst);
                self.release.acquire().await.expect("open").forget();
                self.running.fetch_sub(1, Ordering::SeqCst);
                Verdict::Done
            }
            _ => Verdict::Retry { asked: None },
        };
        Worked { verdict, report: "worked" }
    }

    async fn settle(&self, job: &Leased<Job>, ended: &Ended<&'static str>) -> sqlx::Result<bool> {
        let mut conn = self.pool.acquire().await?;
        let stored = JOBS.settle(&mut conn, &job.lease, ended.settlement).await?;
        self.reports.send((job.lease.id, ended.report)).expect("the test listens");
        Ok(stored)
    }

    async fn settle_done(
        &self,
        done: &[Arc<Attempted<Job, &'static str>>],
    ) -> sqlx::Result<Option<Vec<Uuid>>> {
        let Some(gate) = self.together.gate.get() else { return Ok(None) };
        self.together.batches.lock().expect("no panic").push(done.len());
        gate.acquire().await.expect("open").forget();
        if self.together.breaks.swap(false, Ordering::SeqCst) {
            return Err(sqlx::Error::WorkerCrashed);
        }
        let mut stored = Vec::new();
        let mut conn = self.pool.acquire().await?;
        for one in done {
            if JOBS.settle(&mut conn, &one.job.lease, Settlement::Done).await? {
                stored.push(one.job.lease.id);
            }
        }
        Ok(Some(stored))
    }

    async fn oldest(&self) -> sqlx::Result<Duration> {
        JOBS.oldest(&self.pool, GROUP).await
    }
}

/// How a test's queue settles several jobs at once; without a gate it does not.
#[derive(Default)]
struct Together {
    /// Each settlement waits for a permit.
    gate: OnceLock<Semaphore>,
    breaks: AtomicBool,
    batches: Mutex<Vec<usize>>,
}

type Reports = mpsc::UnboundedReceiver<(Uuid, Result<&'static str, Broken>)>;

struct World {
    service: Running,
    owner: PgPool,
    doing: Doing,
    begun: mpsc::UnboundedReceiver<Uuid>,
    reports: Reports,
}

impl World {
    async fn make() -> Self {
        let service = Running::start(PATIENCE).await;
        let owner = make_table(&service.database).await;
        let (begun, begun_here) = mpsc::unbounded_channel();
        let (reports, reports_here) = mpsc::unbounded_channel();
        let doing = Doing {
            pool: service.core.workers.pool().clone(),
            begun,
            release: Arc::new(Semaphore::new(0)),
            running: Arc::default(),
            most: Arc::default(),
            together: Arc::default(),
            reports,
        };
        Self { service, owner, doing, begun: begun_here, reports: reports_here }
    }

    fn count(&self, family: &str, labels: &str) -> u64 {
        value(&self.service.core.metrics, family, labels)
    }
}

fn config(slots: usize, slots_per_key: usize, lease: Duration) -> QueueConfig {
    let soon = Duration::from_millis(1);
    let ladder = Ladder::new(&[Duration::ZERO, soon, soon]).expect("three attempts");
    QueueConfig { name: "jobs", slots, slots_per_key, lease, poll: Duration::from_millis(20), ladder }
}

fn ask(room: i64, per_key: i64) -> Ask {
    Ask {
        room,
        look: 64,
        per_key,
        keys: Vec::new(),
        running: Vec::new(),
        full: Vec::new(),
        position: Position::default(),
        lease: LEASE,
        attempts: 3,
    }
}

async fn claim(pool: &PgPool, ask: &Ask) -> Claimed<Job> {
    JOBS.claim(pool, GROUP, ask.clone()).await.expect("a claim")
}

/// Makes due jobs ready; returns whether there may be more.
async fn make_ready(pool: &PgPool) -> bool {
    JOBS.make_ready(pool, GROUP).await.expect("a statement")
}

#[tokio::test]
async fn every_job_ends_as_its_attempts_say() {
    let mut world = World::make().await;
    let tenant = Uuid::now_v7();
    let expected = [
        ("done", "done 1"),
        ("third", "done 3"),
        ("dead", "dead 1"),
        ("never", "dead 3"),
        ("panic", "dead 3"),
    ];
    let mut jobs = BTreeMap::new();
    for (what, end) in expected {
        jobs.insert(add(&world.owner, tenant, what, "0 s").await, end);
    }
    let later = add(&world.owner, tenant, "done", "1 hour").await;
    world.service.core.workers.queue(config(4, 4, LEASE), world.doing.clone());
    for (id, end) in &jobs {
        until(&world.owner, *id, end).await;
    }
    assert_eq!(state(&world.owner, later).await, "pending 0", "it is not due");
    world.service.stop.cancel();
    soon(&mut world.service.serving).await.expect("no panic");
    let settled = |outcome| {
        world.count("platform_queue_settled_total", &format!("outcome=\"{outcome}\",queue=\"jobs\""))
    };
    assert_eq!((settled("done"), settled("retry"), settled("dead")), (2, 6, 3));
    assert_eq!(world.count("platform_queue_claimed_total", "queue=\"jobs\""), 11);
    assert_eq!(world.count("platform_queue_broken_total", "cause=\"panic\",queue=\"jobs\""), 3);
    assert_eq!(world.count("platform_queue_late_total", "queue=\"jobs\""), 0);
    assert_eq!(world.count("platform_queue_running_jobs", "queue=\"jobs\""), 0);
    let (mut worked, mut panicked) = (0, 0);
    while let Ok((_, report)) = world.reports.try_recv() {
        match report {
            Ok(report) => worked += usize::from(report == "worked"),
            Err(broken) => panicked += usize::from(broken == Broken::Panic),
        }
    }
    assert_eq!((worked, panicked), (8, 3));
}

#[tokio::test]
async fn a_settlement_without_the_lease_changes_nothing() {
    let world = World::make().await;
    let (pool, owner) = (&world.doing.pool, &world.owner);
    let id = add(owner, Uuid::now_v7(), "done", "0 s").await;
    let settle = async |lease: Lease, settlement| {
        let mut conn = pool.acquire().await.expect("a connection");
        JOBS.settle(&mut conn, &lease, settlement).await.expect("asked")
    };
    let first = claim(pool, &ask(4, 4)).await.jobs.remove(0).lease;
    assert_eq!((first.id, first.attempt, first.is_spent), (id, 1, false));
    assert!(claim(pool, &ask(4, 4)).await.jobs.is_empty(), "it is leased");
    let run_out = "UPDATE org.jobs SET leased_until = now() - interval '1 s'";
    sqlx::query(run_out).execute(owner).await.expect("the lease runs out");
    make_ready(pool).await;
    let second = claim(pool, &ask(4, 4)).await.jobs.remove(0).lease;
    assert_eq!((second.id, second.attempt), (id, 2));
    assert_ne!(first.token, second.token);
    for settlement in [Settlement::Done, Settlement::Dead, Settlement::Again { after: NEVER }] {
        let before = world.service.database.contents("org").await;
        assert!(!settle(first, settlement).await, "{settlement:?}");
        assert_eq!(world.service.database.contents("org").await, before);
    }
    sqlx::query(run_out).execute(owner).await.expect("this one as well");
    assert!(settle(second, Settlement::Done).await, "no other claim took it, so the lease is still valid");
    assert_eq!(state(owner, id).await, "done 2");
    assert!(!settle(second, Settlement::Dead).await, "a settled job stays settled");
    assert_eq!(state(owner, id).await, "done 2");
    world.service.end().await;
}

#[tokio::test]
async fn a_job_whose_last_worker_died_is_given_up_and_not_worked_on() {
    let mut world = World::make().await;
    let id = add(&world.owner, Uuid::now_v7(), "done", "0 s").await;
    let crashed = "UPDATE org.jobs SET attempt_count = 3, lease_token = gen_random_uuid(), leased_until = now() - interval '1 s'";
    sqlx::query(crashed).execute(&world.owner).await.expect("the job");
    let control = add(&world.owner, Uuid::now_v7(), "done", "0 s").await;
    world.service.core.workers.queue(config(4, 4, LEASE), world.doing.clone());
    until(&world.owner, id, "dead 3").await;
    until(&world.owner, control, "done 1").await;
    assert_eq!(soon(world.begun.recv()).await, Some(control));
    world.begun.try_recv().expect_err("the other one was never begun");
    let mut reports = BTreeMap::new();
    for _ in 0..2 {
        let (id, report) = soon(world.reports.recv()).await.expect("a report");
        reports.insert(id, report);
    }
    assert_eq!(reports, BTreeMap::from([(id, Err(Broken::LeaseLost)), (control, Ok("worked"))]));
    world.service.end().await;
}

#[tokio::test]
async fn a_slow_key_leaves_slots_for_the_others() {
    let mut world = World::make().await;
    let (slow, quick) = (Uuid::from_u128(1), Uuid::from_u128(2));
    for _ in 0..20 {
        add(&world.owner, slow, "hang", "-1 hour").await;
    }
    let wake = world
        .service
        .core
        .workers
        .queue(QueueConfig { poll: NEVER, ..config(4, 2, LEASE) }, world.doing.clone());
    for _ in 0..2 {
        soon(world.begun.recv()).await.expect("two of the slow key begin");
    }
    let other = add(&world.owner, quick, "done", "0 s").await;
    wake.wake();
    assert_eq!(soon(world.begun.recv()).await, Some(other));
    until(&world.owner, other, "done 1").await;
    assert_eq!(world.doing.running.load(Ordering::SeqCst), 2, "the slow ones still hang");
    world.doing.release.add_permits(20);
    for _ in 0..18 {
        soon(world.begun.recv()).await.expect("a free slot is filled without a poll");
    }
    world.service.stop.cancel();
    soon(&mut world.service.serving).await.expect("no panic");
    assert_eq!(world.doing.most.load(Ordering::SeqCst), 2, "never more than two of one key");
    let left = "SELECT count(*) FROM org.jobs WHERE state <> 'done'";
    assert_eq!(sqlx::query_scalar::<_, i64>(left).fetch_one(&world.owner).await.expect("a count"), 0);
}

#[tokio::test]
async fn claims_go_from_key_to_key() {
    let world = World::make().await;
    let sql = "INSERT INTO org.jobs(id, tenant, what, is_ready) \
               SELECT gen_random_uuid(), md5((n % 200)::text)::uuid, 'done', true FROM generate_series(1, 600) n";
    sqlx::query(sql).execute(&world.owner).await.expect("three jobs for each of 200 keys");
    let (mut seen, mut ask) = (BTreeSet::new(), ask(20, 1));
    for _ in 0..10 {
        let claimed = claim(&world.doing.pool, &ask).await;
        assert_eq!(claimed.jobs.len(), 20);
        seen.extend(claimed.jobs.iter().map(|job| job.lease.key));
        ask.position = claimed.position;
    }
    assert_eq!(seen.len(), 200, "no key has a second turn before each has had its first");
    // The round starts over.
    let again = claim(&world.doing.pool, &ask).await;
    assert_eq!(again.jobs.len(), 20);
    assert_eq!(
        again.jobs.iter().map(|job| job.lease.key).collect::<BTreeSet<_>>(),
        seen.into_iter().take(20).collect()
    );
    world.service.end().await;
}

#[tokio::test]
async fn running_jobs_count_against_their_key_and_within_a_key_the_oldest_comes_first() {
    let world = World::make().await;
    let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let mut of_one = Vec::new();
    for due in ["-1 min", "-3 min", "-2 min"] {
        of_one.push(add(&world.owner, one, "done", due).await);
    }
    let of_two = add(&world.owner, two, "done", "-1 s").await;
    let busy = Ask { keys: vec![one, two], running: vec![1, 3], ..ask(10, 3) };
    let claimed = claim(&world.doing.pool, &busy).await;
    let ids: Vec<_> = claimed.jobs.iter().map(|job| job.lease.id).collect();
    assert_eq!(ids, [of_one[1], of_one[2]], "two slots of the first key are free and none of the second");
    let claimed = claim(&world.doing.pool, &ask(10, 3)).await;
    let ids: Vec<_> = claimed.jobs.iter().map(|job| job.lease.id).collect();
    assert_eq!(ids, [of_one[0], of_two]);
    world.service.end().await;
}

#[tokio::test]
async fn keys_that_may_start_no_job_do_not_hide_another() {
    let mut world = World::make().await;
    // Each of these keys runs as many jobs as it may and has another one that is ready.
    let hanging = "INSERT INTO org.jobs(id, tenant, company, what, is_ready) \
                   SELECT gen_random_uuid(), md5((n / 2)::text)::uuid, md5((n / 2)::text)::uuid, 'hang', true FROM generate_series(0, 599) n";
    sqlx::query(hanging).execute(&world.owner).await.expect("two jobs for each of 300 keys");
    let wake = world
        .service
        .core
        .workers
        .queue(QueueConfig { poll: NEVER, ..config(16, 1, LEASE) }, world.doing.clone());
    for _ in 0..300 {
        soon(world.begun.recv()).await.expect("one of each key begins");
    }
    let last = add(&world.owner, Uuid::max(), "done", "0 s").await;
    wake.wake();
    until(&world.owner, last, "done 1").await;
    world.doing.release.add_permits(600);
    world.service.end().await;
}

#[tokio::test]
async fn claims_at_once_never_take_the_same_job() {
    let world = World::make().await;
    let sql = "INSERT INTO org.jobs(id, tenant, what, is_ready) \
               SELECT gen_random_uuid(), md5((n % 7)::text)::uuid, 'done', true FROM generate_series(1, 400) n";
    sqlx::query(sql).execute(&world.owner).await.expect("400 jobs");
    let mut claims = Vec::new();
    for _ in 0..8 {
        let pool = world.owner.clone();
        claims.push(tokio::spawn(async move {
            let (mut taken, mut ask) = (Vec::new(), ask(5, 50));
            loop {
                let claimed = claim(&pool, &ask).await;
                // A claim skips rows that another claim locks, so an empty claim is the last one only when all jobs are
                // leased.
                let free = "SELECT count(*) FROM org.jobs WHERE lease_token IS NULL";
                let free: i64 = sqlx::query_scalar(free).fetch_one(&pool).await.expect("a count");
                taken.extend(claimed.jobs.iter().map(|job| job.lease.id));
                if free == 0 {
                    return taken;
                }
                ask.position = claimed.position;
            }
        }));
    }
    let mut taken = Vec::new();
    for one in claims {
        taken.extend(soon(one).await.expect("no panic"));
    }
    assert_eq!(taken.len(), 400);
    assert_eq!(taken.into_iter().collect::<BTreeSet<_>>().len(), 400);
    world.service.end().await;
}

#[tokio::test]
async fn a_job_that_outlasts_its_lease_is_dropped_and_tried_again() {
    let world = World::make().await;
    let id = add(&world.owner, Uuid::now_v7(), "endless", "0 s").await;
    // The work gets three quarters of the lease; the rest leaves a busy machine time to settle.
    world.service.core.workers.queue(config(4, 4, Duration::from_secs(2)), world.doing.clone());
    until(&world.owner, id, "dead 3").await;
    assert!(world.count("platform_queue_broken_total", "cause=\"timeout\",queue=\"jobs\"") >= 2);
    world.service.end().await;
}

#[tokio::test]
async fn an_attempt_whose_job_another_process_took_is_late_and_changes_nothing() {
    let mut world = World::make().await;
    let id = add(&world.owner, Uuid::now_v7(), "hang", "0 s").await;
    world.service.core.workers.queue(config(4, 4, LEASE), world.doing.clone());
    soon(world.begun.recv()).await.expect("it begins");
    // As if this process had been suspended for longer than the lease.
    let taken = "UPDATE org.jobs SET lease_token = gen_random_uuid(), leased_until = now() + interval '1 hour', attempt_count = 2";
    sqlx::query(taken).execute(&world.owner).await.expect("another process takes it");
    let before = world.service.database.contents("org").await;
    world.doing.release.add_permits(1);
    world.service.stop.cancel();
    soon(&mut world.service.serving).await.expect("no panic");
    assert_eq!(world.service.database.contents("org").await, before);
    assert_eq!(state(&world.owner, id).await, "pending 2");
    assert_eq!(world.count("platform_queue_late_total", "queue=\"jobs\""), 1);
    let settled = |outcome| format!("outcome=\"{outcome}\",queue=\"jobs\"");
    for outcome in ["done", "retry", "dead"] {
        assert_eq!(world.count("platform_queue_settled_total", &settled(outcome)), 0);
    }
}

#[tokio::test]
async fn a_stop_finishes_the_jobs_in_hand_and_takes_no_more() {
    let mut world = World::make().await;
    let first = add(&world.owner, Uuid::from_u128(1), "hang", "-1 s").await;
    let second = add(&world.owner, Uuid::from_u128(1), "done", "0 s").await;
    world.service.core.workers.queue(config(1, 1, LEASE), world.doing.clone());
    assert_eq!(soon(world.begun.recv()).await, Some(first));
    world.service.stop.cancel();
    world.doing.release.add_permits(1);
    soon(&mut world.service.serving).await.expect("no panic");
    assert_eq!(state(&world.owner, first).await, "done 1", "it was settled before the pool was closed");
    assert_eq!(state(&world.owner, second).await, "pending 0");
}

#[tokio::test]
async fn the_oldest_due_job_is_told() {
    let world = World::make().await;
    let (pool, owner) = (&world.doing.pool, &world.owner);
    let age = async || JOBS.oldest(pool, GROUP).await.expect("an age").as_secs();
    assert_eq!(age().await, 0, "no job");
    add(owner, Uuid::now_v7(), "done", "1 hour").await;
    assert_eq!(age().await, 0, "no due job");
    add(owner, Uuid::now_v7(), "done", "-100 s").await;
    assert!((100..160).contains(&age().await), "{}", age().await);
    assert_eq!(claim(pool, &ask(1, 1)).await.jobs.len(), 1);
    assert_eq!(age().await, 0, "a worker has it");
    world.service.end().await;
}

/// A queue without a database: one job whose settlement fails twice.
struct Flaky {
    claims: AtomicUsize,
    works: Arc<AtomicUsize>,
    settlements: Arc<AtomicUsize>,
    settled: Arc<Notify>,
}

impl Queue for Flaky {
    type Job = ();
    type Report = ();
    type Error = &'static str;

    async fn make_ready(&self) -> sqlx::Result<bool> {
        Ok(false)
    }

    async fn claim(&self, _: Ask) -> sqlx::Result<Claimed<()>> {
        let (id, token, key) = (Uuid::now_v7(), Uuid::new_v4(), Uuid::nil());
        let lease = Lease { id, token, key, company: key, attempt: 1, is_spent: false };
        let jobs = match self.claims.fetch_add(1, Ordering::SeqCst) {
            0 => return Err(sqlx::Error::PoolTimedOut),
            1 => vec![Leased { lease, job: () }],
            _ => Vec::new(),
        };
        Ok(Claimed { jobs, position: Position::default(), is_partial: false })
    }

    async fn work(&self, _: &Leased<()>) -> Worked<()> {
        self.works.fetch_add(1, Ordering::SeqCst);
        Worked { verdict: Verdict::Done, report: () }
    }

    #[expect(clippy::panic, reason = "the worker is tested with a panic")]
    async fn settle(&self, _: &Leased<()>, ended: &Ended<()>) -> Result<bool, &'static str> {
        assert_eq!(ended.settlement, Settlement::Done);
        match self.settlements.fetch_add(1, Ordering::SeqCst) {
            0 => Err("the database is away"),
            1 => panic!("a settlement that panics"),
            _ => {
                self.settled.notify_one();
                Ok(true)
            }
        }
    }

    async fn oldest(&self) -> sqlx::Result<Duration> {
        Ok(Duration::from_secs(7))
    }
}

#[tokio::test]
async fn a_database_that_is_away_for_a_moment_costs_no_second_attempt() {
    let service = Running::start(PATIENCE).await;
    let (works, settlements, settled) = (Arc::default(), Arc::default(), Arc::new(Notify::new()));
    let flaky = Flaky {
        claims: AtomicUsize::new(0),
        works: Arc::clone(&works),
        settlements: Arc::clone(&settlements),
        settled: Arc::clone(&settled),
    };
    service.core.workers.queue(config(4, 4, LEASE), flaky);
    soon(settled.notified()).await;
    let metrics = service.core.metrics.clone();
    service.end().await;
    assert_eq!((works.load(Ordering::SeqCst), settlements.load(Ordering::SeqCst)), (1, 3));
    assert_eq!(value(&metrics, "platform_queue_settled_total", "outcome=\"done\",queue=\"jobs\""), 1);
    assert_eq!(value(&metrics, "platform_queue_oldest_due_seconds", "queue=\"jobs\""), 7);
}

#[tokio::test]
async fn jobs_that_are_done_while_another_is_settled_are_settled_together() {
    let mut world = World::make().await;
    world.doing.together.gate.set(Semaphore::new(0)).expect("once");
    let mut ids = Vec::new();
    for number in 0..6 {
        ids.push(add(&world.owner, Uuid::from_u128(number), "done", "0 s").await);
    }
    world.service.core.workers.queue(config(6, 1, LEASE), world.doing.clone());
    for _ in &ids {
        soon(world.begun.recv()).await.expect("all six are worked on");
    }
    let stolen = "UPDATE org.jobs SET lease_token = gen_random_uuid() WHERE id = $1";
    sqlx::query(stolen).bind(ids[5]).execute(&world.owner).await.expect("as another claim would");
    let gate = world.doing.together.gate.get().expect("set");
    gate.add_permits(6);
    for id in &ids[..5] {
        until(&world.owner, *id, "done 1").await;
    }
    let batches = || world.doing.together.batches.lock().expect("no panic").clone();
    let all = async {
        let mut pace = tokio::time::interval(Duration::from_millis(5));
        while batches().iter().sum::<usize>() < 6 {
            pace.tick().await;
        }
    };
    soon(all).await;
    let told = batches();
    assert!(told.len() < 6, "those that waited went together: {told:?}");
    assert_eq!(state(&world.owner, ids[5]).await, "pending 1", "another claim has its lease");
    world.service.end().await;
}

#[tokio::test]
async fn a_settlement_of_several_jobs_that_breaks_leaves_each_to_itself() {
    let mut world = World::make().await;
    world.doing.together.gate.set(Semaphore::new(100)).expect("once");
    world.doing.together.breaks.store(true, Ordering::SeqCst);
    let id = add(&world.owner, Uuid::from_u128(1), "done", "0 s").await;
    world.service.core.workers.queue(config(2, 2, LEASE), world.doing.clone());
    until(&world.owner, id, "done 1").await;
    assert_eq!(soon(world.reports.recv()).await, Some((id, Ok("worked"))), "by itself");
    world.service.end().await;
}

#[tokio::test]
async fn a_job_that_is_put_off_keeps_its_attempt() {
    let mut world = World::make().await;
    let id = add(&world.owner, Uuid::from_u128(1), "later", "0 s").await;
    world.service.core.workers.queue(config(2, 2, LEASE), world.doing.clone());
    let (settled, _outcome) = soon(world.reports.recv()).await.expect("settled");
    assert_eq!(settled, id);
    until(&world.owner, id, "pending 0").await;
    let wait = "SELECT next_attempt_at > now() + interval '59 min' FROM org.jobs WHERE id = $1";
    assert!(sqlx::query_scalar::<_, bool>(wait).bind(id).fetch_one(&world.owner).await.expect("the job"));
    world.service.end().await;
}

#[tokio::test]
async fn settled_jobs_whose_time_is_over_are_removed_and_no_others() {
    let world = World::make().await;
    let fill = "INSERT INTO org.jobs(id, tenant, what, state, settled_at)
                SELECT gen_random_uuid(), gen_random_uuid(), state || ' ' || days, state,
                  CASE state WHEN 'pending' THEN NULL ELSE now() - days * interval '1 day' END
                FROM unnest(ARRAY['pending', 'done', 'dead']) state, generate_series(1, 12) days";
    sqlx::query(fill).execute(&world.owner).await.expect("jobs");
    sqlx::query("GRANT DELETE ON org.jobs TO platform_org").execute(&world.owner).await.expect("granted");
    let many = "INSERT INTO org.jobs(id, tenant, what, state, settled_at)
                SELECT gen_random_uuid(), gen_random_uuid(), 'old', 'done', now() - interval '1 year' FROM generate_series(1, 1001)";
    sqlx::query(many).execute(&world.owner).await.expect("more than one statement removes");
    let kept = Kept { done_days: 5, dead_days: 10 };
    let removed = JOBS.sweep(&world.doing.pool, kept).await.expect("swept");
    assert_eq!(removed, 1_001 + 8 + 3, "a job of exactly that age has expired by the time of the sweep");
    let left = "SELECT state || ' ' || count(*) FROM org.jobs GROUP BY state ORDER BY 1";
    let left: Vec<String> = sqlx::query_scalar(left).fetch_all(&world.owner).await.expect("counts");
    assert_eq!(left, ["dead 9", "done 4", "pending 12"]);
    world.service.end().await;
}
