//! What stands before every operation, and the probes.

use serde_json::{Value, json};
use testkit::Operation;
use testkit::module::{gates, probes};
use uuid::Uuid;

use crate::{start, start_without_database};

fn operations() -> Vec<Operation> {
    let operation = |method, tail: &str, body: Option<Value>, feature, relation| Operation {
        method,
        tail: tail.to_owned(),
        body,
        feature,
        relation,
        operator: true,
    };
    let project = || Some(json!({ "code": "WEB", "name": "Web shop" }));
    let one = format!("/projects/{}", Uuid::now_v7());
    vec![
        operation("GET", "/settings", None, "timesheet.settings.read", "member"),
        operation(
            "PUT",
            "/settings",
            Some(json!({ "allowedFutureWeeks": 9 })),
            "timesheet.settings.update",
            "admin",
        ),
        operation("GET", "/projects", None, "timesheet.projects.read", "member"),
        operation("POST", "/projects", project(), "timesheet.projects.manage", "editor"),
        operation("PUT", &one, project(), "timesheet.projects.manage", "editor"),
    ]
}

#[tokio::test]
async fn no_operation_does_anything_without_bearer_company_and_decision() {
    let module = start().await;
    for operation in operations() {
        gates::check(&module, &operation).await;
    }
}

#[tokio::test]
async fn the_list_of_gates_holds_every_documented_operation() {
    let module = start().await;
    let documented = module.document().operations();
    assert_eq!(documented.len(), operations().len() + 2, "and the two probes: {documented:?}");
}

#[tokio::test]
async fn a_denied_call_never_reaches_the_database_and_an_allowed_one_fails_closed() {
    let module = start_without_database().await;
    for operation in operations() {
        gates::check_without_database(&module, &operation).await;
    }
    probes::check_without_database(&module).await;
}

#[tokio::test]
async fn probes_and_metrics() {
    let module = start().await;
    probes::check(&module, "/settings", "/settings").await;
}

#[tokio::test]
async fn a_malformed_project_id_is_told_before_the_decision() {
    let module = start().await;
    let tail = "/projects/not-an-id";
    let reply = module.ask("PUT", tail, Some(json!({ "code": "WEB", "name": "Web shop" }))).await;
    assert_eq!((reply.status, reply.code()), (400, "BAD_REQUEST"));
    assert!(module.questions().is_empty());
}

#[tokio::test]
async fn what_is_wrong_with_a_body_is_told_only_to_whoever_may_send_one() {
    let module = start().await;
    module.hold(&["member"]);
    let reply = module.ask("POST", "/projects", Some(json!({ "code": 7 }))).await;
    assert_eq!((reply.status, reply.code()), (403, "AUTHORIZATION_DENIED"));
}
