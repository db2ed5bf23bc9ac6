//! Enabling with more companies than one transaction writes default grants for. `ENABLE_COMPANIES=200000` makes it
//! large.

use std::time::Instant;

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::app::{ADMIN, Made, PATIENCE, TestApp, launch, made, number, start, told};

/// Maximum number of companies per transaction.
const PORTION: u64 = 1_000;

fn many() -> u64 {
    number("ENABLE_COMPANIES", 2_500)
}

/// Adds `count` active companies without grants.
async fn companies(app: &TestApp, count: u64) {
    let sql = format!(
        "INSERT INTO org.units(id, company_id, type_key, depth, code, name)
         SELECT id, id, 'company', 0, 'C' || n, 'Company ' || n
           FROM (SELECT gen_random_uuid() AS id, n FROM generate_series(1, {count}) AS n) AS made"
    );
    sqlx::query(AssertSqlSafe(sql)).execute(&app.owner).await.expect("companies");
}

async fn count(app: &TestApp, what: &str) -> u64 {
    let sql = format!("SELECT count(*) FROM {what}");
    let count: i64 = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&app.owner).await.expect("a count");
    u64::try_from(count).expect("not negative")
}

async fn capability(app: &TestApp, key: &str) -> Value {
    app.get(&format!("/internal/platform/capabilities/{key}")).await.data().clone()
}

/// Waits until the module is enabled and returns the seconds that this took. The limit allows for the large test.
async fn enabled(app: &TestApp, key: &str) -> f64 {
    let begun = Instant::now();
    while capability(app, key).await["enabled"] != json!(true) {
        assert!(begun.elapsed() < PATIENCE * 30, "it is never enabled");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    begun.elapsed().as_secs_f64()
}

/// Blocks all writes of tuples until the connection is dropped.
async fn no_tuples(app: &TestApp) -> PgConnection {
    let mut held = PgConnection::connect_with(&app.database.owner_options()).await.expect("a connection");
    sqlx::query("BEGIN").execute(&mut held).await.expect("a transaction");
    sqlx::query("LOCK TABLE authz.tuple IN SHARE MODE").execute(&mut held).await.expect("the lock");
    held
}

/// Checks that there are `companies` tuples of each of the two relations.
async fn complete(app: &TestApp, companies: u64) {
    for relation in ["company", "system"] {
        let what = format!("authz.tuple WHERE object_type = 'company_module' AND relation = '{relation}'");
        assert_eq!(count(app, &what).await, companies, "{relation}");
    }
}

#[tokio::test]
async fn many_companies_are_granted_in_portions_and_enabled_at_once() {
    let (app, many) = (start(&[made("alpha", 8201)], "alpha").await, many());
    assert_eq!(app.disable("alpha").await.status, 200);
    companies(&app, many).await;
    let before = app.audit().await.len();
    let begun = Instant::now();
    let reply = app.enable("alpha").await;
    let answered = begun.elapsed();
    let progress =
        json!({ "enabled": false, "state": "ENABLING", "companies": { "done": 0, "total": many } });
    assert_eq!((reply.status, reply.data()), (202, &progress), "{}", reply.text);
    assert_eq!(reply.header("x-catalog-revision"), app.revision().await.to_string());
    let mut seen = 0;
    let took = loop {
        let now = capability(&app, "alpha").await;
        if now["enabled"] == json!(true) {
            assert_eq!(now.get("state"), None);
            break begun.elapsed();
        }
        assert_eq!(now["state"], json!("ENABLING"));
        let again = app.enable("alpha").await;
        if again.status == 202 {
            let done = again.data()["companies"]["done"].as_u64().expect("a number");
            assert!(done >= seen && done <= many, "{done} after {seen}");
            seen = done;
        }
        assert!(begun.elapsed() < PATIENCE * 30, "it is never enabled");
    };
    told(&format!("{many} companies: answered in {answered:.1?}, enabled everywhere after {took:.1?}"));
    complete(&app, many).await;
    let audit = &app.audit().await[before..];
    assert_eq!(audit[0], format!("module.enabling module:alpha {ADMIN}"));
    let portions = usize::try_from(many.div_ceil(PORTION)).expect("few");
    let portion = format!("default_grants.written module:alpha {ADMIN}");
    assert_eq!(audit[1..=portions], vec![portion; portions]);
    assert_eq!(audit[portions + 1..], [format!("module.enabled module:alpha {ADMIN}")]);
    assert_eq!((app.enable("alpha").await.status, count(&app, "registry.enabling").await), (200, 0));
    app.end().await;
}

#[tokio::test]
async fn one_portion_of_companies_is_enabled_in_one_transaction_and_one_more_is_not() {
    let app = start(&[made("alpha", 8201), made("beta", 8202)], "alpha,beta").await;
    for key in ["alpha", "beta"] {
        assert_eq!(app.disable(key).await.status, 200);
    }
    companies(&app, PORTION).await;
    let reply = app.enable("alpha").await;
    assert_eq!((reply.status, reply.data()), (200, &json!({ "enabled": true })));
    complete(&app, PORTION).await;
    app.company("ONE-MORE", true).await;
    assert_eq!(app.enable("beta").await.status, 202);
    enabled(&app, "beta").await;
    app.end().await;
}

#[tokio::test]
async fn another_process_goes_on_where_one_ended() {
    let app = start(&[made("alpha", 8201)], "alpha").await;
    assert_eq!(app.disable("alpha").await.status, 200);
    companies(&app, 2 * PORTION).await;
    let held = no_tuples(&app).await;
    assert_eq!(app.enable("alpha").await.status, 202);
    app.blocked().await;
    let database = app.database.clone();
    app.end().await;
    let app = launch(database, &[made("alpha", 8201)], "alpha").await;
    app.ready().await;
    assert_eq!(capability(&app, "alpha").await["state"], json!("ENABLING"));
    complete(&app, 0).await;
    drop(held);
    enabled(&app, "alpha").await;
    complete(&app, 2 * PORTION).await;
    let written = app.audit().await.into_iter().filter(|row| row.starts_with("default_grants.written"));
    assert_eq!(written.count(), 2, "each portion once");
    app.end().await;
}

#[tokio::test]
async fn what_is_being_enabled_counts_for_new_companies_and_can_be_called_off() {
    let app = start(&[made("alpha", 8201), made("beta", 8202)], "alpha").await;
    assert_eq!(app.disable("alpha").await.status, 200);
    companies(&app, PORTION + 1).await;
    let granted = async || -> Vec<String> {
        let keys = sqlx::query_scalar("SELECT key FROM registry.granted_modules ORDER BY key");
        keys.fetch_all(&app.owner).await.expect("the view")
    };
    assert_eq!(granted().await, Vec::<String>::new());
    let held = no_tuples(&app).await;
    let begun = app.enable("alpha").await;
    assert_eq!(begun.status, 202);
    assert_eq!(granted().await, ["alpha"]);
    // The request waits for the current portion, which waits for the lock held here; one of the two times out first.
    let asked = Instant::now();
    let mut off = app.disable("alpha").await;
    while off.status == 503 && asked.elapsed() < PATIENCE {
        off = app.disable("alpha").await;
    }
    assert_eq!((off.status, off.data()), (200, &json!({ "enabled": false })), "{}", off.text);
    assert_ne!(off.header("x-catalog-revision"), begun.header("x-catalog-revision"));
    assert_eq!(granted().await, Vec::<String>::new());
    assert_eq!(
        app.audit().await.last().map(String::as_str),
        Some(format!("module.enabling_cancelled module:alpha {ADMIN}").as_str())
    );
    drop(held);
    let after = capability(&app, "alpha").await;
    assert_eq!((&after["enabled"], after.get("state")), (&json!(false), None));
    assert_eq!(app.disable("alpha").await.status, 200, "a repetition changes nothing");
    assert_eq!(app.enable("alpha").await.status, 202);
    enabled(&app, "alpha").await;
    complete(&app, PORTION + 1).await;
    app.end().await;
}

#[tokio::test]
async fn a_start_installs_where_there_are_many_companies_once_they_are_granted() {
    let modules = [Made { mandatory: true, ..made("alpha", 8201) }, made("beta", 8202)];
    let app = start(&modules, "").await;
    companies(&app, PORTION + 1).await;
    let held = no_tuples(&app).await;
    let app = app.restart(&modules, "alpha,beta").await;
    for key in ["alpha", "beta"] {
        let now = capability(&app, key).await;
        assert_eq!((&now["installed"], &now["state"]), (&json!(false), &json!("ENABLING")), "{key}");
    }
    assert_eq!(app.enable("beta").await.status, 202, "it is being enabled");
    drop(held);
    for key in ["alpha", "beta"] {
        enabled(&app, key).await;
    }
    complete(&app, 2 * (PORTION + 1)).await;
    let audit = app.audit().await;
    for key in ["alpha", "beta"] {
        assert!(audit.contains(&format!("module.installed module:{key} system:registry")), "{audit:?}");
    }
    app.end().await;
}

#[tokio::test]
async fn a_start_gives_many_companies_back_what_they_lost() {
    let app = start(&[made("alpha", 8201)], "").await;
    companies(&app, PORTION + 1).await;
    let app = app.restart(&[made("alpha", 8201)], "alpha").await;
    enabled(&app, "alpha").await;
    app.sql("DELETE FROM authz.tuple").await;
    let app = app.restart(&[made("alpha", 8201)], "alpha").await;
    let begun = Instant::now();
    while count(&app, "authz.tuple").await < PORTION + 1 {
        assert!(begun.elapsed() < PATIENCE, "the anchors never come back");
    }
    let systems = "authz.tuple WHERE relation = 'system'";
    assert_eq!(count(&app, systems).await, 0, "a removed tuple never comes back");
    app.end().await;
}
