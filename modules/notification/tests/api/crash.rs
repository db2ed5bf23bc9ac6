//! Killed workers and a crashing database: no delivery is lost, and each keeps its id. The run is small unless
//! `CRASH_JOBS` and `CRASH_SECONDS` say otherwise; `CRASH_PROGRAM` names the `platform` program to run instead of this
//! binary. The figures are printed.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use contract::Settings;
use notification::Config;
use notification::secrets::rules::Sealer;
use serde_json::json;
use sqlx::{AssertSqlSafe, PgPool};
use testkit::{OwnCluster, Stub, TestDatabase, TokenIssuer};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::support::{LOCAL, header, status};

/// Worker processes, each on its own address.
const WORKERS: [&str; 3] = ["127.0.0.1", "127.0.0.2", "127.0.0.3"];
const CHANNELS: u64 = 50;
const KILL_EVERY: Duration = Duration::from_millis(200);
/// The environment variable with a worker's settings, as JSON.
const SETTINGS: &str = "CRASH_TEST_SETTINGS";
/// Keeps the ports apart from any platform that runs on the machine.
const PORT_OFFSET: &str = "21700";

fn number(variable: &str) -> Option<u64> {
    std::env::var_os(variable).and_then(|text| text.to_str()?.parse().ok())
}

#[expect(clippy::print_stderr, reason = "figures of a run that somebody asked for")]
fn told(line: &str) {
    eprintln!("{line}");
}

/// Runs one worker process when the variable is set; otherwise does nothing.
#[tokio::test]
async fn worker_process() {
    let Some(settings) = std::env::var_os(SETTINGS) else { return };
    let pairs: HashMap<String, String> =
        serde_json::from_str(settings.to_str().expect("UTF-8")).expect("settings");
    let config = Config::read(&Settings::from_pairs(pairs)).expect("the settings of a test are right");
    let address = (config.module.service.listen.0.clone(), 0);
    let listener = TcpListener::bind(address).await.expect("a port");
    notification::serve(config, listener, CancellationToken::new()).await.expect("it serves");
}

/// The settings and program of the workers.
struct Fleet {
    settings: Settings,
    program: Option<PathBuf>,
}

impl Fleet {
    fn spawn(&self, address: &str) -> Child {
        let settings = self.settings.clone().with("PLATFORM_LISTEN_ADDR", address);
        let pairs: HashMap<&str, &str> = settings.iter().collect();
        let mut command = if let Some(program) = &self.program {
            let mut command = Command::new(program);
            command.args(["serve", "notification"]).env_clear().envs(&pairs);
            command
        } else {
            let mut command = Command::new(std::env::current_exe().expect("this binary has a path"));
            command.args(["--exact", "crash::worker_process", "--nocapture", "--quiet"]).env_clear();
            command.env(SETTINGS, json!(pairs).to_string());
            command
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        command.spawn().expect("it starts")
    }
}

/// The ids that arrived, with their counts.
type Seen = Arc<Mutex<HashMap<String, u32>>>;

async fn receiver() -> (Stub, Seen) {
    let (stub, seen) = (Stub::start().await, Seen::default());
    let noting = Arc::clone(&seen);
    stub.respond_with("POST", "/*", move |request| {
        let mut seen = noting.lock().unwrap_or_else(PoisonError::into_inner);
        *seen.entry(header(request, "x-platform-delivery-id").to_owned()).or_default() += 1;
        status(200)
    });
    (stub, seen)
}

/// Inserts channels with their secrets, and one message with one job per channel.
async fn fill(owner: &PgPool, config: &Config, receiver: &Stub, jobs: u64) {
    let (company, sealer) = (Uuid::now_v7(), Sealer::new(Arc::clone(&config.own.keys)));
    for number in 0..CHANNELS {
        let channel = Uuid::now_v7();
        let secret = sealer.seal_new(company.into(), channel.into()).expect("sealed");
        let made = "INSERT INTO notification.channels(id, company_id, key, label, kind, target, created_by) \
                    VALUES ($1, $2, $3, 'x', 'webhook', $4, 'x')";
        let (key, target) = (format!("k{number}"), format!("{}/{number}", receiver.url()));
        let made = sqlx::query(made).bind(channel).bind(company).bind(key).bind(target);
        made.execute(owner).await.expect("a channel");
        let insert =
            "INSERT INTO notification.channel_secrets(channel_id, secret, sealed) VALUES ($1, $2, true)";
        sqlx::query(insert).bind(channel).bind(secret).execute(owner).await.expect("a secret");
    }
    let messages = "WITH channels AS (SELECT id, target, row_number() OVER () - 1 AS place FROM notification.channels), \
        made AS (INSERT INTO notification.messages(id, company_id, channel_id, subject_line, body, created_by) \
          SELECT gen_random_uuid(), $1, c.id, 's', 'b', 'x' FROM generate_series(0, $2::bigint - 1) n \
          JOIN channels c ON c.place = n % (SELECT count(*) FROM channels) RETURNING id, channel_id) \
        INSERT INTO notification.delivery_jobs(id, company_id, message_id, channel_id, kind, target, payload) \
        SELECT gen_random_uuid(), $1, made.id, channel_id, 'webhook', c.target, '{}' \
        FROM made JOIN channels c ON c.id = channel_id";
    let jobs = i64::try_from(jobs).expect("a number");
    sqlx::query(messages).bind(company).bind(jobs).execute(owner).await.expect("jobs");
}

/// Counts jobs; `None` while the database is down.
async fn count(owner: &PgPool, holds: &str) -> Option<i64> {
    let sql = format!("SELECT count(*) FROM notification.delivery_jobs WHERE {holds}");
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(owner).await.ok()
}

/// Stands in for authz, which says that the module is in use.
async fn authz() -> Stub {
    let authz = Stub::start().await;
    authz.answer("GET", "/internal/authz/companies/*", 200, json!({ "data": { "inUse": true } }));
    authz
}

fn settings_of(database: &TestDatabase, issuer: &TokenIssuer, authz: &Stub) -> Settings {
    let settings = testkit::settings("notification", database, issuer)
        .with("PLATFORM_AUTHZ_BASE_URL", authz.url())
        .with("PLATFORM_PORT_OFFSET", PORT_OFFSET)
        .with("RUST_LOG", "error");
    let local = LOCAL.iter().filter(|(name, _)| !name.ends_with("RETRY_SECONDS"));
    local.fold(settings, |settings, (name, value)| settings.with(*name, *value))
}

#[tokio::test]
async fn property_4_killed_workers_and_a_crashed_database_lose_no_delivery() {
    let full = number("CRASH_JOBS");
    let (jobs, seconds) = (full.unwrap_or(400), number("CRASH_SECONDS").unwrap_or(4));
    let mut cluster = OwnCluster::start().await;
    let (database, issuer) = (cluster.database().await, TokenIssuer::start().await);
    let settings = settings_of(&database, &issuer, &authz().await);
    let (stub, seen) = receiver().await;
    let owner = database.owner_pool();
    fill(&owner, &Config::read(&settings).expect("right"), &stub, jobs).await;
    let fleet = Fleet { settings, program: std::env::var_os("CRASH_PROGRAM").map(Into::into) };
    let mut workers: Vec<Child> = WORKERS.iter().map(|address| fleet.spawn(address)).collect();
    let (start, span) = (Instant::now(), Duration::from_secs(seconds));
    let (mut kills, mut random, mut crashed) = (0_u32, jobs, false);
    let mut turn = tokio::time::interval(KILL_EVERY);
    turn.tick().await;
    while start.elapsed() < span {
        turn.tick().await;
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unlucky = usize::try_from((random >> 33) % 3).expect("small");
        workers[unlucky].kill().await.expect("SIGKILL");
        workers[unlucky] = fleet.spawn(WORKERS[unlucky]);
        kills += 1;
        if !crashed && start.elapsed() > span / 2 {
            cluster.crash().await;
            cluster.resume().await;
            crashed = true;
        }
    }
    let done_under_fire = count(&owner, "state = 'done'").await.unwrap_or_default();
    if full.is_none() {
        // Expires the leases of killed workers, as a minute would.
        let over = "UPDATE notification.delivery_jobs SET leased_until = now() - interval '1 s' WHERE lease_token IS NOT NULL";
        sqlx::query(over).execute(&owner).await.expect("leases end");
    }
    let patience = Duration::from_mins(5);
    while count(&owner, "state = 'pending'").await != Some(0) {
        assert!(
            start.elapsed() < span + patience,
            "{:?} are pending",
            count(&owner, "state = 'pending'").await
        );
        turn.tick().await;
    }
    let took = start.elapsed();
    let tried_again = count(&owner, "attempt_count > 1").await.unwrap_or_default();
    let done = count(&owner, "state = 'done'").await;
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let twice = seen.values().filter(|times| **times > 1).count();
    let arrivals: u32 = seen.values().sum();
    told(&format!(
        "{jobs} deliveries, {} workers, {kills} kills in {seconds} s, one crash of PostgreSQL, all settled after {took:.1?}: \
         {done:?} done ({done_under_fire} while they were killed), {} ids arrived, {arrivals} times, {twice} of them more than \
         once, {tried_again} claimed more than once",
        WORKERS.len(),
        seen.len()
    ));
    let expected = i64::try_from(jobs).expect("a number");
    assert_eq!(done, Some(expected), "every one ends done");
    assert_eq!(u64::try_from(seen.len()).expect("a number"), jobs, "every id arrived");
    assert!(kills > 0 && crashed, "control: a worker was killed");
    for worker in &mut workers {
        worker.kill().await.expect("SIGKILL");
    }
}
