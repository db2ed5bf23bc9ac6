//! The subject of an app's backend: looked up at registration, or as soon as the provider has the client, and published
//! to gateways and authz.

use contract::Subject;
use contract::catalog::CatalogSnapshot;
use serde_json::json;
use testkit::Stub;

use crate::app::{ACCOUNTS, TestApp, account, launch_beside};
use crate::apps::manifest;
use crate::snapshot::Stream;

async fn start(identity: &Stub) -> TestApp {
    let database = testkit::database().await;
    let port = database.port();
    let app = launch_beside(identity.clone(), database, port, &[], "").await;
    app.ready().await;
    app
}

/// The subject of the only app, as authz reads it.
async fn stored(app: &TestApp) -> Option<String> {
    let sql = "SELECT service_subject FROM registry.app_backends";
    sqlx::query_scalar(sql).fetch_one(&app.owner).await.expect("one app")
}

/// Waits for a snapshot with this subject as the backend of the only app.
async fn told(stream: &mut Stream, subject: Option<&str>) {
    let names_it = |snapshot: &CatalogSnapshot| {
        snapshot.apps.first().is_some_and(|app| app.subject.as_ref().map(Subject::as_str) == subject)
    };
    stream.snapshot_with(&format!("{subject:?} as the app's backend"), names_it).await;
}

#[tokio::test]
async fn the_account_of_the_client_is_learned_with_the_registration() {
    let identity = Stub::start().await;
    identity.answer("GET", ACCOUNTS, 200, account("crm-backend", Some("sub-1")));
    let app = start(&identity).await;
    assert_eq!(app.register(manifest("crm", "1.0.0")).await.status, 200);
    assert_eq!(stored(&app).await.as_deref(), Some("sub-1"), "before the response");
    told(&mut Stream::open(&app, "").await, Some("sub-1")).await;
    assert_eq!(identity.requests()[0].path, "/internal/identity/service-accounts/crm-backend");
    app.end().await;
}

#[tokio::test]
async fn a_client_that_is_declared_later_becomes_the_backend_by_itself() {
    let identity = Stub::start().await;
    identity.answer("GET", ACCOUNTS, 200, account("crm-backend", None));
    let app = start(&identity).await;
    let mut stream = Stream::open(&app, "").await;
    assert_eq!(app.register(manifest("crm", "1.0.0")).await.status, 200);
    assert_eq!(stored(&app).await, None);
    told(&mut stream, None).await;
    let before = app.revision().await;
    identity.answer("GET", ACCOUNTS, 200, account("crm-backend", Some("sub-1")));
    told(&mut stream, Some("sub-1")).await;
    assert_eq!(stored(&app).await.as_deref(), Some("sub-1"));
    assert_eq!(app.revision().await, before + 1);
    let last = app.audit().await.pop();
    assert_eq!(last.as_deref(), Some("app.backend_learned app:crm system:app-backends"));
    app.end().await;
}

#[tokio::test]
async fn an_outage_registers_without_a_backend_and_heals() {
    let identity = Stub::start().await;
    identity.answer("GET", ACCOUNTS, 503, json!({ "error": {} }));
    let app = start(&identity).await;
    let mut stream = Stream::open(&app, "").await;
    assert_eq!(app.register(manifest("crm", "1.0.0")).await.status, 200);
    assert_eq!(stored(&app).await, None, "the backend is unknown");
    identity.answer("GET", ACCOUNTS, 200, account("crm-backend", Some("sub-1")));
    told(&mut stream, Some("sub-1")).await;
    // Without an answer from identity, a new version keeps the account of the same client, but not that of another.
    identity.answer("GET", ACCOUNTS, 503, json!({ "error": {} }));
    assert_eq!(app.register(manifest("crm", "1.1.0")).await.status, 200);
    assert_eq!(stored(&app).await.as_deref(), Some("sub-1"));
    let mut other = manifest("crm", "1.2.0");
    other["serviceClientId"] = json!("crm-other");
    assert_eq!(app.register(other).await.status, 200);
    assert_eq!(stored(&app).await, None);
    app.end().await;
}

#[tokio::test]
async fn an_account_that_is_another_or_gone_is_learned_at_a_start() {
    let identity = Stub::start().await;
    identity.answer("GET", ACCOUNTS, 200, account("crm-backend", Some("sub-1")));
    let app = start(&identity).await;
    assert_eq!(app.register(manifest("crm", "1.0.0")).await.status, 200);
    for now in [Some("sub-2"), None, Some("sub-3")] {
        identity.answer("GET", ACCOUNTS, 200, account("crm-backend", now));
        let (database, port) = (app.database.clone(), app.database.port());
        let again = launch_beside(identity.clone(), database, port, &[], "").await;
        again.ready().await;
        told(&mut Stream::open(&again, "").await, now).await;
        assert_eq!(stored(&again).await.as_deref(), now);
        again.end().await;
    }
    app.end().await;
}

/// Authz compiles its model for each revision, and a provider that was restored may change the accounts of all apps.
#[tokio::test]
async fn accounts_that_have_changed_together_are_one_revision() {
    let identity = Stub::start().await;
    let answer = |version: u32| {
        identity.answer_with("GET", ACCOUNTS, move |asked| {
            let client = asked.path.rsplit('/').next().unwrap_or_default();
            (200, account(client, Some(&format!("{client}-{version}"))))
        });
    };
    answer(1);
    let app = start(&identity).await;
    for key in ["crm", "erp"] {
        assert_eq!(app.register(manifest(key, "1.0.0")).await.status, 200);
    }
    let (before, database, port) = (app.revision().await, app.database.clone(), app.database.port());
    app.end().await;
    answer(2);
    let again = launch_beside(identity.clone(), database, port, &[], "").await;
    again.ready().await;
    let learned = || async {
        let sql = "SELECT count(*) FROM registry.app_backends WHERE service_subject LIKE '%-2'";
        sqlx::query_scalar::<_, i64>(sql).fetch_one(&again.owner).await.expect("a number") > 0
    };
    testkit::until("an account is learned", learned).await;
    let sql = "SELECT array_agg(service_subject ORDER BY key) FROM registry.app_backends";
    let subjects: Vec<String> = sqlx::query_scalar(sql).fetch_one(&again.owner).await.expect("two apps");
    assert_eq!(subjects, ["crm-backend-2", "erp-backend-2"]);
    assert_eq!(again.revision().await, before + 1);
    let learned = again.audit().await.split_off(again.audit().await.len() - 2);
    let row = |key: &str| format!("app.backend_learned app:{key} system:app-backends");
    assert_eq!(learned, [row("crm"), row("erp")]);
    again.end().await;
}

/// Looking up every account may take long. An account that was stored meanwhile is newer than what was found before.
#[tokio::test]
async fn a_slow_look_up_replaces_no_account_that_was_stored_meanwhile() {
    let identity = Stub::start().await;
    let path = |client: &str| ACCOUNTS.replace('*', client);
    let tell = |client: &str, subject: &str| {
        identity.answer("GET", &path(client), 200, account(client, Some(subject)));
    };
    tell("crm-backend", "first");
    tell("erp-backend", "erp");
    let app = start(&identity).await;
    for key in ["crm", "erp"] {
        assert_eq!(app.register(manifest(key, "1.0.0")).await.status, 200);
    }
    let (database, port) = (app.database.clone(), app.database.port());
    app.end().await;
    tell("crm-backend", "second");
    identity.hang("GET", &path("erp-backend"));
    let before = identity.requests().len();
    let again = launch_beside(identity.clone(), database, port, &[], "").await;
    let asked = |client: &str| {
        let path = path(client);
        identity.requests().iter().skip(before).filter(|request| request.path == path).count()
    };
    testkit::until("the other account is looked up", || async { asked("erp-backend") >= 1 }).await;
    tell("crm-backend", "third");
    let store = "UPDATE registry.modules SET service_subject = 'third' WHERE key = 'crm'";
    sqlx::query(store).execute(&again.owner).await.expect("stored");
    testkit::until("the next look-up", || async { asked("crm-backend") >= 2 }).await;
    let sql = "SELECT service_subject FROM registry.app_backends WHERE key = 'crm'";
    let subject: String = sqlx::query_scalar(sql).fetch_one(&again.owner).await.expect("an account");
    assert_eq!(subject, "third");
    again.end().await;
}
