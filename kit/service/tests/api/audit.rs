//! A mutation and its audit row commit together.

use serde_json::json;
use sqlx::Row;

use crate::app::TestApp;

async fn rows(app: &TestApp) -> Vec<(String, String, String, Option<String>)> {
    let rows =
        sqlx::query("SELECT actor, action, subject, correlation_id FROM audit.org__events ORDER BY seq")
            .fetch_all(&app.database.owner_pool())
            .await
            .expect("rows");
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect()
}

#[tokio::test]
async fn a_commit_leaves_the_actor_and_the_requests_name() {
    let app = TestApp::start().await;
    let call = app.api.post("/notes").bearer(&app.token()).header("x-correlation-id", "request-1");
    assert_eq!(call.json(json!({"text": "hello"})).send().await.status, 201);
    let expected =
        ("alice".to_owned(), "note.taken".to_owned(), "note:hello".to_owned(), Some("request-1".to_owned()));
    assert_eq!(rows(&app).await, [expected]);
}

#[tokio::test]
async fn a_failure_after_a_row_leaves_nothing() {
    let app = TestApp::start().await;
    let reply = app.api.post("/notes").bearer(&app.token()).json(json!({"text": "fail"})).send().await;
    assert_eq!((reply.status, reply.code()), (409, "CONFLICT"));
    assert_eq!(rows(&app).await, []);
}

#[tokio::test]
async fn two_rows_of_one_transaction_are_kept_in_order() {
    let app = TestApp::start().await;
    let reply = app.api.post("/notes").bearer(&app.token()).json(json!({"text": "twice"})).send().await;
    assert_eq!(reply.status, 201);
    let actions: Vec<String> = rows(&app).await.into_iter().map(|row| row.1).collect();
    assert_eq!(actions, ["note.begun", "note.taken"]);
}

#[tokio::test]
async fn the_services_role_cannot_change_or_remove_a_row() {
    let app = TestApp::start().await;
    assert_eq!(
        app.api.post("/notes").bearer(&app.token()).json(json!({"text": "kept"})).send().await.status,
        201
    );
    let pool = app.database.pool_as("org");
    for statement in [
        "UPDATE audit.org__events SET actor = 'nobody'",
        "DELETE FROM audit.org__events",
        "TRUNCATE audit.org__events",
        "DROP TABLE audit.org__events",
        "INSERT INTO audit.authz__events(actor, action, subject) VALUES ('a', 'b', 'c')",
    ] {
        let refused = sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&pool).await;
        let code = refused
            .expect_err(statement)
            .as_database_error()
            .and_then(|error| error.code().map(std::borrow::Cow::into_owned));
        assert_eq!(code.as_deref(), Some("42501"), "{statement}");
    }
    assert_eq!(rows(&app).await.len(), 1);
}
