//! The decision in the terms of AuthZEN.

use serde_json::{Value, json};

use crate::can::with_crm;

const ONE: &str = "/internal/authz/access/v1/evaluation";
const MANY: &str = "/internal/authz/access/v1/evaluations";

fn user(id: &str) -> Value {
    json!({ "type": "user", "id": id })
}

#[tokio::test]
async fn one_question_is_the_same_decision() {
    let (app, rows, company) = with_crm(&["alice"]).await;
    rows.tuple(&format!("crm_deal:1#company_module@company_module:{company}/crm"), "grant").await;
    rows.tuple("crm_deal:1#viewer@user:alice", "grant").await;
    let body = |id: &str| {
        json!({ "subject": user("alice"), "action": { "name": "viewer" }, "resource": { "type": "crm_deal", "id": id },
            "context": { "time": "now" } })
    };
    for path in [ONE, MANY] {
        let allowed = app.ask("POST", path, "alice", Some(body("1"))).await;
        assert_eq!(allowed.body["decision"], true, "{}", allowed.text);
        assert_eq!(allowed.body["context"]["reason"], "ALLOWED");
        let denied = app.ask("POST", path, "alice", Some(body("2"))).await;
        assert_eq!((denied.status, &denied.body["decision"]), (200, &json!(false)), "{}", denied.text);
    }
    assert_eq!(app.audit().await.len(), 2, "a denial is audited");
    for wrong in [
        json!({}),
        json!({ "subject": user("bob"), "action": { "name": "viewer" }, "resource": { "type": "crm_deal", "id": "1" } }),
        json!({ "subject": user("alice"), "action": "viewer", "resource": { "type": "crm_deal", "id": "1" } }),
    ] {
        let reply = app.ask("POST", ONE, "alice", Some(wrong)).await;
        assert_eq!((reply.status, reply.code()), (400, "VALIDATION_ERROR"), "{}", reply.text);
    }
}

#[tokio::test]
async fn many_questions_share_what_stands_above_them_and_stop_where_they_say() {
    let (app, rows, company) = with_crm(&["alice"]).await;
    for id in ["1", "3"] {
        rows.tuple(&format!("crm_deal:{id}#company_module@company_module:{company}/crm"), "grant").await;
        rows.tuple(&format!("crm_deal:{id}#viewer@user:alice"), "grant").await;
    }
    let deal = |id: &str| json!({ "resource": { "type": "crm_deal", "id": id } });
    let body = |semantic: &str| {
        json!({ "subject": user("alice"), "action": { "name": "viewer" },
            "evaluations": [deal("1"), deal("2"), deal("3")], "options": { "evaluations_semantic": semantic } })
    };
    for (semantic, expected) in [
        ("execute_all", vec![true, false, true]),
        ("deny_on_first_deny", vec![true, false]),
        ("permit_on_first_permit", vec![true]),
    ] {
        let reply = app.ask("POST", MANY, "alice", Some(body(semantic))).await;
        let said = reply.body["evaluations"].as_array().expect("answers").iter();
        let said: Vec<_> = said.filter_map(|answer| answer["decision"].as_bool()).collect();
        assert_eq!(said, expected, "{semantic}: {}", reply.text);
    }
    let too_many = json!({ "subject": user("alice"), "action": { "name": "viewer" }, "evaluations": vec![deal("1"); 101] });
    assert_eq!(app.ask("POST", MANY, "alice", Some(too_many)).await.status, 400);
    let wrong = json!({ "subject": user("alice"), "evaluations": [deal("1")] });
    let reply = app.ask("POST", MANY, "alice", Some(wrong)).await;
    assert_eq!(
        reply.body["error"]["details"]["fields"][0]["path"], "evaluations[0].action",
        "{}",
        reply.text
    );
}

#[tokio::test]
async fn the_metadata_names_the_public_addresses() {
    let (app, _, _) = with_crm(&["alice"]).await;
    let reply = app.ask("GET", "/internal/authz/authzen-configuration", "alice", None).await;
    let base = reply.body["policy_decision_point"].as_str().expect("an address");
    assert!(base.starts_with("http") && !base.contains("/realms"), "{base}");
    assert_eq!(reply.body["access_evaluation_endpoint"], format!("{base}/access/v1/evaluation"));
    assert_eq!(reply.body["access_evaluations_endpoint"], format!("{base}/access/v1/evaluations"));
}
