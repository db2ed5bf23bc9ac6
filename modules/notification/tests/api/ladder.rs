//! Attempts: how many, when, with what request, and how they end. No test waits for a step of the ladder.

use std::time::Duration;

use http::HeaderValue;
use serde_json::{Value, json};
use testkit::{ModuleApi, Stub};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::start_with;
use crate::support::{
    actions, attempted, attempts, counted, dispatch, header, jobs, message, received, settled,
    start_with_receiver, status, until, webhook,
};

/// The default ladder, with webhooks to this machine allowed.
const USUAL: &[(&str, &str)] = &[
    ("PLATFORM_NOTIFICATION_WEBHOOK_ALLOW_HTTP", "true"),
    ("PLATFORM_NOTIFICATION_WEBHOOK_ALLOW_CIDRS", "127.0.0.0/8"),
];
/// Seconds before each attempt of the default ladder.
const STEPS: [f64; 10] =
    [0.0, 5.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0];

async fn start_usual() -> (ModuleApi, Stub) {
    (start_with(USUAL).await, Stub::start().await)
}

#[tokio::test]
async fn property_1_a_receiver_that_is_down_for_a_while_gets_one_delivery_with_one_id_and_equal_bytes() {
    let (module, receiver) = start_usual().await;
    receiver.answer("POST", "/hook", 500, Value::Null);
    let hook = webhook(&module, "hook", &receiver, "/hook").await;
    let sent = message(&module, &hook).await;
    for attempt in 1..=3 {
        attempted(&module, attempt).await;
        if attempt == 3 {
            receiver.answer("POST", "/hook", 204, Value::Null);
        }
        assert_eq!(dispatch(&module).await, (1, 0), "the next step is not awaited");
    }
    let done = settled(&module).await;
    assert_eq!((done.len(), &done[0]["state"], &done[0]["attempts"]), (1, &json!("done"), &json!(4)));
    let requests = received(&receiver, 4).await;
    for request in &requests {
        assert_eq!(header(request, "x-platform-delivery-id"), done[0]["id"]);
        assert_eq!(header(request, "webhook-id"), done[0]["id"]);
        assert_eq!(request.raw, requests[0].raw, "byte for byte");
        assert_eq!(header(request, "content-type"), "application/json");
        assert!(header(request, "user-agent").starts_with("platform-notification/"));
    }
    assert_eq!(requests[0].body["type"], "notification.message.created");
    let data = &requests[0].body["data"];
    assert_eq!((&data["id"], &data["channelKey"]), (&json!(sent), &json!("hook")));
    assert_eq!(data.as_object().map(serde_json::Map::len), Some(8));
    assert!(!requests[0].raw.contains(&b'\n') && !requests[0].raw.windows(2).any(|pair| pair == b"\": "));
    let kept = attempts(&module).await;
    let outcomes: Vec<_> = kept.iter().map(|row| row["outcome"].clone()).collect();
    assert_eq!(outcomes, ["retry", "retry", "retry", "success"]);
    assert_eq!(counted(&module, "webhook", "retry").await, 3, "the metrics agree with the rows");
    assert_eq!(counted(&module, "webhook", "success").await, 1);
    assert_eq!(counted(&module, "webhook", "dead").await, 0);
}

#[tokio::test]
async fn property_2_ten_attempts_each_within_a_fifth_of_its_step_and_then_dead() {
    let (module, receiver) = start_usual().await;
    receiver.answer("POST", "/hook", 500, Value::Null);
    let hook = webhook(&module, "hook", &receiver, "/hook").await;
    message(&module, &hook).await;
    for attempt in 1..10_u8 {
        let found = attempted(&module, attempt.into()).await;
        let step = STEPS[usize::from(attempt)];
        // On a busy machine, this may run some time after the attempt was settled.
        let wait = found[0]["wait"].as_f64().expect("seconds");
        assert!((step * 0.8 - 5.0..=step * 1.2).contains(&wait), "attempt {attempt}: {wait} of {step}");
        dispatch(&module).await;
    }
    let dead = settled(&module).await;
    assert_eq!(
        (&dead[0]["state"], &dead[0]["attempts"], &dead[0]["status"], &dead[0]["class"]),
        (&json!("dead"), &json!(10), &json!(500), &json!("http_status"))
    );
    assert_eq!(receiver.requests().len(), 10);
    assert_eq!(
        (counted(&module, "webhook", "retry").await, counted(&module, "webhook", "dead").await),
        (9, 1)
    );
    assert_eq!(actions(&module).await.last().map(String::as_str), Some("delivery.dead"));
    let told = module.audit().await.pop().expect("a row");
    assert_eq!(
        (&told["actor"], &told["payload"]["reason"]),
        (&json!("system:delivery-worker"), &json!("http_status"))
    );
    assert_eq!(dispatch(&module).await, (0, 0), "dead is final");
}

#[tokio::test]
async fn property_2_what_a_repetition_cannot_mend_is_dead_at_once() {
    let (module, receiver) = start_usual().await;
    for (path, code) in [("/400", 400), ("/404", 404), ("/401", 401), ("/302", 302)] {
        receiver.respond_with("POST", path, move |_| {
            let mut answer = status(code);
            let elsewhere = HeaderValue::from_static("http://169.254.169.254/latest/meta-data");
            answer.headers_mut().insert("location", elsewhere);
            answer
        });
        let hook = webhook(&module, &path[1..], &receiver, path).await;
        message(&module, &hook).await;
    }
    let dead = settled(&module).await;
    assert!(dead.iter().all(|job| job["state"] == "dead" && job["attempts"] == 1), "{dead:?}");
    assert_eq!(receiver.requests().len(), 4, "a redirect is not followed");
    assert_eq!(counted(&module, "webhook", "dead").await, 4);
}

#[tokio::test]
async fn property_2_a_receiver_says_when_to_come_back() {
    let (module, receiver) = start_usual().await;
    for (path, code) in [("/429", 429), ("/503", 503), ("/500", 500)] {
        receiver.respond_with("POST", path, move |_| {
            let mut answer = status(code);
            answer.headers_mut().insert("retry-after", HeaderValue::from_static("3600"));
            answer
        });
        let hook = webhook(&module, &path[1..], &receiver, path).await;
        message(&module, &hook).await;
    }
    let found = attempted(&module, 1).await;
    let wait = |code: i64| {
        let job = found.iter().find(|job| job["status"] == code).expect("a job");
        job["wait"].as_f64().expect("seconds")
    };
    for code in [429, 503] {
        assert!((3_590.0..=3_600.0).contains(&wait(code)), "{code}: {}", wait(code));
    }
    assert!(wait(500) <= 6.0, "control: other statuses follow the ladder");
}

#[tokio::test]
async fn connections_that_fail_and_receivers_that_hang_up_are_tried_again() {
    let (module, receiver) = start_with_receiver().await;
    receiver.close("POST", "/closed");
    let closed = webhook(&module, "closed", &receiver, "/closed").await;
    let nobody = {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        format!("http://{}/", listener.local_addr().expect("bound"))
    };
    let refused = crate::support::channel(&module, "refused", "webhook", Some(&nobody)).await;
    for channel in [&closed, &refused] {
        message(&module, channel).await;
    }
    let dead = settled(&module).await;
    assert!(dead.iter().all(|job| job["attempts"] == 3 && job["class"] == "connect_failed"), "{dead:?}");
}

#[tokio::test]
async fn a_receiver_that_is_gone_disables_its_channel_and_later_messages_make_no_job() {
    let (module, receiver) = start_with_receiver().await;
    receiver.answer("POST", "/gone", 410, Value::Null);
    receiver.answer("POST", "/hook", 200, Value::Null);
    let hook = webhook(&module, "hook", &receiver, "/gone").await;
    let alerts = crate::support::channel(&module, "platform-alerts", "in_app", None).await;
    message(&module, &hook).await;
    let dead = settled(&module).await;
    assert_eq!((&dead[0]["class"], &dead[0]["attempts"]), (&json!("gone"), &json!(1)));
    let health = module.ask("GET", &format!("/channels/{hook}/health"), None).await;
    assert_eq!(health.data()["disabledReason"], "gone");
    message(&module, &hook).await;
    assert_eq!(jobs(&module).await.len(), 1, "a message, no delivery");
    let page = module.ask("GET", "/messages", None).await;
    let told =
        page.data()["items"].as_array().expect("a page").iter().find(|item| item["channelId"] == alerts);
    assert_eq!(told.map(|item| item["subjectLine"].clone()), Some(json!("Channel hook is disabled")));
    assert!(actions(&module).await.contains(&"channel.disabled".to_owned()));
}

#[tokio::test]
async fn property_11_a_dispatch_hands_over_what_waits_and_skips_what_is_in_flight_or_disabled() {
    let (module, receiver) = start_usual().await;
    receiver.answer("POST", "/down", 500, Value::Null);
    receiver.hang("POST", "/hang");
    let (down, hang) = (
        webhook(&module, "down", &receiver, "/down").await,
        webhook(&module, "hang", &receiver, "/hang").await,
    );
    let off = webhook(&module, "off", &receiver, "/down").await;
    for channel in [&down, &down, &off] {
        message(&module, channel).await;
    }
    attempted(&module, 1).await;
    message(&module, &hang).await;
    received(&receiver, 4).await;
    module
        .execute(format!("UPDATE notification.channels SET disabled_reason = 'failing' WHERE id = '{off}'"))
        .await;
    module.execute("UPDATE notification.delivery_jobs SET next_attempt_at = now() + interval '1 h' WHERE lease_token IS NULL".to_owned()).await;
    let before = jobs(&module).await;
    assert!(before.iter().all(|job| job["state"] == "pending"));
    let (sent, skipped) = dispatch(&module).await;
    assert_eq!((sent, skipped), (2, 2), "sent and skipped add up to the pending jobs");
    let audit = module.audit().await;
    let told = audit.iter().find(|row| row["action"] == "dispatch.requested").expect("a row");
    assert_eq!(told["payload"], json!({ "sent": 2, "skipped": 2 }));
    let of_down =
        |jobs: &[Value]| jobs.iter().filter(|job| job["channel"] == down).all(|job| job["attempts"] == 2);
    until(&module, of_down).await;
}

#[tokio::test]
async fn property_10_a_slow_channel_delays_no_other() {
    let (module, receiver) = start_usual().await;
    receiver.hang("POST", "/hang");
    receiver.answer("POST", "/hook", 200, Value::Null);
    let hang = webhook(&module, "hang", &receiver, "/hang").await;
    let quick = webhook(&module, "quick", &receiver, "/hook").await;
    for _ in 0..20 {
        message(&module, &hang).await;
    }
    received(&receiver, 4).await;
    let start = std::time::Instant::now();
    message(&module, &quick).await;
    until(&module, |jobs| jobs.iter().any(|job| job["channel"] == quick && job["state"] == "done")).await;
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    let held = receiver.requests().iter().filter(|request| request.path == "/hang").count();
    assert_eq!(held, 4, "one channel has four slots");
}

#[tokio::test]
async fn property_10_receivers_that_hang_delay_no_other_however_many_they_are() {
    let (module, receiver) = start_usual().await;
    receiver.hang("POST", "/hang");
    receiver.answer("POST", "/hook", 200, Value::Null);
    let quick = webhook(&module, "quick", &receiver, "/hook").await;
    for number in 0..6 {
        let hang = webhook(&module, &format!("hang-{number}"), &receiver, "/hang").await;
        for _ in 0..4 {
            message(&module, &hang).await;
        }
    }
    // All slots are taken.
    received(&receiver, 16).await;
    let start = std::time::Instant::now();
    message(&module, &quick).await;
    until(&module, |jobs| jobs.iter().any(|job| job["channel"] == quick && job["state"] == "done")).await;
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    received(&receiver, 25).await;
}

/// Answers every connection with these bytes and never closes it.
async fn answering(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("bound"));
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            stream.write_all(bytes).await.expect("written");
            held.push(stream);
        }
    });
    url
}

#[tokio::test]
async fn an_answer_is_its_status_whatever_comes_of_its_body() {
    let (module, _) = start_usual().await;
    let dripping = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nd").await;
    let failing = answering(b"HTTP/1.1 404 Not Found\r\ncontent-length: 100\r\n\r\nd").await;
    for (key, url) in [("dripping", &dripping), ("failing", &failing)] {
        let hook = crate::support::channel(&module, key, "webhook", Some(url)).await;
        message(&module, &hook).await;
    }
    let found = settled(&module).await;
    let shown: Vec<_> = found.iter().map(|job| (&job["state"], &job["status"], &job["attempts"])).collect();
    assert_eq!(
        shown,
        [(&json!("done"), &json!(200), &json!(1)), (&json!("dead"), &json!(404), &json!(1))],
        "tried once: {found:?}"
    );
}

#[tokio::test]
async fn a_job_whose_last_attempt_ended_with_its_worker_is_dead() {
    let (module, receiver) = start_usual().await;
    let hook = webhook(&module, "hook", &receiver, "/hook").await;
    module
        .execute(format!(
            "INSERT INTO notification.messages(id, company_id, channel_id, subject_line, body, created_by) \
             VALUES ('{hook}', '{0}', '{hook}', 's', 'b', 'x'); \
             INSERT INTO notification.delivery_jobs(id, company_id, message_id, channel_id, kind, target, payload, \
               attempt_count, lease_token, leased_until) \
             VALUES ('{hook}', '{0}', '{hook}', '{hook}', 'webhook', 'https://x.example', '{{}}', 10, \
               gen_random_uuid(), now() - interval '1 s')",
            module.company
        ))
        .await;
    let dead = settled(&module).await;
    assert_eq!((&dead[0]["state"], &dead[0]["class"]), (&json!("dead"), &json!("lease_lost")));
    assert!(receiver.requests().is_empty(), "no further attempt");
    assert_eq!(counted(&module, "webhook", "dead").await, 1);
}
