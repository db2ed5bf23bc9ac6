//! The metrics of deliveries.

use std::time::{Duration, Instant};

use testkit::ModuleApi;
use uuid::Uuid;

use crate::start;

async fn metrics(module: &ModuleApi) -> String {
    module.api.get("/metrics").send().await.text
}

#[tokio::test]
async fn every_series_is_there_from_the_start() {
    let module = start().await;
    let text = metrics(&module).await;
    for state in ["pending", "done", "dead"] {
        let line = format!("platform_delivery_jobs{{state=\"{state}\",service=\"notification\"}} 0");
        assert!(text.contains(&line), "{line} in {text}");
    }
    for kind in ["email", "webhook"] {
        for outcome in ["success", "retry", "dead"] {
            let line = format!(
                "platform_delivery_attempts_total{{kind=\"{kind}\",outcome=\"{outcome}\",service=\"notification\"}} 0"
            );
            assert!(text.contains(&line), "{line} in {text}");
        }
    }
}

#[tokio::test]
async fn jobs_are_counted_again_and_the_oldest_is_told() {
    let module = ModuleApi::start(notification::KEY, notification::OPENAPI, |settings, listener, stop| {
        crate::serve(settings.with("PLATFORM_NOTIFICATION_RECOUNT_INTERVAL", "1s"), listener, stop)
    })
    .await;
    let (channel, message) = (Uuid::now_v7(), Uuid::now_v7());
    let company = module.company;
    module
        .execute(format!(
            "INSERT INTO notification.channels(id, company_id, key, label, kind, target, created_by) \
             VALUES ('{channel}', '{company}', 'hook', 'Hook', 'webhook', 'https://example.test/', 'x')"
        ))
        .await;
    module
        .execute(format!(
            "INSERT INTO notification.messages(id, company_id, channel_id, subject_line, body, created_by) \
             VALUES ('{message}', '{company}', '{channel}', 's', 'b', 'x')"
        ))
        .await;
    module
        .execute(format!(
            "INSERT INTO notification.delivery_jobs(id, company_id, message_id, channel_id, kind, target, payload, state, \
             claim_group, next_attempt_at, settled_at, lease_token, leased_until) \
             SELECT gen_random_uuid(), '{company}', '{message}', '{channel}', 'webhook', 't' || n, '', state, g, \
                    now() - interval '100 s', CASE state WHEN 'pending' THEN NULL ELSE now() END, \
                    CASE state WHEN 'pending' THEN gen_random_uuid() END, \
                    CASE state WHEN 'pending' THEN now() + interval '1 h' END \
               FROM (VALUES (1, 'pending', 'default'), (2, 'pending', 'default'), (3, 'dead', 'default'), \
                            (4, 'done', 'other')) AS jobs(n, state, g)"
        ))
        .await;
    let begun = Instant::now();
    let mut turn = tokio::time::interval(Duration::from_millis(50));
    let pending = "platform_delivery_jobs{state=\"pending\",service=\"notification\"} 2";
    let text = loop {
        turn.tick().await;
        let text = metrics(&module).await;
        if text.contains(pending) {
            break text;
        }
        assert!(begun.elapsed() < Duration::from_mins(1), "{text}");
    };
    assert!(text.contains("platform_delivery_jobs{state=\"dead\",service=\"notification\"} 1"), "{text}");
    assert!(text.contains("platform_delivery_jobs{state=\"done\",service=\"notification\"} 0"), "{text}");
    let name = "platform_delivery_oldest_pending_seconds{service=\"notification\"} ";
    let overdue =
        text.lines().find_map(|line| line.strip_prefix(name)).and_then(|value| value.parse::<f64>().ok());
    assert!(overdue.is_some_and(|seconds| (100.0..160.0).contains(&seconds)), "{overdue:?}");
}
