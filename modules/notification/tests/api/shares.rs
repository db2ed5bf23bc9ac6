//! The share of one company in the room for deliveries that wait for their receivers.

use serde_json::Value;
use testkit::Stub;
use uuid::Uuid;

use crate::start_with;
use crate::support::{deliver_to_all, received, until, webhook, webhook_of};

/// One place, beside which 128 deliveries may wait, and one attempt, so that none is cut off and begins again.
const NARROW: &[(&str, &str)] = &[
    ("PLATFORM_NOTIFICATION_WEBHOOK_ALLOW_HTTP", "true"),
    ("PLATFORM_NOTIFICATION_WEBHOOK_ALLOW_CIDRS", "127.0.0.0/8"),
    ("PLATFORM_NOTIFICATION_CONCURRENCY", "1"),
    ("PLATFORM_NOTIFICATION_RETRY_SECONDS", "0"),
];
const CHANNELS: usize = 300;
/// The share of a company that is alone: as many wait as half of the room that they leave.
const SHARE: usize = 43;

#[tokio::test]
async fn property_10_a_company_with_hundreds_of_hanging_receivers_leaves_room_for_another_company() {
    let (module, receiver) = (start_with(NARROW).await, Stub::start().await);
    receiver.hang("POST", "/hang");
    receiver.answer("POST", "/hook", 204, Value::Null);
    for number in 0..CHANNELS {
        webhook(&module, &format!("hang-{number}"), &receiver, "/hang").await;
    }
    // Claims go through the channels by their ids, so this one comes last.
    let other = webhook_of(&module, Uuid::now_v7(), &receiver, "/hook").await;
    deliver_to_all(&module).await;
    received(&receiver, SHARE + 1).await;
    until(&module, |jobs| jobs.iter().any(|job| job["channel"] == other && job["state"] == "done")).await;
    let requests = receiver.requests();
    let hanging = requests.iter().filter(|request| request.path == "/hang").count();
    assert_eq!(
        (hanging, requests.len()),
        (SHARE, SHARE + 1),
        "and the rest of that company's deliveries wait"
    );
}
