//! The catalog is served from memory and never stale: a response contains every change that was acknowledged before the
//! request was sent, whichever of two processes made the change and serves the request. The journal test runs for a few
//! seconds; `REGISTRY_JOURNAL_SECONDS` makes it longer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use testkit::Reply;

use crate::app::{PATIENCE, TestApp, launch, launch_at, made, number, start, told};
use crate::door::Door;

const READS: [&str; 2] = ["/internal/platform/capabilities", "/internal/platform/catalog"];
const KEYS: [&str; 4] = ["alpha", "beta", "delta", "gamma"];
const READERS: usize = 8;
/// Longest time for a response, including a margin over a request's timeout.
const IN_TIME: Duration = Duration::from_millis(4_700);

/// Starts two processes on one database, with all of [`KEYS`] installed and enabled.
async fn two() -> [Arc<TestApp>; 2] {
    let modules: Vec<_> = KEYS.into_iter().zip(8201..).map(|(key, port)| made(key, port)).collect();
    let one = start(&modules, &KEYS.join(",")).await;
    let two = launch(one.database.clone(), &modules, "").await;
    two.ready().await;
    [Arc::new(one), Arc::new(two)]
}

async fn end(apps: [Arc<TestApp>; 2]) {
    for app in apps {
        Arc::into_inner(app).expect("nobody else holds it").end().await;
    }
}

/// The flag of a key in a response: `enabled` of a capability, `isActive` of an entry.
fn is_on(path: &str, reply: &Reply, key: &str) -> bool {
    let (name, flag) =
        if path.ends_with("catalog") { ("moduleKey", "isActive") } else { ("module", "enabled") };
    let rows = reply.data().as_array().expect("a list");
    let row = rows.iter().find(|row| row[name] == json!(key)).expect("every key is listed");
    row[flag].as_bool().expect("a flag")
}

#[tokio::test]
async fn a_change_is_in_the_very_next_answer_of_every_process() {
    let apps = two().await;
    for round in 0..20 {
        let (writer, reader) = (&apps[round % 2], &apps[usize::from(round % 4 < 2)]);
        let on = round % 2 == 1;
        let changed = if on { writer.enable("beta").await } else { writer.disable("beta").await };
        assert_eq!(changed.status, 200);
        for path in READS {
            let reply = reader.get(path).await;
            assert_eq!(is_on(path, &reply, "beta"), on, "round {round}: {path}");
            assert_eq!(reply.header("x-catalog-revision"), changed.header("x-catalog-revision"));
        }
        let one = reader.get("/internal/platform/capabilities/beta").await;
        assert_eq!(one.data()["enabled"], json!(on), "round {round}");
    }
    end(apps).await;
}

#[tokio::test]
async fn not_modified_is_answered_only_to_the_tag_of_this_very_body() {
    let app = start(&[made("alpha", 8201), made("beta", 8202)], "alpha,beta").await;
    for path in READS {
        let ask = async |tag: &str| {
            let call = app.api.get(path).header("if-none-match", tag);
            crate::app::checked("GET", path, call.send().await)
        };
        let first = app.get(path).await;
        let tag = first.header("etag").to_owned();
        assert_eq!((first.status, first.header("cache-control")), (200, "private, no-cache"), "{path}");
        let known = ask(&tag).await;
        assert_eq!(
            (known.status, known.text.as_str(), known.header("etag")),
            (304, "", tag.as_str()),
            "{path}"
        );
        assert_eq!(known.header("content-type"), "");
        assert_eq!(app.disable("beta").await.status, 200);
        let second = ask(&tag).await;
        assert_eq!((second.status, is_on(path, &second, "beta")), (200, false), "{path}");
        assert_ne!(second.header("etag"), tag);
        assert_eq!(ask(&format!("{tag}, {}", second.header("etag"))).await.status, 304, "{path}");
        assert_eq!(app.enable("beta").await.status, 200);
        let again = ask(&tag).await;
        assert_eq!(again.status, 304, "{path}: the same body as before, at a later revision");
        assert_ne!(again.header("x-catalog-revision"), known.header("x-catalog-revision"));
    }
    app.end().await;
}

/// Progress of the writer of one key. After its `n`-th change the key is enabled if `n` is even.
#[derive(Default)]
struct Key {
    begun: AtomicUsize,
    acknowledged: AtomicUsize,
}

#[derive(Default)]
struct Journal {
    keys: [Key; KEYS.len()],
    /// The highest acknowledged revision.
    revision: AtomicI64,
    /// The body read at each path and revision; there must be only one.
    bodies: Mutex<HashMap<String, String>>,
    stop: AtomicBool,
}

impl Journal {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::SeqCst)
    }

    async fn write(self: Arc<Self>, app: Arc<TestApp>, own: usize) {
        while self.goes_on() {
            let state = self.keys[own].begun.fetch_add(1, Ordering::SeqCst) + 1;
            let reply = if state.is_multiple_of(2) {
                app.enable(KEYS[own]).await
            } else {
                app.disable(KEYS[own]).await
            };
            assert_eq!(reply.status, 200, "{}", reply.text);
            self.keys[own].acknowledged.store(state, Ordering::SeqCst);
            let revision = reply.header("x-catalog-revision").parse().expect("a revision");
            self.revision.fetch_max(revision, Ordering::SeqCst);
        }
    }

    /// Returns the number of responses and their errors.
    async fn read(self: Arc<Self>, app: Arc<TestApp>, own: usize, path: &'static str) -> (u64, Vec<String>) {
        let (mut answers, mut wrong) = (0, Vec::new());
        while self.goes_on() {
            let acknowledged = self.revision.load(Ordering::SeqCst);
            let first = self.keys[own].acknowledged.load(Ordering::SeqCst);
            let reply = app.api.get(path).send().await;
            let last = self.keys[own].begun.load(Ordering::SeqCst);
            assert_eq!(reply.status, 200, "{}", reply.text);
            answers += 1;
            let revision = reply.header("x-catalog-revision").to_owned();
            if revision.parse::<i64>().expect("a revision") < acknowledged {
                wrong.push(format!("revision {revision} after {acknowledged} was acknowledged"));
            }
            let on = is_on(path, &reply, KEYS[own]);
            if !(first..=last).any(|state| state.is_multiple_of(2) == on) {
                wrong.push(format!("{} is {on} between its changes {first} and {last}", KEYS[own]));
            }
            let mut bodies = self.bodies.lock().unwrap_or_else(PoisonError::into_inner);
            let known = bodies.entry(format!("{path} {revision}")).or_insert_with(|| reply.text.clone());
            if *known != reply.text {
                wrong.push(format!("two bodies at revision {revision}"));
            }
        }
        (answers, wrong)
    }
}

fn duration() -> Duration {
    Duration::from_secs(number("REGISTRY_JOURNAL_SECONDS", 3))
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_of_two_processes_is_older_than_what_was_acknowledged() {
    let (apps, journal) = (two().await, Arc::new(Journal::default()));
    let writers: Vec<_> = (0..KEYS.len())
        .map(|own| tokio::spawn(Arc::clone(&journal).write(Arc::clone(&apps[own % 2]), own)))
        .collect();
    let readers: Vec<_> = (0..READERS)
        .map(|reader| {
            let app = Arc::clone(&apps[reader / 2 % 2]);
            tokio::spawn(Arc::clone(&journal).read(app, reader % KEYS.len(), READS[reader % 2]))
        })
        .collect();
    tokio::time::sleep(duration()).await;
    journal.stop.store(true, Ordering::SeqCst);
    for writer in writers {
        writer.await.expect("it wrote");
    }
    let (mut answers, mut wrong) = (0, Vec::new());
    for reader in readers {
        let (some, found) = reader.await.expect("it read");
        answers += some;
        wrong.extend(found);
    }
    let changes: usize = journal.keys.iter().map(|key| key.acknowledged.load(Ordering::SeqCst)).sum();
    told(&format!("{changes} changes, {answers} answers, {} wrong", wrong.len()));
    assert_eq!(wrong, Vec::<String>::new());
    assert!(changes > KEYS.len() && answers > 0, "{changes} changes, {answers} answers");
    end(apps).await;
}

/// Like a restore of rows or an operator's statement: the database itself creates a new edition for every change.
#[tokio::test]
async fn rows_that_are_changed_by_hand_are_in_the_very_next_answer() {
    let app = start(&[made("alpha", 8201), made("beta", 8202)], "alpha").await;
    let on = async |key: &str| is_on(READS[1], &app.get(READS[1]).await, key);
    assert!(on("alpha").await);
    app.sql("UPDATE registry.modules SET enabled = false WHERE key = 'alpha'").await;
    assert!(!on("alpha").await, "an update without a revision");
    app.sql("UPDATE registry.model_revision SET revision = 2").await;
    app.sql("UPDATE registry.modules SET installed = true, enabled = true WHERE key = 'beta'").await;
    assert!(on("beta").await, "at a revision that came before");
    app.sql("TRUNCATE registry.modules CASCADE").await;
    assert_eq!(app.get(READS[1]).await.data(), &json!([]));
    app.end().await;
}

/// Another database takes the same name, as after a restore: a copy that reached the same revision with other changes.
#[tokio::test]
async fn a_database_that_was_put_back_answers_from_its_own_rows() {
    let app = start(&[made("alpha", 8201), made("beta", 8202)], "alpha,beta").await;
    let name = app.database.name().to_owned();
    let mut server = PgConnection::connect_with(&app.database.owner_options().database("postgres"))
        .await
        .expect("the server");
    assert_eq!(app.get(READS[1]).await.status, 200);
    let alone = format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false");
    let cut = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'");
    run(&mut server, &[&alone, &cut]).await;
    until_alone(&mut server, &name).await;
    let (copy, back) = (
        format!("CREATE DATABASE {name}_copy TEMPLATE {name}"),
        format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true"),
    );
    run(&mut server, &[&copy, &back, &format!("ALTER DATABASE {name}_copy ALLOW_CONNECTIONS true")]).await;
    assert_eq!(settled(&app).await, [true, true]);
    // The first pooled connections may be among the terminated ones.
    while app.disable("alpha").await.status != 200 {}
    let before = app.get(READS[1]).await;
    assert_eq!(KEYS[..2].iter().map(|key| is_on(READS[1], &before, key)).collect::<Vec<_>>(), [false, true]);
    let mut other =
        PgConnection::connect_with(&app.database.owner_options().database(&format!("{name}_copy")))
            .await
            .expect("the copy");
    let change = "UPDATE registry.modules SET enabled = false WHERE key = 'beta'";
    run(&mut other, &[change, "UPDATE registry.model_revision SET revision = revision + 1"]).await;
    drop(other);
    run(&mut server, &[&alone, &cut]).await;
    until_alone(&mut server, &name).await;
    until_alone(&mut server, &format!("{name}_copy")).await;
    let (away, here) = (
        format!("ALTER DATABASE {name} RENAME TO {name}_old"),
        format!("ALTER DATABASE {name}_copy RENAME TO {name}"),
    );
    run(&mut server, &[&away, &here]).await;
    assert_eq!(settled(&app).await, [true, false]);
    let after = app.get(READS[1]).await;
    assert_eq!(after.header("x-catalog-revision"), before.header("x-catalog-revision"), "the same revision");
    app.end().await;
}

async fn run(connection: &mut PgConnection, statements: &[&str]) {
    for statement in statements {
        sqlx::query(AssertSqlSafe((*statement).to_owned()))
            .execute(&mut *connection)
            .await
            .expect("it is done");
    }
}

async fn until_alone(server: &mut PgConnection, name: &str) {
    let begun = Instant::now();
    let count = format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'");
    while sqlx::query_scalar::<_, i64>(AssertSqlSafe(count.clone()))
        .fetch_one(&mut *server)
        .await
        .expect("activity")
        > 0
    {
        assert!(begun.elapsed() < PATIENCE, "somebody stays connected");
    }
}

/// Whether alpha and beta are on, in the first successful response.
async fn settled(app: &TestApp) -> [bool; 2] {
    let begun = Instant::now();
    loop {
        let reply = app.get(READS[1]).await;
        if reply.status == 200 {
            return ["alpha", "beta"].map(|key| is_on(READS[1], &reply, key));
        }
        assert!(begun.elapsed() < PATIENCE, "it never answers again: {}", reply.text);
    }
}

#[tokio::test]
async fn without_the_databases_word_there_is_no_answer_and_afterwards_the_present_one() {
    let database = testkit::database().await;
    let door = Door::to(database.port()).await;
    door.open();
    let app = launch_at(database, door.port, &[made("alpha", 8201)], "alpha").await;
    app.ready().await;
    assert_eq!(settled_one(&app).await, (200, Some(true)));
    door.shut();
    let refused = app.get(READS[0]).await;
    assert_eq!((refused.status, refused.code()), (503, "AUTHORIZATION_UNAVAILABLE"));
    assert_eq!(refused.body["error"]["details"]["dependency"], json!("postgres"));
    app.sql("UPDATE registry.modules SET enabled = false WHERE key = 'alpha'").await;
    door.open();
    assert_eq!(settled_one(&app).await, (200, Some(false)), "what changed meanwhile");
    app.end().await;
}

async fn settled_one(app: &TestApp) -> (u16, Option<bool>) {
    let reply = app.get(READS[0]).await;
    (reply.status, (reply.status == 200).then(|| is_on(READS[0], &reply, "alpha")))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_hangs_is_told_to_all_who_wait_in_time() {
    let database = testkit::database().await;
    let door = Door::to(database.port()).await;
    door.open();
    let app = Arc::new(launch_at(database, door.port, &[made("alpha", 8201)], "alpha").await);
    app.ready().await;
    assert_eq!(settled_one(&app).await, (200, Some(true)));
    door.hang();
    let asking: Vec<_> = (0..40)
        .map(|_| {
            let app = Arc::clone(&app);
            tokio::spawn(async move {
                let begun = Instant::now();
                let reply: Value = json!(app.get(READS[0]).await.status);
                (reply, begun.elapsed())
            })
        })
        .collect();
    for one in asking {
        let (status, took) = one.await.expect("it asked");
        assert_eq!(status, json!(503));
        assert!(took < IN_TIME, "{took:?}");
    }
    door.open();
    assert_eq!(settled_one(&app).await, (200, Some(true)));
    Arc::into_inner(app).expect("nobody else holds it").end().await;
}
