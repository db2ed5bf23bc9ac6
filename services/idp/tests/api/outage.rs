//! A database outage: nothing is issued, and everything recovers by itself.

use contract::Clock;
use sqlx::AssertSqlSafe;
use testkit::TestDatabase;

use crate::provider::{ADMIN_SECRET, NOW, OIDC, Provider, action_of, cookie_of, settings};

/// Ends the provider's connections and refuses new ones, except the superuser's.
async fn take_down(database: &TestDatabase) {
    let name = database.name();
    let end = format!(
        "ALTER DATABASE {name} CONNECTION LIMIT 0; SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE datname = '{name}' AND usename = 'platform_idp'"
    );
    // The name is the test database's, so this text contains no input.
    sqlx::raw_sql(AssertSqlSafe(end)).execute(&database.owner_pool()).await.expect("taken down");
}

async fn bring_back(database: &TestDatabase) {
    let back = format!("ALTER DATABASE {} CONNECTION LIMIT -1", database.name());
    sqlx::raw_sql(AssertSqlSafe(back)).execute(&database.owner_pool()).await.expect("brought back");
}

#[tokio::test]
async fn nothing_is_issued_while_the_database_is_down_and_all_heals_after() {
    let provider = Provider::start().await;
    let tokens = provider.tokens("alice").await;
    let page = provider.open(&[]).await;
    let admin = provider.client_token("platform-admin", ADMIN_SECRET).await;
    take_down(&provider.database).await;

    let (action, cookie) = (action_of(&page), cookie_of(&page));
    let (refreshed, form, login, users, ready) = tokio::join!(
        provider.refresh(&tokens),
        provider.open(&[]),
        provider.submit_to(&action, &cookie, "alice", "alice"),
        provider.send("GET", "/admin/realms/platform/users", |call| call.bearer(&admin)),
        provider.get("/ready"),
    );
    assert_eq!((refreshed.status, &refreshed.body["error"]), (503, &"temporarily_unavailable".into()));
    assert_eq!([form.status, login.status, users.status, ready.status], [503; 4]);
    assert_eq!(provider.get(&format!("{OIDC}/certs")).await.status, 200, "the keys are in memory");

    bring_back(&provider.database).await;
    assert_eq!(provider.refresh(&tokens).await.status, 200);
    assert_eq!(provider.submit(&page, "alice", "alice").await.status, 302);
}

#[tokio::test]
async fn a_start_waits_for_the_database_and_can_be_stopped_meanwhile() {
    let database = testkit::database().await;
    take_down(&database).await;
    let launch = || Provider::launch(database.clone(), settings(&database), Clock::standing_at(NOW));
    launch().await.stop().await;
    let provider = launch().await;
    let (ready, ()) = tokio::join!(provider.get("/ready"), bring_back(&database));
    assert_eq!(ready.status, 200);
    provider.tokens("alice").await;
}

#[tokio::test]
async fn a_missing_schema_ends_the_start_with_a_reason() {
    let database = testkit::empty_database().await;
    database.bootstrap().await.expect("roles and schemas");
    let config = idp::Config::read(&settings(&database)).expect("good settings");
    let stop = tokio_util::sync::CancellationToken::new();
    let started = idp::App::start(&config, Clock::system(), &stop).await;
    let problem = started.err().expect("it cannot start").to_string();
    assert!(problem.contains("cannot prepare its data") && problem.contains("signing_keys"), "{problem}");
}
