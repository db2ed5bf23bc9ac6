//! Approving, rejecting and reverting: who may, from which status, and that the flags agree.

use futures_util::future::join_all;
use serde_json::{Value, json};
use testkit::module::SUBJECT;
use testkit::{ModuleApi, Reply};
use uuid::Uuid;

use crate::support::{monday, reason, settle, start_with_members, submit, submit_as};

const MOVES: [&str; 3] = ["approve", "reject", "revert"];

async fn step(module: &ModuleApi, id: &Value, name: &str) -> Reply {
    let tail = format!("/submissions/{}/{name}", id.as_str().expect("an id"));
    let body = (name == "reject").then(|| json!({ "reason": "Tuesday is missing" }));
    module.ask("POST", &tail, body).await
}

/// A week that Eve submitted and that waits for `approver`; the caller is the first member.
async fn waiting(module: &ModuleApi, eve: Uuid, approver: Option<Uuid>, week: i64) -> Reply {
    if let Some(approver) = approver {
        let body = json!({ "memberId": eve, "approverMemberId": approver });
        module.ask("PUT", "/member-approvers", Some(body)).await;
    }
    submit_as(module, "eve", eve, &monday(week)).await
}

fn flags(submission: &Value) -> [bool; 3] {
    ["canApprove", "canReject", "canRevert"]
        .map(|name| submission["permissions"][name].as_bool().expect("a flag"))
}

#[tokio::test]
async fn a_decision_is_shown_audited_once_and_never_taken_twice() {
    let (module, [ann, _, eve]) = start_with_members().await;
    let made = waiting(&module, eve, Some(ann), 0).await;
    let id = made.data()["id"].clone();
    let before = module.audit().await.len();
    let approved = step(&module, &id, "approve").await;
    assert_eq!((approved.status, &approved.data()["status"]), (200, &json!("approved")));
    assert_eq!(flags(approved.data()), [false, false, true]);
    for name in ["approve", "reject"] {
        let again = step(&module, &id, name).await;
        assert_eq!((again.status, again.code()), (409, "SUBMISSION_NOT_PENDING"));
        let details = json!({ "status": "approved", "isCurrent": true });
        assert_eq!(again.body["error"]["details"], details);
    }
    let reverted = step(&module, &id, "revert").await;
    assert_eq!((reverted.status, &reverted.data()["status"]), (200, &json!("reverted")));
    assert_eq!(step(&module, &id, "revert").await.code(), "SUBMISSION_NOT_REVERTIBLE");
    let second = submit_as(&module, "eve", eve, &monday(0)).await;
    assert_eq!(step(&module, &id, "approve").await.code(), "SUBMISSION_SUPERSEDED");
    let rejected = step(&module, &second.data()["id"], "reject").await;
    assert_eq!(rejected.data()["rejectReason"], "Tuesday is missing");
    assert_eq!(flags(rejected.data()), [false, false, false]);
    let told: Vec<Value> = module.audit().await.split_off(before);
    let expected = [
        ("submission.approved", json!({})),
        ("submission.reverted", json!({ "fromStatus": "approved" })),
        ("submission.submitted", told[2]["payload"].clone()),
        ("submission.rejected", json!({ "reason": "Tuesday is missing" })),
    ];
    let seen: Vec<_> = told.iter().map(|event| (&event["action"], &event["payload"])).collect();
    assert_eq!(json!(seen), json!(expected));
}

#[tokio::test]
async fn p07_nobody_decides_his_own_week_and_a_stranger_none() {
    let (module, [ann, bob, eve]) = start_with_members().await;
    let own = submit(&module, &monday(0)).await.data()["id"].clone();
    for name in ["approve", "reject"] {
        let reply = step(&module, &own, name).await;
        assert_eq!((reply.status, reason(&reply)), (403, "SELF_APPROVAL"), "even an administrator");
    }
    module.member(bob, &[], &[]);
    for name in ["approve", "reject"] {
        let reply = step(&module, &own, name).await;
        assert_eq!(reason(&reply), "SELF_APPROVAL", "the same subject as another member");
    }
    module.member(ann, &[], &[]);
    let theirs = waiting(&module, eve, Some(bob), 0).await.data()["id"].clone();
    module.hold(&["member"]);
    for name in MOVES {
        let reply = step(&module, &theirs, name).await;
        assert_eq!((reply.status, reason(&reply)), (403, "NOT_APPROVER"), "{name}");
    }
    module.decide(|_| true);
    assert_eq!(reason(&step(&module, &theirs, "revert").await), "NOT_SUBMITTER");
    assert_eq!(step(&module, &theirs, "approve").await.status, 200, "a holder of approver");
    let taken = step(&module, &own, "revert").await;
    assert_eq!((taken.status, &taken.data()["status"]), (200, &json!("reverted")), "one's own waiting week");
    assert_eq!(step(&module, &own, "approve").await.code(), "SUBMISSION_NOT_PENDING");
    let second = submit(&module, &monday(-1)).await;
    settle(&module, &second, "approved").await;
    assert_eq!(reason(&step(&module, &second.data()["id"], "revert").await), "SELF_APPROVAL");
}

#[tokio::test]
async fn an_assigned_approver_needs_no_further_right() {
    let (module, [ann, _, eve]) = start_with_members().await;
    module.hold(&["member", "submitter", "admin"]);
    let id = waiting(&module, eve, Some(ann), 0).await.data()["id"].clone();
    let asked = module.questions().len();
    assert_eq!(step(&module, &id, "approve").await.status, 200);
    assert_eq!(module.questions().len(), asked + 1, "the second decision is not needed");
}

#[tokio::test]
async fn p06_each_flag_is_true_exactly_when_the_call_succeeds() {
    let (module, [ann, bob, eve]) = start_with_members().await;
    let mut tried = [0, 0];
    for relations in [&["member", "viewer"][..], &["member", "viewer", "approver"]] {
        for (owner, approver) in [(ann, bob), (eve, ann), (eve, bob)] {
            for status in ["submitted", "approved", "rejected", "reverted"] {
                for name in MOVES {
                    let id = stored(&module, owner, approver, status, owner == ann).await;
                    module.hold(relations);
                    let list = module.ask("GET", "/submissions?view=all", None).await;
                    let items = list.data()["items"].as_array().expect("a list");
                    let shown = items.iter().find(|item| item["id"] == id).expect("it is listed");
                    let at = MOVES.iter().position(|known| *known == name).expect("a move");
                    let flag = flags(shown)[at];
                    let reply = step(&module, &id, name).await;
                    assert_eq!(reply.status == 200, flag, "{status} {name} {}", reply.text);
                    tried[usize::from(flag)] += 1;
                }
            }
        }
    }
    assert!(tried.iter().all(|count| *count > 8), "both ways: {tried:?}");
}

/// Replaces all submissions with one, and returns its id.
async fn stored(module: &ModuleApi, member: Uuid, approver: Uuid, status: &str, own: bool) -> Value {
    let (id, company, week) = (Uuid::now_v7(), module.company, monday(0));
    let subject = if own { SUBJECT } else { "x" };
    let reason = if status == "rejected" { "'x'" } else { "NULL" };
    let decided = if status == "submitted" { "NULL" } else { "now()" };
    let everybody = Uuid::max();
    module
        .execute(format!(
            "DELETE FROM timesheet.submissions;
             INSERT INTO timesheet.member_weeks VALUES ('{company}', '{member}', '{week}') ON CONFLICT DO NOTHING;
             INSERT INTO timesheet.submissions(id, company_id, member_id, week_start, version_number, root_id,
               is_current, status, assigned_approver_member_id, submitted_by, decided_at, reject_reason)
             VALUES ('{id}', '{company}', '{member}', '{week}', 1, '{id}', true, '{status}', '{approver}',
               '{subject}', {decided}, {reason});
             DELETE FROM timesheet.submission_weeks;
             INSERT INTO timesheet.submission_weeks VALUES ('{company}', '{approver}', '{week}', 1),
               ('{company}', '{everybody}', '{week}', 1)"
        ))
        .await;
    json!(id)
}

#[tokio::test]
async fn p12_an_unknown_submission_and_another_companys_are_the_same() {
    let (module, [ann, _, eve]) = start_with_members().await;
    let id = waiting(&module, eve, Some(ann), 0).await.data()["id"].clone();
    module.execute("UPDATE timesheet.submissions SET decided_by = NULL".to_owned()).await;
    let before = module.contents().await;
    let foreign = Uuid::now_v7();
    let place = json!({ "data": { "isMember": true, "isActive": true, "memberId": ann,
        "displayName": null, "email": null, "positionIds": [], "groupIds": [] } });
    module.org.answer("GET", &format!("/internal/org/companies/{foreign}/*"), 200, place);
    for name in MOVES {
        let unknown = step(&module, &json!(Uuid::now_v7()), name).await;
        let tail = format!("/submissions/{}/{name}", id.as_str().expect("an id"));
        let call = module.call("POST", &module.path(foreign, &tail)).json(json!({ "reason": "x" }));
        let other = call.send().await;
        assert_eq!((unknown.status, other.status, &unknown.body), (404, 404, &other.body));
        let bad = module.ask("POST", &format!("/submissions/x/{name}"), None).await;
        assert_eq!((bad.status, bad.code()), (400, "BAD_REQUEST"));
    }
    assert_eq!(module.contents().await, before);
}

#[tokio::test]
async fn a_rejection_needs_a_reason() {
    let (module, [ann, _, eve]) = start_with_members().await;
    let id = waiting(&module, eve, Some(ann), 0).await.data()["id"].clone();
    let tail = format!("/submissions/{}/reject", id.as_str().expect("an id"));
    for (reason, expected) in [
        (json!(null), "reason required"),
        (json!(7), "reason type"),
        (json!(""), "reason length"),
        (json!(" \n"), "reason blank"),
        (json!("ä".repeat(2_001)), "reason length"),
    ] {
        let reply = module.ask("POST", &tail, Some(json!({ "reason": reason }))).await;
        assert_eq!(reply.wrong_fields(), [expected]);
    }
    let longest = module.ask("POST", &tail, Some(json!({ "reason": "ä".repeat(2_000) }))).await;
    assert_eq!(longest.status, 200);
}

#[tokio::test]
async fn p03_hazard_of_many_decisions_at_once_one_succeeds() {
    let (module, [ann, _, eve]) = start_with_members().await;
    waiting(&module, eve, Some(ann), -1).await;
    for round in 0..50 {
        let made = submit_as(&module, "eve", eve, &monday(0)).await;
        let id = made.data()["id"].clone();
        let before = module.audit().await.len();
        let names = ["approve", "reject", "approve", "reject"];
        let replies = join_all(names.map(|name| step(&module, &id, name))).await;
        let won = replies.iter().filter(|reply| reply.status == 200).count();
        let lost = replies.iter().filter(|reply| reply.code() == "SUBMISSION_NOT_PENDING").count();
        assert_eq!((won, lost), (1, 3), "round {round}");
        assert_eq!(module.audit().await.len(), before + 1, "one audit row");
        settle(&module, &made, "reverted").await;
    }
}
