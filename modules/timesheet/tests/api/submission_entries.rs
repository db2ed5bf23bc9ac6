//! The entries of a submission: shown as they were, to those whom it concerns.

use serde_json::{Value, json};
use testkit::{ModuleApi, Reply};
use uuid::Uuid;

use crate::support::{day_of, monday, project, put, reason, settle, start_with_members, submit, submit_as};

async fn held(module: &ModuleApi, id: &Value) -> Reply {
    let tail = format!("/submissions/{}/entries", id.as_str().expect("an id"));
    module.ask("GET", &tail, None).await
}

#[tokio::test]
async fn it_is_what_was_submitted_whatever_came_after() {
    let (module, _) = start_with_members().await;
    let (web, app) = (project(&module, "WEB").await, project(&module, "APP").await);
    let noted = json!({ "projectId": web, "entryDate": day_of(0, 1), "realHours": 7.25, "note": "Checkout" });
    module.ask("PUT", "/time-entries", Some(noted)).await;
    put(&module, &app, &day_of(0, 1), 0.5).await;
    let first = submit(&module, &monday(0)).await;
    let item = |project: &str, code: &str, real: f64, billable: f64, note: Value| {
        json!({ "projectId": project, "projectCode": code, "entryDate": day_of(0, 1), "realHours": real,
            "billableHours": billable, "note": note })
    };
    let expected = json!({
        "items": [item(&app, "APP", 0.5, 0.5, Value::Null), item(&web, "WEB", 7.25, 7.25, json!("Checkout"))],
        "totals": { "realHours": 7.75, "billableHours": 7.75 },
    });
    assert_eq!(held(&module, &first.data()["id"]).await.data(), &expected);
    settle(&module, &first, "rejected").await;
    put(&module, &app, &day_of(0, 1), 1.5).await;
    let second = submit(&module, &monday(0)).await;
    assert_eq!(held(&module, &first.data()["id"]).await.data(), &expected);
    let sums = held(&module, &second.data()["id"]).await.data()["totals"].clone();
    assert_eq!(sums, json!({ "realHours": 8.75, "billableHours": 7.75 }));
    let empty = submit(&module, &monday(-1)).await;
    let nothing = json!({ "items": [], "totals": { "realHours": 0, "billableHours": 0 } });
    assert_eq!(held(&module, &empty.data()["id"]).await.data(), &nothing);
}

#[tokio::test]
async fn owner_assigned_approver_and_viewer_may_read_it_and_nobody_else() {
    let (module, [ann, bob, eve]) = start_with_members().await;
    let assign = json!({ "memberId": eve, "approverMemberId": bob });
    module.ask("PUT", "/member-approvers", Some(assign)).await;
    let id = submit_as(&module, "eve", eve, &monday(0)).await.data()["id"].clone();
    for (member, relations, status) in [
        (eve, &["member"][..], 200),
        (bob, &["member"], 200),
        (ann, &["member"], 403),
        (ann, &["member", "viewer"], 200),
    ] {
        module.member(member, &[], &[]);
        module.hold(relations);
        let reply = held(&module, &id).await;
        assert_eq!(reply.status, status, "{}", reply.text);
        if status == 403 {
            assert_eq!((reply.code(), reason(&reply)), ("AUTHORIZATION_DENIED", "NOT_READER"));
        }
    }
    module.decide(|_| true);
    let unknown = held(&module, &json!(Uuid::now_v7())).await;
    assert_eq!((unknown.status, unknown.code()), (404, "NOT_FOUND"));
    let bad = module.ask("GET", "/submissions/x/entries", None).await;
    assert_eq!((bad.status, bad.code()), (400, "BAD_REQUEST"));
}
