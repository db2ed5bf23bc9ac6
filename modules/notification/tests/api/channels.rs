//! The list of channels, and who sees their targets.

use serde_json::{Value, json};
use testkit::ModuleApi;
use testkit::module::{CAN, gates};
use uuid::Uuid;

use crate::start;
use crate::support::{actions, channel, id, reason, start_with_receiver, webhook};

const MEMBER: &[&str] = &["member"];
const MEMBER_AND_ADMIN: &[&str] = &["member", "admin"];
const MADE: &str = "2026-11-22 09:30:00.123456+00";

/// Inserts a channel into a company, as creating one does.
async fn put(module: &ModuleApi, company: Uuid, key: &str, kind: &str, target: Option<&str>) -> Uuid {
    let id = Uuid::now_v7();
    let target = target.map_or_else(|| "NULL".to_owned(), |target| format!("'{target}'"));
    module
        .execute(format!(
            "INSERT INTO notification.channels(id, company_id, key, label, kind, target, created_by, created_at) \
             VALUES ('{id}', '{company}', '{key}', 'Label of {key}', '{kind}', {target}, 'somebody', '{MADE}')"
        ))
        .await;
    id
}

fn keys(page: &Value) -> Vec<&str> {
    let items = page["items"].as_array().expect("a page");
    items.iter().map(|item| item["key"].as_str().expect("a key")).collect()
}

#[tokio::test]
async fn a_channel_has_every_documented_member() {
    let module = start().await;
    let id = put(&module, module.company, "news", "in_app", None).await;
    let page = module.ask("GET", "/channels", None).await;
    let channel = json!({
        "id": id, "companyId": module.company, "key": "news", "label": "Label of news", "kind": "in_app",
        "target": null, "createdAt": "2026-11-22T09:30:00.123Z",
    });
    let expected = json!({ "items": [channel], "total": 1, "page": 1, "pageSize": 25, "totalPages": 1 });
    assert_eq!((page.status, page.data()), (200, &expected));
}

#[tokio::test]
async fn targets_are_shown_only_to_whoever_may_manage_channels() {
    let module = start().await;
    put(&module, module.company, "hook", "webhook", Some("https://example.test/secret-token")).await;
    put(&module, module.company, "mail", "email", None).await;
    for (relations, target) in
        [(MEMBER_AND_ADMIN, json!("https://example.test/secret-token")), (MEMBER, Value::Null)]
    {
        module.hold(relations);
        let asked = module.questions().len();
        let page = module.ask("GET", "/channels", None).await;
        assert_eq!(page.data()["items"][0]["target"], target, "{relations:?}");
        assert_eq!(page.text.contains("secret-token"), !target.is_null());
        assert_eq!(
            module.questions().split_off(asked),
            [
                module.question("notification.channels.read", "member", true),
                module.probe("notification.channels.manage", "admin", true),
            ]
        );
    }
}

#[tokio::test]
async fn the_second_decision_is_asked_only_when_the_page_holds_a_target() {
    let module = start().await;
    put(&module, module.company, "a-mail", "email", None).await;
    put(&module, module.company, "b-hook", "webhook", Some("https://example.test/x")).await;
    put(&module, Uuid::now_v7(), "a-hook", "webhook", Some("https://example.test/y")).await;
    for (query, decisions) in [("?pageSize=1", 1), ("?pageSize=1&page=2", 2), ("?page=3", 1)] {
        let asked = module.questions().len();
        module.ask("GET", &format!("/channels{query}"), None).await;
        assert_eq!(module.questions().len() - asked, decisions, "{query}");
    }
}

#[tokio::test]
async fn a_second_decision_that_cannot_be_had_is_503_and_shows_nothing() {
    let module = start().await;
    put(&module, module.company, "hook", "webhook", Some("https://example.test/secret-token")).await;
    module.authz.answer_with("POST", CAN, |request| match request.body["relation"].as_str() {
        Some("member") => (200, json!({ "data": { "allowed": true, "reason": "ALLOWED", "evidence": [] } })),
        _ => (200, json!({})),
    });
    let reply = module.ask("GET", "/channels", None).await;
    gates::refused_for(&reply, "authz", "the second decision");
    assert!(!reply.text.contains("secret-token"));
}

#[tokio::test]
async fn deleted_channels_and_other_companies_are_not_listed() {
    let module = start().await;
    put(&module, module.company, "live", "in_app", None).await;
    put(&module, module.company, "gone", "in_app", None).await;
    put(&module, Uuid::now_v7(), "theirs", "in_app", None).await;
    module.execute("UPDATE notification.channels SET deleted_at = now() WHERE key = 'gone'".to_owned()).await;
    let page = module.ask("GET", "/channels", None).await;
    assert_eq!((keys(page.data()), &page.data()["total"]), (vec!["live"], &json!(1)));
}

#[tokio::test]
async fn pages_put_together_are_the_whole_list_in_the_order_of_keys() {
    let module = start().await;
    let mut all = ["b", "a.1", "a-1", "a_1", "Zulu", "0"];
    for key in all {
        put(&module, module.company, key, "in_app", None).await;
    }
    all.sort_unstable();
    for size in [1, 2, 3, 6, 100] {
        let mut seen = Vec::new();
        for page in 1..=7 {
            let reply = module.ask("GET", &format!("/channels?page={page}&pageSize={size}"), None).await;
            assert_eq!(reply.data()["total"], 6);
            assert_eq!(reply.data()["totalPages"], 6_u32.div_ceil(size));
            seen.extend(keys(reply.data()).into_iter().map(ToOwned::to_owned));
        }
        assert_eq!(seen, all, "pageSize {size}");
    }
}

#[tokio::test]
async fn a_page_out_of_range_is_refused_after_the_decision() {
    let module = start().await;
    for (query, expected) in [
        ("page=0", vec!["page range"]),
        ("pageSize=101", vec!["pageSize range"]),
        ("page=x&pageSize=0", vec!["page range", "pageSize range"]),
    ] {
        let reply = module.ask("GET", &format!("/channels?{query}"), None).await;
        assert_eq!(reply.wrong_fields(), expected, "{query}");
    }
    module.hold(&[]);
    let reply = module.ask("GET", "/channels?page=0", None).await;
    assert_eq!((reply.status, reply.code()), (403, "AUTHORIZATION_DENIED"));
}

#[tokio::test]
async fn reading_writes_nothing() {
    let module = start().await;
    put(&module, module.company, "hook", "webhook", Some("https://example.test/x")).await;
    let before = module.contents().await;
    module.ask("GET", "/channels", None).await;
    assert_eq!(module.contents().await, before);
}

#[tokio::test]
async fn a_channel_is_made_shown_and_deleted_and_its_key_is_free_again() {
    let module = start().await;
    let body = json!({ "key": "Ops", "label": "Operations", "kind": "email", "target": "ops@example.com" });
    let made = module.ask("POST", "/channels", Some(body.clone())).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let tail = format!("/channels/{}", id(&made));
    assert_eq!(module.ask("GET", &tail, None).await.data(), made.data());
    let taken =
        module.ask("POST", "/channels", Some(json!({ "key": "oPS", "label": "x", "kind": "in_app" }))).await;
    assert_eq!((taken.status, taken.code()), (409, "CHANNEL_KEY_TAKEN"), "whatever the case");
    let deleted = module.ask("DELETE", &tail, None).await;
    assert_eq!((deleted.status, deleted.data()), (200, made.data()));
    for method in ["GET", "DELETE"] {
        assert_eq!(module.ask(method, &tail, None).await.status, 404, "{method}");
    }
    assert_eq!(module.ask("POST", "/channels", Some(body)).await.status, 201);
    assert_eq!(actions(&module).await, ["channel.created", "channel.deleted", "channel.created"]);
    let audit = module.audit().await;
    assert_eq!(audit[0]["payload"], json!({ "key": "Ops", "label": "Operations", "kind": "email" }));
    assert!(!format!("{audit:?}").contains("ops@example.com"), "a target is never audited");
}

#[tokio::test]
async fn a_target_is_what_the_kind_asks_for() {
    let module = start().await;
    for (kind, target, expected) in [
        ("in_app", None, ""),
        ("email", None, ""),
        ("email", Some("a@example.com"), ""),
        ("webhook", Some("https://hooks.example.com/x?y=1"), ""),
        ("in_app", Some("a@example.com"), "TARGET_NOT_ALLOWED"),
        ("webhook", None, "TARGET_REQUIRED"),
        ("email", Some("not an address"), "TARGET_INVALID"),
        ("email", Some("a@example.com, b@example.com"), "TARGET_INVALID"),
        ("webhook", Some("http://hooks.example.com/"), "TARGET_INVALID"),
        ("webhook", Some("https://me@hooks.example.com/"), "TARGET_INVALID"),
        ("webhook", Some("https://hooks.example.com/#x"), "TARGET_INVALID"),
        ("webhook", Some("https://10.0.0.1/"), "TARGET_INVALID"),
        ("webhook", Some("hooks.example.com"), "TARGET_INVALID"),
    ] {
        let key = format!("k{}", Uuid::now_v7().simple());
        let body = json!({ "key": key, "label": "x", "kind": kind, "target": target });
        let reply = module.ask("POST", "/channels", Some(body)).await;
        let status = if expected.is_empty() { 201 } else { 422 };
        assert_eq!((reply.status, reason(&reply)), (status, expected), "{kind} {target:?}");
    }
}

#[tokio::test]
async fn limits_of_a_channel_hold_at_and_one_past() {
    let module = start().await;
    let url = |length: usize| format!("https://hooks.example.com/{}", "a".repeat(length - 26));
    let mail = |length: usize| format!("{}@{}.example.com", "a".repeat(64), "b".repeat(length - 77));
    let ask = async |change: Value| {
        let mut body =
            json!({ "key": format!("k{}", Uuid::now_v7().simple()), "label": "x", "kind": "in_app" });
        let members = body.as_object_mut().expect("an object");
        members.extend(change.as_object().expect("an object").clone());
        module.ask("POST", "/channels", Some(body)).await
    };
    for good in [
        json!({ "key": format!("a{}", "-".repeat(63)) }),
        json!({ "key": "0._-Z" }),
        json!({ "label": "ä".repeat(100) }),
        json!({ "kind": "webhook", "target": url(2048) }),
    ] {
        let reply = ask(good.clone()).await;
        assert_eq!(reply.status, 201, "{good}: {}", reply.text);
    }
    assert_eq!(ask(json!({ "kind": "email", "target": mail(255) })).await.wrong_fields(), ["target length"]);
    for (bad, wrong) in [
        (json!({ "key": "a".repeat(65) }), "key length"),
        (json!({ "key": "" }), "key length"),
        (json!({ "key": "-a" }), "key pattern"),
        (json!({ "key": "a b" }), "key pattern"),
        (json!({ "key": "ä" }), "key pattern"),
        (json!({ "label": "x".repeat(101) }), "label length"),
        (json!({ "label": " " }), "label blank"),
        (json!({ "label": "a\u{7}" }), "label control"),
        (json!({ "kind": "sms" }), "kind enum"),
        (json!({ "kind": "webhook", "target": url(2049) }), "target length"),
        (json!({ "kind": "webhook", "target": 7 }), "target type"),
        (json!({ "kind": "webhook", "target": "https://a.example/\r\nx" }), "target control"),
    ] {
        assert_eq!(ask(bad.clone()).await.wrong_fields(), [wrong], "{bad}");
    }
    let nothing = module.ask("POST", "/channels", Some(json!({}))).await;
    assert_eq!(nothing.wrong_fields(), ["key required", "label required", "kind required"]);
}

#[tokio::test]
async fn a_deleted_channel_takes_waiting_deliveries_with_it_and_its_messages_stay() {
    let (module, receiver) = start_with_receiver().await;
    receiver.answer("POST", "/down", 500, Value::Null);
    let hook = webhook(&module, "hook", &receiver, "/down").await;
    let other = channel(&module, "other", "in_app", None).await;
    // The job must not be claimed while the test looks at it.
    module
        .execute(format!(
            "INSERT INTO notification.messages(id, company_id, channel_id, subject_line, body, created_by) \
             VALUES ('{hook}', '{0}', '{hook}', 's', 'b', 'x'); \
             INSERT INTO notification.delivery_jobs(id, company_id, message_id, channel_id, kind, target, payload, next_attempt_at) \
             VALUES ('{hook}', '{0}', '{hook}', '{hook}', 'webhook', 'https://x.example', '{{}}', now() + interval '1 h')",
            module.company
        ))
        .await;
    let deleted = module.ask("DELETE", &format!("/channels/{hook}"), None).await;
    assert_eq!(deleted.status, 200, "{}", deleted.text);
    let jobs = crate::support::jobs(&module).await;
    assert_eq!((&jobs[0]["state"], &jobs[0]["class"]), (&json!("dead"), &json!("channel_deleted")));
    assert!(crate::support::attempts(&module).await.is_empty(), "given up without an attempt");
    assert_eq!(crate::support::counted(&module, "webhook", "dead").await, 0);
    let refused = module.ask("POST", "/messages", Some(crate::support::text_of(&hook))).await;
    assert_eq!((refused.status, reason(&refused)), (422, "CHANNEL_UNKNOWN"));
    assert_eq!(module.ask("GET", &format!("/messages/{hook}"), None).await.status, 200, "messages are kept");
    assert_eq!(module.ask("GET", &format!("/channels/{other}"), None).await.status, 200, "control");
}
