//! The look-up behind the edge's superadmin guard.

use serde_json::json;

use crate::app::{App, Rows, evidence};

async fn look_up(app: &App, subject: &str) -> (u16, serde_json::Value) {
    let path = format!("/internal/authz/superadmin/{subject}");
    let reply = app.api.get(&path).send().await;
    app.document().check("GET", &path, &reply);
    (reply.status, reply.data().clone())
}

#[tokio::test]
async fn steps_one_to_four_decide_without_a_bearer_uncounted_and_unaudited() {
    let app = App::start().await;
    let rows: Rows = app.rows();
    rows.subject("alice").await;
    let (status, held) = look_up(&app, "root").await;
    assert_eq!((status, &held["held"], &held["reason"]), (200, &json!(true), &json!("ALLOWED")));
    assert_eq!(evidence(&held["evidence"], "platformRole"), "platform-superadmin held");
    for (change, subject, reason) in [
        ("SELECT 1", "alice", "PLATFORM_ROLE_REQUIRED"),
        ("SELECT 1", "nobody%20known", "AUTH_USER_NOT_FOUND"),
        (
            "UPDATE identity.users SET lifecycle = 'suspended' WHERE kc_sub = 'root'",
            "root",
            "USER_LIFECYCLE_DISABLED",
        ),
        ("UPDATE identity.users SET idp_enabled = false WHERE kc_sub = 'root'", "root", "IDP_DISABLED"),
    ] {
        rows.run(change).await;
        let (status, answer) = look_up(&app, subject).await;
        assert_eq!(
            (status, &answer["held"], &answer["reason"]),
            (200, &json!(false), &json!(reason)),
            "{subject}"
        );
    }
    assert!(app.audit().await.is_empty());
    let metrics = app.api.get("/metrics").send().await.text;
    assert!(
        metrics.contains("platform_authz_decision_duration_seconds_count{service=\"authz\"} 0"),
        "{metrics}"
    );
}

#[tokio::test]
async fn what_cannot_be_decided_is_503_and_what_is_no_subject_400() {
    let app = App::start().await;
    app.rows().look(301).await;
    assert_eq!(look_up(&app, "root").await.0, 503);
    assert_eq!(look_up(&app, &"x".repeat(256)).await.0, 400);
}
