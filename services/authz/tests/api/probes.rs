//! Probes and metrics.

use serde_json::json;

use crate::app::{App, in_company};

#[tokio::test]
async fn decisions_are_counted_by_reason_and_timed() {
    let app = App::start().await;
    let company = app.rows().company().await;
    app.can("root", in_company(company)).await;
    app.can("root", in_company(company)).await;
    app.can(
        "root",
        json!({ "featureKey": "x", "scope": "global", "requiredPlatformRole": "platform-superadmin" }),
    )
    .await;
    app.can("root", json!({ "scope": "nonsense" })).await;
    let reply = app.api.get("/metrics").send().await;
    app.document().check("GET", "/metrics", &reply);
    for reason in contract::decision::Reason::ALL {
        let count = match reason.as_str() {
            "ALLOWED" => 1,
            "COMPANY_MEMBERSHIP_REQUIRED" => 2,
            _ => 0,
        };
        let line = format!(
            "platform_authz_decisions_total{{reason=\"{}\",service=\"authz\"}} {count}",
            reason.as_str()
        );
        assert!(reply.text.contains(&line), "{line}\n{}", reply.text);
    }
    assert!(reply.text.contains("platform_authz_decision_duration_seconds_count{service=\"authz\"} 3"));
    for line in reply.text.lines().filter(|line| !line.starts_with('#')) {
        assert!(line.contains("service=\"authz\""), "{line}");
    }
}

#[tokio::test]
async fn unknown_paths_and_methods_have_the_envelope() {
    let app = App::start().await;
    let unknown = app.api.get("/internal/authz/nothing").send().await;
    assert_eq!((unknown.status, unknown.code()), (404, "NOT_FOUND"));
    let method = app.api.get(crate::app::CAN).send().await;
    assert_eq!((method.status, method.code(), method.header("allow")), (405, "METHOD_NOT_ALLOWED", "POST"));
}

#[tokio::test]
async fn the_document_lists_exactly_the_routes() {
    let app = App::start().await;
    for operation in app.document().operations() {
        let (method, path) = operation.split_once(' ').expect("method and path");
        let path = path.replace("{kcSub}", "x").replace("{role}", "y").replace("{subjectId}", "z");
        let reply = app.api.call(method.parse().expect("a method"), path).send().await;
        assert!(reply.status != 404 && reply.status != 405, "{operation}: {}", reply.text);
    }
}
