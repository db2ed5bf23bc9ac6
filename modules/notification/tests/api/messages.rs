//! Publishing, fan-out, and who sees which messages.

use serde_json::{Value, json};
use testkit::ModuleApi;
use uuid::Uuid;

use crate::start;
use crate::support::{
    actions, be_member, channel, id, jobs, message, reason, start_with_receiver, text_of, webhook,
};

#[tokio::test]
async fn a_message_has_every_documented_member_and_is_shown_again() {
    let module = start().await;
    let news = channel(&module, "news", "in_app", None).await;
    let made = module.ask("POST", "/messages", Some(text_of(&news))).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let expected = json!({ "id": id(&made), "companyId": module.company, "channelId": news, "subjectLine": "Release 1.4",
        "body": "It is out.", "createdBy": "alice-subject", "createdAt": made.data()["createdAt"], "readAt": null });
    assert_eq!(made.data(), &expected);
    assert_eq!(module.ask("GET", &format!("/messages/{}", id(&made)), None).await.data(), &expected);
    assert_eq!(module.ask("GET", "/messages", None).await.data()["items"], json!([expected]));
    assert_eq!(actions(&module).await, ["channel.created", "message.created"]);
    assert_eq!(
        module.audit().await[1]["payload"],
        json!({ "channelId": news, "deliveries": 0 }),
        "never what it says"
    );
}

#[tokio::test]
async fn limits_of_a_message_hold_at_and_one_past() {
    let module = start().await;
    let news = channel(&module, "news", "in_app", None).await;
    let ask = async |change: Value| {
        let mut body = text_of(&news);
        body.as_object_mut().expect("an object").extend(change.as_object().expect("an object").clone());
        module.ask("POST", "/messages", Some(body)).await
    };
    for good in [
        json!({ "subjectLine": "ä".repeat(200), "body": "😀".repeat(10_000) }),
        json!({ "subjectLine": "x", "body": "\r\n\t\u{7} x" }),
    ] {
        assert_eq!(ask(good).await.status, 201);
    }
    for (bad, wrong) in [
        (json!({ "subjectLine": "x".repeat(201) }), "subjectLine length"),
        (json!({ "subjectLine": "" }), "subjectLine length"),
        (json!({ "subjectLine": " " }), "subjectLine blank"),
        (json!({ "subjectLine": "a\r\nBcc: b@example.com" }), "subjectLine control"),
        (json!({ "subjectLine": "a\u{0}" }), "subjectLine control"),
        (json!({ "subjectLine": "a\u{85}b" }), "subjectLine control"),
        (json!({ "subjectLine": "a\u{2028}b" }), "subjectLine control"),
        (json!({ "body": "x".repeat(10_001) }), "body length"),
        (json!({ "body": " \n" }), "body blank"),
        (json!({ "channelId": "news" }), "channelId uuid"),
    ] {
        let wrong_found = ask(bad.clone()).await.wrong_fields();
        assert!(
            wrong_found.iter().all(|found| found == wrong) && !wrong_found.is_empty(),
            "{bad}: {wrong_found:?}"
        );
    }
    let unknown = ask(json!({ "channelId": Uuid::now_v7() })).await;
    assert_eq!((unknown.status, reason(&unknown)), (422, "CHANNEL_UNKNOWN"));
    for odd in ('\u{1}'..='\u{a0}').chain(['\u{200e}', '\u{2029}', '\u{feff}', '\u{fffe}', '\u{e0001}']) {
        let status = ask(json!({ "subjectLine": format!("a{odd}b") })).await.status;
        assert!(status == 201 || status == 400, "{odd:?}: database and program must agree, got {status}");
    }
}

#[tokio::test]
async fn one_mail_goes_to_each_address_once_and_none_without_an_address() {
    let module = start().await;
    let mail = channel(&module, "mail", "email", Some("Team@example.com")).await;
    let app = channel(&module, "app", "in_app", None).await;
    for (channel, email) in
        [(&mail, "team@EXAMPLE.com"), (&mail, "bob@example.com"), (&app, "bob@example.com")]
    {
        be_member(&module);
        let tail = format!("/channels/{channel}/subscription");
        assert_eq!(module.ask("PUT", &tail, Some(json!({ "email": email }))).await.status, 200);
    }
    let left = be_member(&module);
    for email in [json!("gone@example.com"), Value::Null] {
        module.ask("PUT", &format!("/channels/{mail}/subscription"), Some(json!({ "email": email }))).await;
    }
    let empty = channel(&module, "empty", "email", None).await;
    for channel in [&mail, &app, &empty] {
        message(&module, channel).await;
    }
    let made: Vec<Value> =
        jobs(&module).await.iter().map(|job| json!([job["channel"], job["kind"], job["target"]])).collect();
    let expected = [
        json!([mail, "email", "bob@example.com"]),
        json!([mail, "email", "team@example.com"]),
        json!([app, "email", "bob@example.com"]),
    ];
    assert_eq!(made.len(), 3, "{made:?} {left}");
    assert!(expected.iter().all(|job| made.contains(job)), "{made:?}");
}

#[tokio::test]
async fn a_thousand_recipients_are_the_most() {
    let module = start().await;
    let mail = channel(&module, "mail", "email", Some("target@example.com")).await;
    let subscribe = async |from: u32, to: u32| {
        module
            .execute(format!(
                "INSERT INTO notification.subscriptions(company_id, channel_id, member_id, email) \
                 SELECT '{}', '{mail}', gen_random_uuid(), 'n' || n || '@example.com' FROM generate_series({from}, {to}) n",
                module.company
            ))
            .await;
    };
    subscribe(1, 999).await;
    message(&module, &mail).await;
    assert_eq!(jobs(&module).await.len(), 1_000);
    subscribe(1_000, 1_000).await;
    let refused = module.ask("POST", "/messages", Some(text_of(&mail))).await;
    assert_eq!((refused.status, reason(&refused)), (422, "TOO_MANY_RECIPIENTS"));
    let kept =
        (jobs(&module).await.len(), module.ask("GET", "/messages", None).await.data()["total"].clone());
    assert_eq!(kept, (1_000, json!(1)), "nothing of it was kept");
}

#[tokio::test]
async fn property_8_the_same_key_publishes_one_message_with_one_set_of_jobs() {
    let (module, receiver) = start_with_receiver().await;
    receiver.answer("POST", "/hook", 200, Value::Null);
    let hook = webhook(&module, "hook", &receiver, "/hook").await;
    let publish = async |key: &str, body: Value| {
        let call = module.call("POST", &module.path(module.company, "/messages"));
        module.send("POST", "/messages", call.header("idempotency-key", key).json(body)).await
    };
    let first = publish("k1", text_of(&hook)).await;
    assert_eq!(first.status, 201, "{}", first.text);
    let again = publish("k1", text_of(&hook)).await;
    assert_eq!(
        (again.status, again.header("idempotency-replayed"), again.data()),
        (201, "true", first.data())
    );
    module.ask("POST", &format!("/messages/{}/read", id(&first)), None).await;
    assert_eq!(publish("k1", text_of(&hook)).await.data()["readAt"], Value::Null, "as first answered");
    let mut other = text_of(&hook);
    other["body"] = json!("Another.");
    let reused = publish("k1", other).await;
    assert_eq!((reused.status, reused.code()), (422, "IDEMPOTENCY_KEY_REUSED"));
    assert_eq!(jobs(&module).await.len(), 1);
    assert_eq!(actions(&module).await, ["channel.created", "message.created", "message.read"]);
    assert_eq!(publish("k2", text_of(&hook)).await.status, 201, "control: another key");
    assert_eq!(jobs(&module).await.len(), 2);
}

async fn listed(module: &ModuleApi) -> Vec<String> {
    let page = module.ask("GET", "/messages?pageSize=100", None).await;
    let items = page.data()["items"].as_array().expect("a page");
    items.iter().map(|item| item["id"].as_str().expect("an id").to_owned()).collect()
}

#[tokio::test]
async fn a_member_sees_in_app_and_subscribed_channels_and_an_editor_sees_all() {
    let module = start().await;
    let app = channel(&module, "app", "in_app", None).await;
    let mail = channel(&module, "mail", "email", None).await;
    let hook = channel(&module, "hook", "webhook", Some("https://hooks.example.com/")).await;
    let (in_app, by_mail, by_hook) =
        (message(&module, &app).await, message(&module, &mail).await, message(&module, &hook).await);
    assert_eq!(listed(&module).await, [by_hook.as_str(), &by_mail, &in_app], "an editor, youngest first");
    module.hold(&["member"]);
    be_member(&module);
    assert_eq!(listed(&module).await, [in_app.as_str()]);
    for hidden in [&by_mail, &by_hook] {
        for (method, tail) in [("GET", ""), ("POST", "/read")] {
            let reply = module.ask(method, &format!("/messages/{hidden}{tail}"), None).await;
            assert_eq!((reply.status, reason(&reply)), (403, "NOT_SUBSCRIBED"), "{method} {tail}");
        }
    }
    let tail = format!("/channels/{mail}/subscription");
    module.ask("PUT", &tail, Some(json!({ "email": "a@example.com" }))).await;
    assert_eq!(listed(&module).await, [by_mail.as_str(), &in_app]);
    assert_eq!(module.ask("GET", &format!("/messages/{by_mail}"), None).await.status, 200);
    module.ask("PUT", &tail, Some(json!({ "email": null }))).await;
    assert_eq!(listed(&module).await, [in_app.as_str()], "a subscription that ended shows nothing");
    assert_eq!(module.ask("GET", &format!("/messages/{}", Uuid::now_v7()), None).await.status, 404);
}

#[tokio::test]
async fn pages_put_together_are_the_whole_list() {
    let module = start().await;
    let app = channel(&module, "app", "in_app", None).await;
    let mut all = Vec::new();
    for _ in 0..5 {
        all.insert(0, message(&module, &app).await);
    }
    for size in [1, 2, 5] {
        let mut seen = Vec::new();
        for page in 1..=6 {
            let reply = module.ask("GET", &format!("/messages?page={page}&pageSize={size}"), None).await;
            assert_eq!(reply.data()["total"], 5);
            let items = reply.data()["items"].as_array().expect("a page").clone();
            seen.extend(items.iter().map(|item| item["id"].as_str().expect("an id").to_owned()));
        }
        assert_eq!(seen, all, "pageSize {size}");
    }
}
