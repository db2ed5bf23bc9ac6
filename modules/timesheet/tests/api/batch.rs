//! Approving many submissions: each separately, with its own result.

use serde_json::{Value, json};
use testkit::{ModuleApi, Reply};
use uuid::Uuid;

use crate::support::{monday, start_with_members, submit, submit_as};

async fn approve(module: &ModuleApi, ids: &Value) -> Reply {
    module.ask("POST", "/submissions/approve-batch", Some(json!({ "submissionIds": ids }))).await
}

#[tokio::test]
async fn each_is_decided_by_itself_and_has_its_result_in_its_place() {
    let (module, [ann, _, eve]) = start_with_members().await;
    let assign = json!({ "memberId": eve, "approverMemberId": ann });
    module.ask("PUT", "/member-approvers", Some(assign)).await;
    let own = submit(&module, &monday(0)).await.data()["id"].clone();
    let mut theirs = Vec::new();
    for week in [-1, 0] {
        theirs.push(submit_as(&module, "eve", eve, &monday(week)).await.data()["id"].clone());
    }
    let (unknown, before) = (json!(Uuid::now_v7()), module.audit().await.len());
    let ids = json!([theirs[0], own, unknown, theirs[1]]);
    let reply = approve(&module, &ids).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let items = reply.data()["items"].as_array().expect("a list");
    let told: Vec<_> = items
        .iter()
        .map(|item| {
            let error = &item["error"];
            (item["submissionId"].clone(), error["code"].clone(), error["details"]["reason"].clone())
        })
        .collect();
    let expected = [
        (theirs[0].clone(), Value::Null, Value::Null),
        (own, json!("AUTHORIZATION_DENIED"), json!("SELF_APPROVAL")),
        (unknown, json!("NOT_FOUND"), Value::Null),
        (theirs[1].clone(), Value::Null, Value::Null),
    ];
    assert_eq!(told, expected);
    for at in [0, 3] {
        let submission = &items[at]["submission"];
        assert_eq!((&items[at]["approved"], &submission["status"]), (&json!(true), &json!("approved")));
        assert_eq!(submission["permissions"]["canRevert"], true);
    }
    assert_eq!((&items[1]["approved"], &items[1]["submission"]), (&json!(false), &Value::Null));
    let actions: Vec<Value> =
        module.audit().await.split_off(before).into_iter().map(|event| event["action"].clone()).collect();
    assert_eq!(actions, ["submission.approved", "submission.approved"], "an audit row each");
    let again = approve(&module, &json!(theirs)).await;
    let codes: Vec<_> = [0, 1].map(|at| again.data()["items"][at]["error"]["code"].clone()).to_vec();
    assert_eq!(codes, ["SUBMISSION_NOT_PENDING", "SUBMISSION_NOT_PENDING"]);
}

#[tokio::test]
async fn the_second_decision_is_asked_once_a_request() {
    let (module, [_, _, eve]) = start_with_members().await;
    let mut ids = Vec::new();
    for week in -3..=1 {
        ids.push(submit_as(&module, "eve", eve, &monday(week)).await.data()["id"].clone());
    }
    let asked = module.questions().len();
    let reply = approve(&module, &json!(ids)).await;
    let approved = reply.data()["items"].as_array().expect("a list");
    assert!(approved.iter().all(|item| item["approved"] == true), "{}", reply.text);
    let questions = module.questions().split_off(asked);
    assert_eq!(questions.len(), 2);
    // Submissions that are not the caller's to decide are left as they are; the request continues, so no denial is
    // recorded.
    assert_eq!(questions[1], module.probe("timesheet.submissions.decide_any", "approver", true));
    module.hold(&["member"]);
    let denied = approve(&module, &json!(ids)).await;
    assert_eq!(denied.data()["items"][0]["error"]["details"]["reason"], "NOT_APPROVER");
}

#[tokio::test]
async fn a_batch_is_one_to_a_hundred_ids_each_once() {
    let (module, _) = start_with_members().await;
    let many = |count: usize| json!((0..count).map(|_| Uuid::now_v7()).collect::<Vec<_>>());
    let same = Uuid::now_v7();
    for (ids, expected) in [
        (Value::Null, "submissionIds required"),
        (json!("x"), "submissionIds type"),
        (json!([]), "submissionIds length"),
        (many(101), "submissionIds length"),
        (json!([same, "x"]), "submissionIds[1] uuid"),
        (json!([same, same]), "submissionIds[1] duplicate"),
    ] {
        assert_eq!(approve(&module, &ids).await.wrong_fields(), [expected]);
    }
    let most = approve(&module, &many(100)).await;
    assert_eq!(most.data()["items"].as_array().map(Vec::len), Some(100));
}
