//! The first superadmins.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::Reply;

use crate::app::{App, Rows};

const RESOLVE: &str = "/internal/identity/users/resolve";

async fn empty() -> App {
    App::serve(testkit::database().await, "admin, sub-of-eve").await
}

/// Polls `/ready` until it answers `status`.
async fn until_ready(app: &App, status: u16) -> Reply {
    let poll = async {
        loop {
            let reply = app.api.get("/ready").send().await;
            if reply.status == status {
                return reply;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), poll).await.expect("in time")
}

async fn holders(rows: &Rows) -> Vec<String> {
    let sql = "SELECT subject_id FROM authz.tuple WHERE object_type = 'system' ORDER BY 1";
    sqlx::query_scalar(sql).fetch_all(&rows.0).await.expect("tuples")
}

#[tokio::test]
async fn named_accounts_get_the_role_once_identity_answers_and_only_then_is_it_ready() {
    let app = empty().await;
    let reply = until_ready(&app, 503).await;
    app.document().check("GET", "/ready", &reply);
    assert_eq!(reply.body["error"]["details"], json!({ "waitingFor": ["platform superadmins"] }));
    let found = json!({ "data": [
        { "name": "sub-of-eve", "kcSub": "sub-of-eve" }, { "name": "admin", "kcSub": "sub-of-admin" },
    ] });
    app.identity.answer("POST", RESOLVE, 200, found);
    until_ready(&app, 200).await;
    assert_eq!(holders(&app.rows()).await, ["sub-of-admin", "sub-of-eve"]);
    let asked = app.identity.requests().pop().expect("identity was asked");
    assert_eq!(asked.body["names"], json!(["admin", "sub-of-eve"]));
    let started = asked.body["existedAt"].as_i64().expect("a moment");
    let first = app.identity.requests()[0].body["existedAt"].as_i64();
    assert_eq!(first, Some(started), "the moment of the start, however often it asks");
    let audit: Vec<_> = app.audit().await.iter().map(|row| row["actor"].clone()).collect();
    assert_eq!(audit, ["system:bootstrap", "system:bootstrap"]);
    let ledger: Vec<Value> =
        sqlx::query_scalar("SELECT jsonb_build_array(subject, actor) FROM authz.role_ledger ORDER BY seq")
            .fetch_all(&app.owner)
            .await
            .expect("the ledger");
    assert_eq!(
        ledger,
        [json!(["sub-of-admin", "system:bootstrap"]), json!(["sub-of-eve", "system:bootstrap"])]
    );
}

#[tokio::test]
async fn nobody_found_is_not_ready_and_a_subject_found_later_gets_the_role() {
    let app = empty().await;
    let entry = |name: &str, sub: Option<&str>| json!({ "name": name, "kcSub": sub });
    app.identity.answer(
        "POST",
        RESOLVE,
        200,
        json!({ "data": [entry("admin", None), entry("sub-of-eve", None)] }),
    );
    let asked_without_a_moment = async {
        while app.identity.requests().last().is_none_or(|asked| asked.body.get("existedAt").is_some()) {
            tokio::task::yield_now().await;
        }
    };
    let once_answered = tokio::time::timeout(Duration::from_secs(20), asked_without_a_moment).await;
    once_answered.expect("only subjects count once the provider has answered");
    let ready = app.api.get("/ready").send().await;
    app.document().check("GET", "/ready", &ready);
    let stuck = ready.body["error"]["details"]["stuck"][0].as_str().expect("what is to be changed");
    assert_eq!(ready.status, 503);
    assert!(stuck.starts_with("PLATFORM_SUPERADMINS: ") && stuck.contains("\"admin\""), "{stuck}");
    assert_eq!(holders(&app.rows()).await, Vec::<String>::new());
    let first = &app.identity.requests()[0].body;
    assert!(first["existedAt"].is_i64(), "before that, names of accounts that were there: {first}");
    let one = json!({ "data": [entry("admin", Some("a")), entry("sub-of-eve", None)] });
    app.identity.answer("POST", RESOLVE, 200, one);
    until_ready(&app, 200).await;
    assert_eq!(holders(&app.rows()).await, ["a"]);
    app.identity.answer("POST", RESOLVE, 200, json!({ "data": [entry("sub-of-eve", Some("e"))] }));
    let both = async {
        while holders(&app.rows()).await.len() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), both).await.expect("the second one gets the role");
    let asked = app.identity.requests().pop().expect("identity was asked");
    assert_eq!(asked.body, json!({ "names": ["sub-of-eve"] }), "only the missing names");
}

#[tokio::test]
async fn a_start_that_finds_a_holder_asks_nobody() {
    let app = App::start().await;
    until_ready(&app, 200).await;
    assert!(app.identity.requests().is_empty());
    assert_eq!(holders(&app.rows()).await, ["root"]);
}

#[tokio::test]
async fn nobody_named_and_nobody_there_ends_the_service_with_a_sentence() {
    let app = App::serve(testkit::database().await, "").await;
    let ended =
        tokio::time::timeout(Duration::from_secs(20), app.serving).await.expect("in time").expect("no panic");
    let why = ended.expect_err("unfit").to_string();
    assert!(why.contains("PLATFORM_SUPERADMINS"), "{why}");
}

#[tokio::test]
async fn cancelling_ends_the_service() {
    let app = App::start().await;
    until_ready(&app, 200).await;
    app.stop.cancel();
    let ended =
        tokio::time::timeout(Duration::from_secs(20), app.serving).await.expect("in time").expect("no panic");
    assert!(ended.is_ok(), "{ended:?}");
}
