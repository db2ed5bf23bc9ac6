//! Rows of another company are unknown, whoever asks.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::start;
use crate::support::{be_member, channel, dispatch, jobs, message};

#[tokio::test]
async fn another_companys_ids_are_unknown_to_every_operation() {
    let module = start().await;
    be_member(&module);
    let mine = channel(&module, "mine", "webhook", Some("https://hooks.example.com/")).await;
    let sent = message(&module, &mine).await;
    let job = jobs(&module).await[0]["id"].as_str().expect("an id").to_owned();
    let other = Uuid::now_v7();
    let since = "2000-01-01T00:00:00Z";
    let before = module.contents().await;
    for (method, tail, body) in [
        ("GET", format!("/channels/{mine}"), Value::Null),
        ("PUT", format!("/channels/{mine}/subscription"), json!({ "email": "a@example.com" })),
        ("GET", format!("/channels/{mine}/subscription"), Value::Null),
        ("GET", format!("/messages/{sent}"), Value::Null),
        ("POST", format!("/messages/{sent}/read"), Value::Null),
        ("DELETE", format!("/channels/{mine}"), Value::Null),
        ("GET", format!("/channels/{mine}/signing-secret"), Value::Null),
        ("POST", format!("/channels/{mine}/signing-secret/rotate"), Value::Null),
        ("GET", format!("/channels/{mine}/health"), Value::Null),
        ("POST", format!("/channels/{mine}/enable"), Value::Null),
        ("GET", format!("/deliveries/{job}"), Value::Null),
        ("POST", format!("/deliveries/{job}/replay"), Value::Null),
        ("POST", "/deliveries/replay".to_owned(), json!({ "channelId": mine, "since": since })),
    ] {
        let context = format!("/internal/org/companies/{other}/members/by-kcsub/alice-subject/context");
        module.org.answer("GET", &context, 200, json!({ "data": { "isMember": true, "isActive": true,
            "memberId": Uuid::now_v7(), "displayName": "A", "email": null, "positionIds": [], "groupIds": [] } }));
        let call = module.call(method, &module.path(other, &tail));
        let call = if body.is_null() { call } else { call.json(body.clone()) };
        let theirs = module.send(method, &tail, call).await;
        assert_eq!((theirs.status, theirs.code()), (404, "NOT_FOUND"), "{method} {tail}");
    }
    for tail in ["/channels", "/messages", "/deliveries"] {
        let call = module.call("GET", &module.path(other, tail));
        assert_eq!(module.send("GET", tail, call).await.data()["total"], 0, "{tail}");
    }
    let text = json!({ "channelId": mine, "subjectLine": "s", "body": "b" });
    let call = module.call("POST", &module.path(other, "/messages")).json(text);
    assert_eq!(module.send("POST", "/messages", call).await.status, 422);
    let after = module.contents().await;
    let without_attempts = |rows: &[Value]| rows.iter().filter(|row| row.to_string().contains(&sent)).count();
    assert_eq!(without_attempts(&before), without_attempts(&after));
}

#[tokio::test]
async fn property_11_a_dispatch_touches_no_other_companys_deliveries() {
    let module = start().await;
    let mine = channel(&module, "mine", "email", Some("a@example.com")).await;
    message(&module, &mine).await;
    crate::support::attempted(&module, 1).await;
    let call = module.call("POST", &module.path(Uuid::now_v7(), "/dispatch"));
    let theirs = module.send("POST", "/dispatch", call).await;
    assert_eq!(theirs.data(), &json!({ "sent": 0, "skipped": 0 }));
    assert!(jobs(&module).await[0]["wait"].as_f64() > Some(0.0), "it still waits");
    assert_eq!(dispatch(&module).await, (1, 0), "control: one's own");
}
