//! Checks that precede every operation, and the probes.

use serde_json::json;
use testkit::ModuleApi;
use testkit::module::gates::Sample;
use uuid::Uuid;

use crate::start;
use crate::support::{know_directory, know_members, monday};

/// A member known to org, so that an operation reaches the database.
const MEMBER: Uuid = Uuid::from_u128(0x0192_f0c1_5d3e_7a10_8c11_2f6a_4d9b_2001);
/// Another member.
const OTHER: Uuid = Uuid::from_u128(0x0192_f0c1_5d3e_7a10_8c11_2f6a_4d9b_2002);

fn know_both(module: &ModuleApi) {
    module.member(MEMBER, &[], &[]);
    know_members(module, vec![MEMBER, OTHER], vec![]);
    know_directory(module, &[MEMBER, OTHER]);
}

fn samples() -> Vec<Sample> {
    let project = json!({ "code": "WEB", "name": "Web shop" });
    let one = |name: &str| format!("/submissions/{}/{name}", Uuid::now_v7());
    let entry = || json!({ "projectId": Uuid::now_v7(), "entryDate": monday(0), "realHours": 1 });
    vec![
        Sample::of("getSettings", "/settings"),
        Sample::of("updateSettings", "/settings").with(json!({ "allowedFutureWeeks": 9 })),
        Sample::of("listProjects", "/projects"),
        Sample::of("createProject", "/projects").with(project.clone()),
        Sample::of("updateProject", format!("/projects/{}", Uuid::now_v7())).with(project),
        Sample::of("listMemberApprovers", "/member-approvers"),
        Sample::of("assignMemberApprover", "/member-approvers")
            .with(json!({ "memberId": MEMBER, "approverMemberId": OTHER })),
        Sample::of("listWeekEntries", format!("/time-entries?weekStart={}", monday(0))),
        Sample::of("upsertTimeEntry", "/time-entries").with(entry()),
        Sample::of("listSubmissions", "/submissions"),
        Sample::of("submitWeek", "/submissions").with(json!({ "weekStart": monday(0) })),
        Sample::of("approveSubmission", one("approve")),
        Sample::of("revertSubmission", one("revert")),
        Sample::of("rejectSubmission", one("reject")).with(json!({ "reason": "Tuesday is missing" })),
        Sample::of("listSubmissionEntries", one("entries")),
        Sample::of("approveSubmissions", "/submissions/approve-batch")
            .with(json!({ "submissionIds": [Uuid::now_v7()] })),
        Sample::of("saveWeek", "/time-entries/week")
            .with(json!({ "weekStart": monday(0), "entries": [entry()] })),
        Sample::of("getWeekOverview", format!("/weeks/{}/overview", monday(0))),
        Sample::of("reportHours", format!("/reports/hours?from={0}&to={0}", monday(0))),
    ]
}

testkit::module_gates! { timesheet, samples: samples(), prepare: know_both, list: "/settings" }

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
