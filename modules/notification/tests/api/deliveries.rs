//! The log of deliveries, and replays.

use serde_json::{Value, json};
use testkit::ModuleApi;
use uuid::Uuid;

use crate::start;
use crate::support::{
    actions, be_member, channel, header, id, jobs, message, received, settled, start_with_receiver, together,
    webhook,
};

async fn list(module: &ModuleApi, query: &str) -> Vec<Value> {
    let reply = module.ask("GET", &format!("/deliveries{query}"), None).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.data()["items"].as_array().expect("a page").clone()
}

#[tokio::test]
async fn the_log_tells_of_every_delivery_and_attempt_and_of_no_address() {
    let (module, receiver) = start_with_receiver().await;
    receiver.answer("POST", "/hook", 404, Value::Null);
    let hook = webhook(&module, "hook", &receiver, "/hook").await;
    let sent = message(&module, &hook).await;
    let dead = settled(&module).await;
    let mail = channel(&module, "mail", "email", Some("alice@mail.example")).await;
    message(&module, &mail).await;
    settled(&module).await;
    let all = list(&module, "").await;
    assert_eq!(all.len(), 2);
    assert_eq!(
        (&all[0]["recipient"], &all[0]["errorClass"]),
        (&json!("mail.example"), &json!("smtp_not_configured"))
    );
    assert!(!module.ask("GET", "/deliveries", None).await.text.contains("alice"));
    assert_eq!(list(&module, "?state=dead").await, all);
    assert_eq!(list(&module, &format!("?channelId={mail}")).await, [all[0].clone()]);
    assert!(list(&module, &format!("?state=done&channelId={mail}")).await.is_empty());
    let shown =
        module.ask("GET", &format!("/deliveries/{}", dead[0]["id"].as_str().expect("an id")), None).await;
    let attempt = &shown.data()["attempts"][0];
    assert_eq!(
        (&attempt["attemptNo"], &attempt["outcome"], &attempt["statusCode"], &attempt["errorClass"]),
        (&json!(1), &json!("dead"), &json!(404), &json!("http_status"))
    );
    assert_eq!((&shown.data()["messageId"], &shown.data()["recipient"]), (&json!(sent), &json!("127.0.0.1")));
    assert_eq!(module.ask("GET", &format!("/deliveries/{}", Uuid::now_v7()), None).await.status, 404);
    let wrong = module.ask("GET", "/deliveries?state=lost&channelId=x", None).await;
    assert_eq!(wrong.wrong_fields(), ["state enum", "channelId uuid"]);
}

#[tokio::test]
async fn a_dead_delivery_is_replayed_once_with_an_id_of_its_own_and_the_same_bytes() {
    let (module, receiver) = start_with_receiver().await;
    receiver.answer("POST", "/hook", 404, Value::Null);
    let hook = webhook(&module, "hook", &receiver, "/hook").await;
    message(&module, &hook).await;
    let dead = settled(&module).await[0]["id"].as_str().expect("an id").to_owned();
    receiver.answer("POST", "/hook", 200, Value::Null);
    let replay = format!("/deliveries/{dead}/replay");
    let made = module.ask("POST", &replay, None).await;
    assert_eq!((made.status, &made.data()["replayOf"]), (201, &json!(dead)), "{}", made.text);
    settled(&module).await;
    let requests = received(&receiver, 2).await;
    assert_eq!(header(&requests[1], "webhook-id"), id(&made));
    assert_ne!(header(&requests[0], "webhook-id"), id(&made));
    assert_eq!(requests[0].raw, requests[1].raw);
    let again = module.ask("POST", &replay, None).await;
    assert_eq!((again.status, again.code()), (409, "DELIVERY_REPLAYED"));
    let done = module.ask("POST", &format!("/deliveries/{}/replay", id(&made)), None).await;
    assert_eq!((done.status, done.code()), (409, "DELIVERY_NOT_DEAD"));
    assert_eq!(module.ask("POST", &format!("/deliveries/{}/replay", Uuid::now_v7()), None).await.status, 404);
    assert!(actions(&module).await.contains(&"delivery.replayed".to_owned()));
}

#[tokio::test]
async fn of_replays_of_one_delivery_at_the_same_time_one_is_made() {
    let module = start().await;
    let mail = channel(&module, "mail", "email", Some("a@example.com")).await;
    let codes = async |asked: &[(String, Option<Value>)]| {
        let row = format!("notification.channels WHERE id = '{mail}'");
        let replies = together(&module, &row, asked).await;
        let mut codes: Vec<_> = replies.iter().map(|reply| (reply.status, reply.code().to_owned())).collect();
        codes.sort();
        (codes, replies)
    };
    bury(&module, &mail, 1).await;
    let dead = jobs(&module).await[0]["id"].as_str().expect("an id").to_owned();
    let one = (format!("/deliveries/{dead}/replay"), None);
    let (made, _) = codes(&vec![one.clone(); 4]).await;
    let replayed = (409, "DELIVERY_REPLAYED".to_owned());
    assert_eq!(made, [(201, String::new()), replayed.clone(), replayed.clone(), replayed.clone()]);

    // Concurrently with a replay of all dead deliveries of the channel.
    bury(&module, &mail, 1).await;
    let other =
        jobs(&module).await.into_iter().find(|job| job["state"] == "dead" && job["id"] != json!(dead));
    let other = other.expect("another dead one")["id"].as_str().expect("an id").to_owned();
    let one = (format!("/deliveries/{other}/replay"), None);
    let all = json!({ "channelId": mail, "since": "2000-01-01T00:00:00Z" });
    let all = ("/deliveries/replay".to_owned(), Some(all));
    let (mixed, replies) = codes(&[one.clone(), all.clone(), one, all]).await;
    let made = replies.iter().filter(|reply| reply.status == 201).count();
    let by_all: u64 = replies.iter().filter_map(|reply| reply.data()["replayed"].as_u64()).sum();
    let fine = mixed.iter().all(|code| *code == replayed || code.0 < 300);
    let made = u64::try_from(made).expect("a few");
    assert!(fine && made + by_all == 1, "{mixed:?}, {by_all}");
}

/// Inserts dead deliveries to the channel's own address, one message each.
async fn bury(module: &ModuleApi, channel: &str, count: u32) {
    module
        .execute(format!(
            "WITH made AS (INSERT INTO notification.messages(id, company_id, channel_id, subject_line, body, created_by) \
               SELECT gen_random_uuid(), '{0}', '{channel}', 's', 'b', 'x' FROM generate_series(1, {count}) RETURNING id) \
             INSERT INTO notification.delivery_jobs(id, company_id, message_id, channel_id, kind, target, payload, state, settled_at) \
             SELECT gen_random_uuid(), '{0}', id, '{channel}', 'email', 'a@example.com', \
               '{{\"subjectLine\":\"s\",\"body\":\"b\",\"createdAt\":0}}', 'dead', now() FROM made",
            module.company
        ))
        .await;
}

#[tokio::test]
async fn the_dead_of_a_channel_are_replayed_a_thousand_at_a_time_each_once() {
    let module = start().await;
    let mail = channel(&module, "mail", "email", Some("a@example.com")).await;
    let other = channel(&module, "other", "email", Some("a@example.com")).await;
    bury(&module, &mail, 1_001).await;
    bury(&module, &other, 1).await;
    let ask = async |since: &str| {
        let body = json!({ "channelId": mail, "since": since });
        let reply = module.ask("POST", "/deliveries/replay", Some(body)).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.data().clone()
    };
    assert_eq!(ask("2999-01-01T00:00:00Z").await, json!({ "replayed": 0, "hasMore": false }));
    assert_eq!(ask("2000-01-01T00:00:00Z").await, json!({ "replayed": 1_000, "hasMore": true }));
    assert_eq!(ask("2000-01-01T00:00:00Z").await, json!({ "replayed": 1, "hasMore": false }));
    assert_eq!(ask("2000-01-01T00:00:00Z").await["replayed"], 0);
    let replays: std::collections::HashSet<String> =
        list(&module, "?pageSize=100").await.iter().map(|item| item["replayOf"].to_string()).collect();
    assert!(replays.len() > 90, "each replays a different one");
}

#[tokio::test]
async fn nothing_is_replayed_to_a_channel_that_is_disabled_or_deleted() {
    let module = start().await;
    be_member(&module);
    let mail = channel(&module, "mail", "email", Some("a@example.com")).await;
    bury(&module, &mail, 1).await;
    let dead = jobs(&module).await[0]["id"].as_str().expect("an id").to_owned();
    let codes = async || {
        let one = module.ask("POST", &format!("/deliveries/{dead}/replay"), None).await;
        let body = json!({ "channelId": mail, "since": "2000-01-01T00:00:00Z" });
        let many = module.ask("POST", "/deliveries/replay", Some(body)).await;
        (one.code().to_owned(), many.code().to_owned())
    };
    let both = |code: &str| (code.to_owned(), code.to_owned());
    module.execute("UPDATE notification.channels SET disabled_reason = 'failing'".to_owned()).await;
    assert_eq!(codes().await, both("CHANNEL_DISABLED"));
    module.execute("UPDATE notification.channels SET deleted_at = now()".to_owned()).await;
    assert_eq!(codes().await, both("CHANNEL_DELETED"));
    let body = json!({ "channelId": Uuid::now_v7(), "since": "2000-01-01T00:00:00Z" });
    assert_eq!(module.ask("POST", "/deliveries/replay", Some(body)).await.status, 404);
}
