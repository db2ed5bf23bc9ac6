//! Approvers: list, assign, and the weeks that wait for a decision.

use serde_json::{Value, json};
use testkit::module::{CORRELATION, SUBJECT};
use testkit::{ModuleApi, Reply};
use uuid::Uuid;

use crate::start;
use crate::support::{know_members, reason, start_with_members};

async fn assign(module: &ModuleApi, member: Uuid, approver: Uuid) -> Reply {
    let body = json!({ "memberId": member, "approverMemberId": approver });
    module.ask("PUT", "/member-approvers", Some(body)).await
}

#[tokio::test]
async fn an_assignment_is_listed_audited_once_and_kept_when_it_is_put_again() {
    let (module, [ann, bob, eve]) = start_with_members().await;
    let first = assign(&module, ann, bob).await;
    let expected = json!({ "companyId": module.company, "memberId": ann, "approverMemberId": bob,
        "assignedAt": first.data()["assignedAt"] });
    assert_eq!((first.status, first.data()), (200, &expected));
    let before = module.contents().await;
    assert_eq!(assign(&module, ann, bob).await.data(), &expected, "the same moment");
    assert_eq!(module.contents().await, before);
    let second = assign(&module, ann, eve).await;
    assert_eq!(second.data()["approverMemberId"], json!(eve));
    assert!(second.data()["assignedAt"].as_str() > first.data()["assignedAt"].as_str());
    let page = module.ask("GET", "/member-approvers", None).await;
    assert_eq!((&page.data()["total"], &page.data()["items"]), (&json!(1), &json!([second.data()])));
    let event = |from: Value, to: Uuid| {
        json!({ "companyId": module.company, "actor": SUBJECT, "action": "approver.assigned",
            "subject": format!("member:{ann}"), "correlationId": CORRELATION,
            "payload": { "approverMemberId": { "from": from, "to": to } } })
    };
    assert_eq!(module.audit().await, [event(Value::Null, bob), event(json!(bob), eve)]);
}

#[tokio::test]
async fn both_must_be_active_members_and_not_the_same() {
    let (module, [ann, bob, stranger]) = start_with_members().await;
    know_members(&module, vec![ann], vec![bob]);
    let before = module.contents().await;
    for (member, approver, unknown) in
        [(ann, bob, vec![bob]), (ann, stranger, vec![stranger]), (stranger, bob, vec![stranger, bob])]
    {
        let reply = assign(&module, member, approver).await;
        assert_eq!((reply.status, reason(&reply)), (422, "MEMBER_UNKNOWN"));
        assert_eq!(reply.body["error"]["details"]["memberIds"], json!(unknown));
    }
    let reply = assign(&module, ann, ann).await;
    assert_eq!((reply.status, reason(&reply)), (422, "APPROVER_IS_SELF"));
    let empty = module.ask("PUT", "/member-approvers", Some(json!({ "memberId": "x" }))).await;
    assert_eq!(empty.wrong_fields(), ["memberId uuid", "approverMemberId required"]);
    assert_eq!(module.contents().await, before);
}

#[tokio::test]
async fn without_org_nothing_is_assigned() {
    let module = start().await;
    let path = format!("/internal/org/companies/{}/lookup", module.company);
    module.org.close("POST", &path);
    let reply = assign(&module, Uuid::now_v7(), Uuid::now_v7()).await;
    assert_eq!((reply.status, &reply.body["error"]["details"]["dependency"]), (503, &json!("org")));
    assert!(module.audit().await.is_empty());
}

#[tokio::test]
async fn weeks_that_wait_follow_the_member_to_the_new_approver_and_others_do_not() {
    let (module, [ann, bob, eve]) = start_with_members().await;
    assign(&module, ann, bob).await;
    let waiting = stored(&module, ann, "2026-11-16", "submitted", bob).await;
    let decided = stored(&module, ann, "2026-11-09", "approved", bob).await;
    let foreign = stored(&module, eve, "2026-11-16", "submitted", bob).await;
    assign(&module, ann, eve).await;
    let approvers = module.contents().await;
    let approver = |id: Uuid| {
        let row = approvers.iter().find(|row| row["id"] == json!(id)).expect("the row");
        row["assigned_approver_member_id"].clone()
    };
    assert_eq!([waiting, decided, foreign].map(approver), [json!(eve), json!(bob), json!(bob)]);
    let events = module.audit().await;
    let told: Vec<_> = events.iter().map(|event| event["action"].as_str().expect("a word")).collect();
    assert_eq!(told, ["approver.assigned", "submission.reassigned", "approver.assigned"]);
    let moved = &events[1];
    assert_eq!(moved["subject"], format!("submission:{waiting}"));
    assert_eq!(moved["payload"], json!({ "assignedApproverMemberId": { "from": bob, "to": eve } }));
}

/// Inserts a submission.
async fn stored(module: &ModuleApi, member: Uuid, week: &str, status: &str, approver: Uuid) -> Uuid {
    let (id, company) = (Uuid::now_v7(), module.company);
    let decided = if status == "submitted" { "NULL" } else { "now()" };
    module
        .execute(format!(
            "INSERT INTO timesheet.member_weeks VALUES ('{company}', '{member}', '{week}');
             INSERT INTO timesheet.submissions(id, company_id, member_id, week_start, version_number, root_id,
               is_current, status, assigned_approver_member_id, submitted_by, decided_at)
             VALUES ('{id}', '{company}', '{member}', '{week}', 1, '{id}', true, '{status}', '{approver}', 'x', {decided})"
        ))
        .await;
    id
}

#[tokio::test]
async fn pages_put_together_are_the_whole_list_by_member() {
    let (module, [approver, ..]) = start_with_members().await;
    let mut members: Vec<Uuid> = (0..7).map(|_| Uuid::now_v7()).collect();
    know_members(&module, [members.clone(), vec![approver]].concat(), vec![]);
    for member in members.iter().rev() {
        assert_eq!(assign(&module, *member, approver).await.status, 200);
    }
    members.sort();
    for size in [1, 3, 7, 100] {
        let mut seen = Vec::new();
        for page in 1..=8 {
            let tail = format!("/member-approvers?page={page}&pageSize={size}");
            let reply = module.ask("GET", &tail, None).await;
            assert_eq!(reply.data()["total"], 7);
            let items = reply.data()["items"].as_array().expect("a list").clone();
            seen.extend(items.into_iter().map(|item| item["memberId"].clone()));
        }
        assert_eq!(json!(seen), json!(members), "pageSize {size}");
    }
}

#[tokio::test]
async fn two_approvers_at_once_leave_one_assignment_and_one_audit_row_each() {
    let (module, [ann, bob, eve]) = start_with_members().await;
    let waiting = stored(&module, ann, "2026-11-16", "submitted", bob).await;
    for _ in 0..50 {
        let (left, right) = tokio::join!(assign(&module, ann, bob), assign(&module, ann, eve));
        assert_eq!((left.status, right.status), (200, 200));
        let page = module.ask("GET", "/member-approvers", None).await;
        let assigned = page.data()["items"][0]["approverMemberId"].clone();
        let contents = module.contents().await;
        let row = contents.iter().find(|row| row["id"] == json!(waiting)).expect("the row");
        assert_eq!(row["assigned_approver_member_id"], assigned, "the week waits for the assigned approver");
    }
}
