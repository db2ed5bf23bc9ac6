//! Deliveries wait while their company does not use the module.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{ModuleApi, Stub};
use uuid::Uuid;

use crate::start_with;
use crate::support::{
    LOCAL, attempts, channel, counted, deliver_to_all, dispatch, jobs, message, settled, start_with_receiver,
    until, webhook, webhook_of,
};

/// How long a test waits for the module to ask again.
const PATIENCE: Duration = Duration::from_mins(1);

/// Has authz answer whether the module is in use in this company.
fn answer(module: &ModuleApi, status: u16, in_use: bool) {
    let path = question(module);
    module.authz.answer("GET", &path, status, json!({ "data": { "inUse": in_use } }));
}

fn question(module: &ModuleApi) -> String {
    format!("/internal/authz/companies/{}/modules/notification", module.company)
}

/// Dispatches until every delivery of the company is settled: an answer is used for some seconds.
async fn dispatched(module: &ModuleApi) -> Vec<Value> {
    let (start, mut turn) = (Instant::now(), tokio::time::interval(Duration::from_millis(200)));
    loop {
        turn.tick().await;
        dispatch(module).await;
        let found = jobs(module).await;
        if found.iter().all(|job| job["state"] != "pending") {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "{found:#?}");
    }
}

#[tokio::test]
async fn deliveries_of_a_company_that_does_not_use_the_module_wait_and_keep_their_attempts() {
    let (module, receiver) = start_with_receiver().await;
    receiver.answer("POST", "/hook", 204, Value::Null);
    receiver.answer("POST", "/other", 204, Value::Null);
    let hook = webhook(&module, "hook", &receiver, "/hook").await;
    let team = channel(&module, "team", "email", Some("team@example.com")).await;
    let other = webhook_of(&module, Uuid::now_v7(), &receiver, "/other").await;
    answer(&module, 200, false);
    deliver_to_all(&module).await;
    let is_put_off =
        |job: &Value| job["channel"] == other || (job["class"] == "not_in_use" && job["leased"] == false);
    let done = |job: &Value| job["channel"] != other || job["state"] == "done";
    let found = until(&module, |jobs| jobs.iter().all(|job| is_put_off(job) && done(job))).await;
    for job in found.iter().filter(|job| job["channel"] == hook || job["channel"] == team) {
        assert_eq!((&job["state"], &job["attempts"]), (&json!("pending"), &json!(0)), "{job}");
        let wait = job["wait"].as_f64().expect("seconds");
        assert!((200.0..=300.0).contains(&wait), "{wait}");
    }
    assert_eq!(receiver.requests().len(), 1, "only the other company's");
    assert_eq!(attempts(&module).await.len(), 1, "nothing was attempted");
    assert_eq!(counted(&module, "webhook", "retry").await, 0);
    module.execute(format!("DELETE FROM notification.delivery_jobs WHERE channel_id = '{team}'")).await;
    answer(&module, 200, true);
    dispatch(&module).await;
    let ended = |job: &Value| job["state"] != "pending" || job["wait"].as_f64() > Some(100.0);
    let found = until(&module, |jobs| jobs.iter().all(ended)).await;
    assert!(found.iter().all(|job| job["state"] == "done" && job["attempts"] == 1), "{found:?}");
}

#[tokio::test]
async fn deliveries_wait_while_authz_cannot_say_whether_the_module_is_in_use() {
    let (module, receiver) = start_with_receiver().await;
    receiver.answer("POST", "/hook", 204, Value::Null);
    let hook = webhook(&module, "hook", &receiver, "/hook").await;
    answer(&module, 503, true);
    message(&module, &hook).await;
    let put_off =
        |jobs: &[Value]| jobs.iter().all(|job| job["class"] == "authz_unavailable" && job["leased"] == false);
    let found = until(&module, put_off).await;
    assert_eq!((&found[0]["state"], &found[0]["attempts"]), (&json!("pending"), &json!(0)));
    assert!(found[0]["wait"].as_f64() <= Some(30.0), "{found:?}");
    assert!(receiver.requests().is_empty() && attempts(&module).await.is_empty());
    answer(&module, 200, true);
    assert_eq!(dispatched(&module).await[0]["state"], "done");
}

#[tokio::test]
async fn many_deliveries_ask_once_whether_the_module_is_in_use() {
    let begun = Instant::now();
    let (module, receiver) = (start_with(LOCAL).await, Stub::start().await);
    receiver.answer("POST", "/hook", 204, Value::Null);
    for number in 0..20 {
        webhook(&module, &format!("hook-{number}"), &receiver, "/hook").await;
    }
    deliver_to_all(&module).await;
    settled(&module).await;
    let path = question(&module);
    let asked = module.authz.requests().iter().filter(|request| request.path == path).count();
    let most = 1 + begun.elapsed().as_secs() / 5;
    assert!(
        asked > 0 && u64::try_from(asked).is_ok_and(|asked| asked <= most),
        "{asked} questions, not {most}"
    );
}
