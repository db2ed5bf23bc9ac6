//! Changes to very many pending deliveries: the request makes the first portion, and the worker the others.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{ModuleApi, Stub};
use uuid::Uuid;

use crate::support::{dispatch, start_with_receiver, until, webhook};

/// More than one portion, and less than two.
const MANY: usize = 1_200;

/// Two webhooks, and `MANY` pending deliveries of the first and ten of the second, all created at the same moment, due in an
/// hour, and with this reason to wait.
async fn backlog(class: &str) -> (ModuleApi, Stub, [String; 2]) {
    let (module, receiver) = start_with_receiver().await;
    receiver.answer("POST", "/hook", 200, Value::Null);
    let full = webhook(&module, "full", &receiver, "/hook").await;
    let other = webhook(&module, "other", &receiver, "/hook").await;
    for (channel, count) in [(&full, MANY), (&other, 10)] {
        module
            .execute(format!(
                "INSERT INTO notification.messages(id, company_id, channel_id, subject_line, body, created_by) \
                 VALUES ('{channel}', '{0}', '{channel}', 's', 'b', 'x'); \
                 INSERT INTO notification.delivery_jobs(id, company_id, message_id, channel_id, kind, target, payload, \
                   next_attempt_at, error_class, created_at) \
                 SELECT gen_random_uuid(), '{0}', '{channel}', '{channel}', 'webhook', '{1}/hook?' || n, '{{}}', \
                   now() + interval '1 h', NULLIF('{class}', ''), date_trunc('day', now()) \
                 FROM generate_series(1, {count}) AS n",
                module.company,
                receiver.url()
            ))
            .await;
    }
    (module, receiver, [full, other])
}

fn of<'a>(jobs: &'a [Value], channel: &'a str) -> impl Iterator<Item = &'a Value> {
    jobs.iter().filter(move |job| job["channel"] == channel)
}

/// Waits until the worker has made every portion.
async fn made(module: &ModuleApi) {
    let (start, mut turn) = (Instant::now(), tokio::time::interval(Duration::from_millis(20)));
    let left = "SELECT to_jsonb(change) FROM notification.backlog_changes";
    while !module.database.rows(left.to_owned()).await.is_empty() {
        turn.tick().await;
        assert!(start.elapsed() < Duration::from_secs(30), "the worker makes the other portions");
    }
}

/// The numbers of deliveries that these audit rows tell, in order.
async fn given_up(module: &ModuleApi) -> Vec<(String, u64)> {
    let rows = module.audit().await;
    let told = rows.iter().filter_map(|row| {
        let count = row["payload"]["deliveriesGivenUp"].as_u64()?;
        Some((row["action"].as_str().expect("a word").to_owned(), count))
    });
    told.collect()
}

#[tokio::test]
async fn a_deleted_channel_gives_up_very_many_deliveries_in_portions() {
    let (module, receiver, [full, other]) = backlog("").await;
    let deleted = module.ask("DELETE", &format!("/channels/{full}"), None).await;
    assert_eq!(deleted.status, 200, "{}", deleted.text);
    made(&module).await;
    let told = given_up(&module).await;
    assert_eq!(told[0].0, "channel.deleted");
    assert!((990..=1_000).contains(&told[0].1), "the request makes one portion: {told:?}");
    assert_eq!(told[1].0, "channel.deliveries_given_up");
    assert_eq!(told.iter().map(|(_, count)| count).sum::<u64>(), 1_200, "every one is told: {told:?}");
    let jobs = crate::support::jobs(&module).await;
    assert!(of(&jobs, &full).all(|job| job["state"] == "dead" && job["class"] == "channel_deleted"));
    assert_eq!(of(&jobs, &other).filter(|job| job["state"] == "pending").count(), 10, "control");
    assert!(receiver.requests().is_empty(), "none was attempted");
}

#[tokio::test]
async fn an_enabled_channel_delivers_very_many_deliveries_that_waited_for_it() {
    let (module, receiver, [full, other]) = backlog("channel_disabled").await;
    module.execute("UPDATE notification.channels SET disabled_reason = 'failing'".to_owned()).await;
    let enabled = module.ask("POST", &format!("/channels/{full}/enable"), None).await;
    assert_eq!(enabled.status, 200, "{}", enabled.text);
    let jobs = until(&module, |jobs| of(jobs, &full).all(|job| job["state"] == "done")).await;
    assert_eq!(receiver.requests().len(), MANY);
    let waits = |job: &&Value| job["state"] == "pending" && job["class"] == "channel_disabled";
    assert_eq!(of(&jobs, &other).filter(waits).count(), 10, "another channel's still wait");
    made(&module).await;
}

#[tokio::test]
async fn a_dispatch_makes_very_many_deliveries_due() {
    let (module, receiver, [full, other]) = backlog("").await;
    module
        .execute(format!("UPDATE notification.channels SET disabled_reason = 'failing' WHERE id = '{other}'"))
        .await;
    assert_eq!(dispatch(&module).await, (1_200, 10), "sent and skipped");
    let jobs = until(&module, |jobs| of(jobs, &full).all(|job| job["state"] == "done")).await;
    assert_eq!(receiver.requests().len(), MANY);
    let waits = |job: &&Value| job["state"] == "pending" && job["attempts"] == json!(0);
    assert_eq!(of(&jobs, &other).filter(waits).count(), 10, "those of a disabled channel still wait");
    made(&module).await;
}

#[tokio::test]
async fn the_same_change_asked_for_twice_at_once_is_one_change() {
    let (module, receiver, _) = backlog("").await;
    // Another worker's, so they stay pending.
    module.execute("UPDATE notification.delivery_jobs SET claim_group = 'elsewhere'".to_owned()).await;
    for _ in 0..5 {
        let later = "next_attempt_at = now() + interval '1 h', is_ready = false";
        module.execute(format!("UPDATE notification.delivery_jobs SET {later}")).await;
        let both = tokio::join!(dispatch(&module), dispatch(&module));
        assert_eq!(both, ((1_210, 0), (1_210, 0)));
        made(&module).await;
        let due = "SELECT to_jsonb(count(*)) FROM notification.delivery_jobs WHERE is_ready AND next_attempt_at <= now()";
        assert_eq!(module.database.rows(due.to_owned()).await, [json!(1_210)]);
    }
    assert!(receiver.requests().is_empty(), "control: none was delivered");
}

#[tokio::test]
async fn a_change_that_cannot_be_made_holds_up_no_other() {
    let (module, _, [full, other]) = backlog("").await;
    module
        .execute(format!(
            "ALTER TABLE notification.delivery_jobs ADD CHECK (channel_id <> '{other}' OR state <> 'dead'); \
             INSERT INTO notification.backlog_changes(company_id, change, scope, after_created_at, after_id, waits_since) \
             VALUES ('{}', 'give_up', '{other}', to_timestamp(0), '{}', to_timestamp(0))",
            module.company,
            Uuid::nil()
        ))
        .await;
    let deleted = module.ask("DELETE", &format!("/channels/{full}"), None).await;
    assert_eq!(deleted.status, 200, "{}", deleted.text);
    let jobs = until(&module, |jobs| of(jobs, &full).all(|job| job["state"] == "dead")).await;
    assert_eq!(of(&jobs, &other).filter(|job| job["state"] == "pending").count(), 10, "control");
}
