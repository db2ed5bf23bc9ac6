//! The list of channels, and who is shown where they lead.

use serde_json::{Value, json};
use testkit::ModuleApi;
use testkit::module::{CAN, gates};
use uuid::Uuid;

use crate::start;

const MEMBER: &[&str] = &["member"];
const MEMBER_AND_ADMIN: &[&str] = &["member", "admin"];
const MADE: &str = "2026-11-22 09:30:00.123456+00";

/// Puts a channel into a company, as creating one will.
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
