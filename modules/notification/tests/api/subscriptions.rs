//! A member's own subscription.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::start;
use crate::support::{actions, be_member, channel, id, reason};

#[tokio::test]
async fn a_subscription_is_set_changed_and_ended_and_repeating_changes_nothing() {
    let module = start().await;
    let member = be_member(&module);
    let id = channel(&module, "news", "in_app", None).await;
    let tail = format!("/channels/{id}/subscription");
    let set = async |email: Value| {
        let reply = module.ask("PUT", &tail, Some(json!({ "email": email }))).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.data().clone()
    };
    let shown = async || module.ask("GET", &tail, None).await.data().clone();
    let none = shown().await;
    assert_eq!((&none["email"], &none["updatedAt"]), (&Value::Null, &Value::Null), "{none}");
    let first = set(json!("alice@example.com")).await;
    assert_eq!(shown().await, first);
    assert_eq!(
        (&first["companyId"], &first["channelId"], &first["memberId"], &first["email"]),
        (&json!(module.company), &json!(id), &json!(member), &json!("alice@example.com"))
    );
    assert_eq!(set(json!("alice@example.com")).await, first, "the same again changes nothing");
    assert_eq!(set(json!("Alice@example.com")).await["email"], "Alice@example.com");
    assert_eq!(set(Value::Null).await["email"], Value::Null);
    let ended = set(Value::Null).await;
    assert_eq!(shown().await, ended);
    let set = ["subscription.set"; 3];
    assert_eq!(actions(&module).await, [&["channel.created"], set.as_slice()].concat());
    assert!(!format!("{:?}", module.audit().await).contains("alice@"), "an address is never audited");
}

#[tokio::test]
async fn what_a_subscription_may_not_be() {
    let module = start().await;
    let id = channel(&module, "news", "email", None).await;
    let hook = channel(&module, "hook", "webhook", Some("https://hooks.example.com/")).await;
    let ask = async |channel: &str, body: Value| {
        module.ask("PUT", &format!("/channels/{channel}/subscription"), Some(body)).await
    };
    let good = json!({ "email": "a@example.com" });
    module.answer_context(
        200,
        json!({ "data": { "isMember": false, "isActive": false, "memberId": null,
        "displayName": null, "email": null, "positionIds": [], "groupIds": [] } }),
    );
    let outsider = ask(&id, good.clone()).await;
    assert_eq!((outsider.status, reason(&outsider)), (403, "COMPANY_MEMBERSHIP_REQUIRED"));
    be_member(&module);
    let refused = ask(&hook, good.clone()).await;
    assert_eq!((refused.status, reason(&refused)), (422, "SUBSCRIPTION_NOT_SUPPORTED"));
    assert_eq!(ask(&Uuid::now_v7().to_string(), good.clone()).await.status, 404);
    let show =
        async |channel: &str| module.ask("GET", &format!("/channels/{channel}/subscription"), None).await;
    let refused = show(&hook).await;
    assert_eq!((refused.status, reason(&refused)), (422, "SUBSCRIPTION_NOT_SUPPORTED"));
    assert_eq!(show(&Uuid::now_v7().to_string()).await.status, 404);
    for (body, wrong) in [
        (json!({}), "email required"),
        (json!({ "email": 7 }), "email type"),
        (json!({ "email": "" }), "email length"),
        (json!({ "email": "nobody" }), "email email"),
        (json!({ "email": "a@example.com\r\nBcc: b@example.com" }), "email control"),
        (json!({ "email": format!("{}@example.com", "a".repeat(243)) }), "email length"),
    ] {
        assert_eq!(ask(&id, body.clone()).await.wrong_fields(), [wrong], "{body}");
    }
    assert_eq!(ask(&id, good).await.status, 200, "control");
    let longest =
        format!("{}@{}.{}.{}.example", "a".repeat(64), "b".repeat(63), "c".repeat(63), "d".repeat(53));
    assert_eq!(longest.len(), 254);
    assert_eq!(ask(&id, json!({ "email": longest })).await.status, 200, "at the limit");
}

/// The member row was linked to another login, whose subscription this was, and then to the caller's.
#[tokio::test]
async fn the_subscription_of_another_login_is_not_the_callers() {
    let module = start().await;
    let mail = channel(&module, "mail", "email", None).await;
    let message = json!({ "channelId": mail, "subjectLine": "s", "body": "b" });
    let message = id(&module.ask("POST", "/messages", Some(message)).await);
    module.hold(&["member"]);
    be_member(&module);
    let tail = format!("/channels/{mail}/subscription");
    let subscribe = async || module.ask("PUT", &tail, Some(json!({ "email": "a@example.com" }))).await;
    let seen = async || {
        let listed = module.ask("GET", "/messages", None).await.data()["total"].clone();
        let unread = module.ask("GET", "/messages/unread-count", None).await.data()["count"].clone();
        let shown = module.ask("GET", &format!("/messages/{message}"), None).await.status;
        let email = module.ask("GET", &tail, None).await.data()["email"].clone();
        (listed, unread, shown, email)
    };
    let first = subscribe().await.data().clone();
    assert_eq!(seen().await, (json!(1), json!(1), 200, json!("a@example.com")), "control");
    let set = async |login: &str| {
        module.execute(format!("UPDATE notification.subscriptions SET kc_sub = {login}")).await;
    };
    set("NULL").await;
    assert_eq!(
        seen().await,
        (json!(1), json!(1), 200, json!("a@example.com")),
        "one that is older than the column"
    );
    set("'another-login'").await;
    assert_eq!(seen().await, (json!(0), json!(0), 403, Value::Null));
    let all = json!({ "before": "2999-01-01T00:00:00Z" });
    assert_eq!(module.ask("POST", "/messages/read-all", Some(all)).await.data()["marked"], 0);
    assert_ne!(subscribe().await.data()["updatedAt"], first["updatedAt"], "it is set anew");
    assert_eq!(seen().await, (json!(1), json!(1), 200, json!("a@example.com")));
}
