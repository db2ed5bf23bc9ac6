//! What stands before every operation, and the probes.

use serde_json::{Value, json};
use testkit::module::{gates, probes};
use testkit::{ModuleApi, Operation};
use uuid::Uuid;

use crate::support::{know_directory, know_members, monday};
use crate::{start, start_without_database};

/// A member whom org knows, so that an operation reaches the database.
const MEMBER: Uuid = Uuid::from_u128(0x0192_f0c1_5d3e_7a10_8c11_2f6a_4d9b_2001);
/// Another.
const OTHER: Uuid = Uuid::from_u128(0x0192_f0c1_5d3e_7a10_8c11_2f6a_4d9b_2002);

fn know_both(module: &ModuleApi) {
    module.member(MEMBER, &[], &[]);
    know_members(module, vec![MEMBER, OTHER], vec![]);
    know_directory(module, &[MEMBER, OTHER]);
}

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
    let week = format!("/time-entries?weekStart={}", monday(0));
    let entry = Some(json!({ "projectId": Uuid::now_v7(), "entryDate": monday(0), "realHours": 1 }));
    let own_week = Some(json!({ "weekStart": monday(0) }));
    let decide = |name: &str| format!("/submissions/{}/{name}", Uuid::now_v7());
    let rejection = Some(json!({ "reason": "Tuesday is missing" }));
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
        operation("GET", "/member-approvers", None, "timesheet.approvers.read", "admin"),
        operation(
            "PUT",
            "/member-approvers",
            Some(json!({ "memberId": MEMBER, "approverMemberId": OTHER })),
            "timesheet.approvers.manage",
            "admin",
        ),
        Operation { operator: false, ..operation("GET", &week, None, "timesheet.entries.read", "submitter") },
        Operation {
            operator: false,
            ..operation("PUT", "/time-entries", entry, "timesheet.entries.write", "submitter")
        },
        Operation {
            operator: false,
            ..operation("GET", "/submissions", None, "timesheet.submissions.read", "member")
        },
        operation("GET", "/submissions?view=all", None, "timesheet.submissions.read_all", "viewer"),
        Operation {
            operator: false,
            ..operation("POST", "/submissions", own_week, "timesheet.submissions.submit", "submitter")
        },
        operation("POST", &decide("approve"), None, "timesheet.submissions.decide", "member"),
        operation("POST", &decide("revert"), None, "timesheet.submissions.revert", "member"),
        operation("POST", &decide("reject"), rejection, "timesheet.submissions.decide", "member"),
    ]
    .into_iter()
    .chain(operations_beyond())
    .collect()
}

/// Of the operations that the module contract does not list.
fn operations_beyond() -> Vec<Operation> {
    let operation = |method, tail: String, body, feature, relation| Operation {
        method,
        tail,
        body,
        feature,
        relation,
        operator: true,
    };
    let held = format!("/submissions/{}/entries", Uuid::now_v7());
    let batch = Some(json!({ "submissionIds": [Uuid::now_v7()] }));
    let week = Some(json!({ "weekStart": monday(0), "entries": [] }));
    let report = format!("/reports/hours?from={0}&to={0}", monday(0));
    vec![
        operation("GET", held, None, "timesheet.submissions.read_entries", "member"),
        operation(
            "POST",
            "/submissions/approve-batch".to_owned(),
            batch,
            "timesheet.submissions.decide",
            "member",
        ),
        Operation {
            operator: false,
            ..operation("PUT", "/time-entries/week".to_owned(), week, "timesheet.entries.write", "submitter")
        },
        operation("GET", format!("/weeks/{}/overview", monday(0)), None, "timesheet.weeks.read", "viewer"),
        operation("GET", report, None, "timesheet.reports.read", "viewer"),
    ]
}

#[tokio::test]
async fn no_operation_does_anything_without_bearer_company_and_decision() {
    let module = start().await;
    know_both(&module);
    for operation in operations() {
        gates::check(&module, &operation).await;
    }
}

#[tokio::test]
async fn the_list_of_gates_holds_every_documented_operation() {
    let module = start().await;
    let documented = module.document().operations();
    let listed = operations().len() - 1;
    assert_eq!(documented.len(), listed + 2, "one list has two gates; and the two probes: {documented:?}");
}

#[tokio::test]
async fn a_denied_call_never_reaches_the_database_and_an_allowed_one_fails_closed() {
    let module = start_without_database().await;
    know_both(&module);
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
