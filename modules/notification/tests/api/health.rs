//! The health of channels: what disables a channel, and how it is enabled again.

use serde_json::{Value, json};
use testkit::{ModuleApi, Stub};
use uuid::Uuid;

use crate::start_with;
use crate::support::{
    actions, attempts, channel, jobs, message, received, settled, start_with_receiver, until, webhook,
};

async fn health(module: &ModuleApi, channel: &str) -> Value {
    let reply = module.ask("GET", &format!("/channels/{channel}/health"), None).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.data().clone()
}

/// A channel with this many dead deliveries in a row since this time.
async fn failing(module: &ModuleApi, receiver: &Stub, key: &str, dead: u32, since: &str) -> String {
    let hook = webhook(module, key, receiver, "/hook").await;
    module
        .execute(format!(
            "INSERT INTO notification.channel_health(channel_id, consecutive_dead, dead_since) \
             VALUES ('{hook}', {dead}, now() - interval '{since}')"
        ))
        .await;
    message(module, &hook).await;
    settled(module).await;
    hook
}

const DISABLE: &str = "UPDATE notification.channels SET disabled_reason = 'failing'";

/// A delivery as a dispatch commits it while the channel is enabled.
async fn insert_delivery(module: &ModuleApi, hook: &str, receiver: &Stub) {
    module
        .execute(format!(
            "WITH made AS (
               INSERT INTO notification.messages(id, company_id, channel_id, subject_line, body, created_by)
               VALUES (gen_random_uuid(), '{0}', '{hook}', 's', 'b', 'x') RETURNING id)
             INSERT INTO notification.delivery_jobs(id, company_id, message_id, channel_id, kind, target, payload)
             SELECT gen_random_uuid(), '{0}', id, '{hook}', 'webhook', '{1}/hook', '{{}}' FROM made",
            module.company,
            receiver.url()
        ))
        .await;
}

#[tokio::test]
async fn twenty_dead_in_a_row_over_a_day_disable_a_channel_and_fewer_or_faster_ones_do_not() {
    let (module, receiver) = start_with_receiver().await;
    receiver.answer("POST", "/hook", 404, Value::Null);
    for (key, dead, since, reason) in [
        ("few", 18, "48 h", Value::Null),
        ("fast", 100, "23 h 59 min", Value::Null),
        ("failing", 19, "24 h", json!("failing")),
    ] {
        let hook = failing(&module, &receiver, key, dead, since).await;
        let found = health(&module, &hook).await;
        assert_eq!(found["disabledReason"], reason, "{key}");
        assert_eq!(found["consecutiveDead"], dead + 1, "{key}");
    }
}

#[tokio::test]
async fn what_dies_of_the_platforms_own_mail_server_says_nothing_of_a_channel() {
    let module = start_with(&[("PLATFORM_NOTIFICATION_RETRY_SECONDS", "0")]).await;
    let mail = channel(&module, "mail", "email", Some("team@example.com")).await;
    module
        .execute(format!(
            "INSERT INTO notification.channel_health(channel_id, consecutive_dead, dead_since) \
             VALUES ('{mail}', 19, now() - interval '48 h')"
        ))
        .await;
    message(&module, &mail).await;
    assert_eq!(settled(&module).await[0]["class"], "smtp_not_configured");
    let found = health(&module, &mail).await;
    assert_eq!((&found["disabledReason"], &found["consecutiveDead"]), (&Value::Null, &json!(19)));
}

#[tokio::test]
async fn a_success_begins_the_count_anew() {
    let (module, receiver) = start_with_receiver().await;
    receiver.answer("POST", "/hook", 200, Value::Null);
    let hook = failing(&module, &receiver, "hook", 30, "48 h").await;
    let found = health(&module, &hook).await;
    assert_eq!((&found["consecutiveDead"], &found["deadSince"]), (&json!(0), &Value::Null));
    assert!(found["lastSuccessAt"].is_string());
}

#[tokio::test]
async fn a_channel_that_is_enabled_again_delivers_what_comes_and_forgets_what_died() {
    let (module, receiver) = start_with_receiver().await;
    receiver.answer("POST", "/hook", 404, Value::Null);
    let hook = failing(&module, &receiver, "hook", 19, "24 h").await;
    message(&module, &hook).await;
    assert_eq!(jobs(&module).await.len(), 1, "disabled: no delivery");
    receiver.answer("POST", "/hook", 200, Value::Null);
    let enable = format!("/channels/{hook}/enable");
    for _ in 0..2 {
        let reply = module.ask("POST", &enable, None).await;
        assert_eq!((reply.status, &reply.data()["disabledReason"]), (200, &Value::Null), "{}", reply.text);
        assert_eq!(reply.data()["consecutiveDead"], 0);
    }
    message(&module, &hook).await;
    assert_eq!(settled(&module).await[1]["state"], "done");
    let enabled = actions(&module).await.into_iter().filter(|action| action == "channel.enabled").count();
    assert_eq!(enabled, 1, "what changes nothing is not audited");
    for tail in ["health", "enable"] {
        let method = if tail == "health" { "GET" } else { "POST" };
        assert_eq!(
            module.ask(method, &format!("/channels/{}/{tail}", Uuid::now_v7()), None).await.status,
            404
        );
    }
}

#[tokio::test]
async fn what_waits_for_a_disabled_channel_is_not_tried_and_is_delivered_when_it_is_enabled() {
    let (module, receiver) = start_with_receiver().await;
    receiver.answer("POST", "/hook", 200, Value::Null);
    let hook = webhook(&module, "hook", &receiver, "/hook").await;
    // Published while the channel was enabled; the worker claims it after it was disabled.
    module.execute(DISABLE.to_owned()).await;
    insert_delivery(&module, &hook, &receiver).await;
    let waits = until(&module, |jobs| jobs.iter().all(|job| job["class"] == "channel_disabled")).await;
    assert_eq!(
        (&waits[0]["state"], &waits[0]["attempts"]),
        (&json!("pending"), &json!(0)),
        "it does not count as an attempt"
    );
    assert!(attempts(&module).await.is_empty() && receiver.requests().is_empty());
    let reply = module.ask("POST", &format!("/channels/{hook}/enable"), None).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let done = settled(&module).await;
    assert_eq!(
        (&done[0]["state"], &done[0]["attempts"], &done[0]["class"]),
        (&json!("done"), &json!(1), &Value::Null)
    );
    assert_eq!(received(&receiver, 1).await.len(), 1);
}

#[tokio::test]
async fn a_channel_that_is_enabled_while_the_worker_postpones_its_delivery_gets_it_at_once() {
    let (module, receiver) = start_with_receiver().await;
    receiver.answer("POST", "/hook", 200, Value::Null);
    let hook = webhook(&module, "hook", &receiver, "/hook").await;
    module.execute(DISABLE.to_owned()).await;
    // Enabled, but not yet committed: the worker still finds the channel disabled.
    let owner = module.database.owner_pool();
    let mut enabling = owner.begin().await.expect("a transaction");
    let enable = "UPDATE notification.channels SET disabled_reason = NULL";
    sqlx::query(enable).execute(&mut *enabling).await.expect("enabled");
    insert_delivery(&module, &hook, &receiver).await;
    until(&module, |jobs| jobs[0]["leased"] == true || jobs[0]["class"] == "channel_disabled").await;
    enabling.commit().await.expect("committed");
    let done = settled(&module).await;
    assert_eq!((&done[0]["state"], &done[0]["attempts"]), (&json!("done"), &json!(1)));
    assert_eq!(received(&receiver, 1).await.len(), 1);
}
