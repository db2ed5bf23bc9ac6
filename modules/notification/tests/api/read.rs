//! Which messages a caller has read.

use serde_json::{Value, json};
use testkit::ModuleApi;

use crate::start;
use crate::support::{actions, be_member, channel, message};

async fn ask_as(module: &ModuleApi, subject: &str, method: &str, tail: &str) -> Value {
    let path = module.path(module.company, tail);
    let call = if method == "GET" { module.api.get(path) } else { module.api.post(path) };
    let reply = call.bearer(&module.issuer.issue(subject)).send().await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.data().clone()
}

#[tokio::test]
async fn property_9_the_time_of_reading_is_each_callers_own_and_never_changes() {
    let module = start().await;
    let app = channel(&module, "app", "in_app", None).await;
    let tail = format!("/messages/{}", message(&module, &app).await);
    let read = format!("{tail}/read");
    let first = module.ask("POST", &read, None).await.data()["readAt"].clone();
    assert!(first.is_string());
    for _ in 0..2 {
        assert_eq!(module.ask("POST", &read, None).await.data()["readAt"], first);
    }
    assert_eq!(module.ask("GET", &tail, None).await.data()["readAt"], first);
    assert_eq!(ask_as(&module, "bob-subject", "GET", &tail).await["readAt"], Value::Null);
    let his = ask_as(&module, "bob-subject", "POST", &read).await["readAt"].clone();
    assert!(his.is_string());
    assert_eq!(module.ask("GET", &tail, None).await.data()["readAt"], first);
    let reads = actions(&module).await.into_iter().filter(|action| action == "message.read").count();
    assert_eq!(reads, 2, "one audit row for each first time");
}

#[tokio::test]
async fn parallel_first_reads_agree_and_leave_one_row() {
    let module = start().await;
    let app = channel(&module, "app", "in_app", None).await;
    let read = format!("/messages/{}/read", message(&module, &app).await);
    let replies = futures_util::future::join_all((0..8).map(|_| module.ask("POST", &read, None))).await;
    let first = &replies[0].data()["readAt"];
    assert!(replies.iter().all(|reply| reply.status == 200 && &reply.data()["readAt"] == first));
    let reads = actions(&module).await.into_iter().filter(|action| action == "message.read").count();
    assert_eq!(reads, 1);
}

#[tokio::test]
async fn unread_messages_are_counted_and_all_are_marked_at_once() {
    let module = start().await;
    let (app, mail) =
        (channel(&module, "app", "in_app", None).await, channel(&module, "mail", "email", None).await);
    let unread = async || module.ask("GET", "/messages/unread-count", None).await.data().clone();
    assert_eq!(unread().await, json!({ "count": 0, "hasMore": false }));
    let first = message(&module, &app).await;
    message(&module, &app).await;
    message(&module, &mail).await;
    assert_eq!(unread().await, json!({ "count": 3, "hasMore": false }));
    module.hold(&["member"]);
    be_member(&module);
    assert_eq!(unread().await["count"], 2, "a member counts what a member sees");
    module
        .execute(format!(
            "UPDATE notification.messages SET created_at = '2026-01-01T00:00:00.000999Z' WHERE id = '{first}'"
        ))
        .await;
    let shown = json!("2026-01-01T00:00:00.000Z");
    assert_eq!(module.ask("GET", &format!("/messages/{first}"), None).await.data()["createdAt"], shown);
    let mark = async |before: &Value| {
        let reply = module.ask("POST", "/messages/read-all", Some(json!({ "before": before }))).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.data()["marked"].clone()
    };
    assert_eq!(mark(&json!("2025-12-31T23:59:59.999Z")).await, 0, "control: the millisecond before");
    assert_eq!(mark(&shown).await, 1, "at the moment itself");
    assert_eq!(mark(&shown).await, 0);
    assert_eq!(unread().await["count"], 1);
    assert_eq!(mark(&json!("2999-01-01T00:00:00+02:00")).await, 1);
    assert_eq!(unread().await["count"], 0);
    let marks = actions(&module).await.into_iter().filter(|action| action == "messages.read").count();
    assert_eq!(marks, 2, "nothing marked, nothing audited");
    module.hold(&["member", "editor"]);
    assert_eq!(unread().await["count"], 1, "what only an editor sees was not marked");
    let last = json!({ "before": "9999-12-31T23:59:59.999Z" });
    assert_eq!(module.ask("POST", "/messages/read-all", Some(last)).await.status, 200, "the last moment");
    for bad in [
        json!({}),
        json!({ "before": "yesterday" }),
        json!({ "before": "2026-11-22" }),
        json!({ "before": "9999-12-31T23:59:59.999-00:01" }),
    ] {
        let reply = module.ask("POST", "/messages/read-all", Some(bad)).await;
        assert_eq!(reply.wrong_fields().len(), 1);
    }
}

#[tokio::test]
async fn a_count_ends_at_a_thousand() {
    let module = start().await;
    let app = channel(&module, "app", "in_app", None).await;
    let fill = async |count: u32| {
        module
            .execute(format!(
                "INSERT INTO notification.messages(id, company_id, channel_id, subject_line, body, created_by) \
                 SELECT gen_random_uuid(), '{}', '{app}', 's', 'b', 'x' FROM generate_series(1, {count})",
                module.company
            ))
            .await;
        module.ask("GET", "/messages/unread-count", None).await.data().clone()
    };
    assert_eq!(fill(1_000).await, json!({ "count": 1_000, "hasMore": false }));
    assert_eq!(fill(1).await, json!({ "count": 1_000, "hasMore": true }));
}
