//! Responses of channel, subscription, message and signing-secret operations under their own rules.

use serde_json::{Value, json};

use super::scene::{Scene, make_channel, text};
use crate::module_scene::{Call, NOTHING, Who, id};

const CHANNELS: &str = "POST /channels";
const DELETE: &str = "DELETE /channels/{channelId}";
const COUNT: &str = "GET /messages/unread-count";
const SUBSCRIBE: &str = "PUT /channels/{channelId}/subscription";
const SUBSCRIPTION: &str = "GET /channels/{channelId}/subscription";
const PUBLISH: &str = "POST /messages";
const READ: &str = "POST /messages/{messageId}/read";
const SECRET: &str = "GET /channels/{channelId}/signing-secret";
const ROTATE: &str = "POST /channels/{channelId}/signing-secret/rotate";

pub(super) async fn channels(scene: &mut Scene) {
    let hook = scene.rows.hook.clone();
    let shown = scene.expect(Who::Admin, 200, "GET /channels/{channelId}", Call::about(&hook)).await;
    assert!(shown["target"].is_string(), "an administrator sees the target: {shown}");
    let shown = scene.expect(Who::Alice, 200, "GET /channels/{channelId}", Call::about(&hook)).await;
    assert_eq!(shown["target"], Value::Null, "a member is not");
    let channel = |key: &str, kind: &str, target: Option<&str>| {
        Call::of(json!({ "key": key, "label": "A channel", "kind": kind, "target": target }))
    };
    scene.refused(Who::Admin, 409, "CHANNEL_KEY_TAKEN", CHANNELS, channel("HOOK", "in_app", None)).await;
    for (kind, target, word) in [
        ("webhook", Some("https://10.0.0.1/"), "TARGET_INVALID"),
        ("webhook", None, "TARGET_REQUIRED"),
        ("in_app", Some("a@example.com"), "TARGET_NOT_ALLOWED"),
    ] {
        scene.refused(Who::Admin, 422, word, CHANNELS, channel("new", kind, target)).await;
    }
    let gone = make_channel(scene, "gone", "in_app", None).await;
    scene.expect(Who::Admin, 200, DELETE, Call::about(&gone)).await;
    for operation in ["GET /channels/{channelId}", DELETE] {
        scene.refused(Who::Admin, 404, "NOT_FOUND", operation, Call::about(&gone)).await;
    }
    scene.refused(Who::Alice, 403, "ENGINE_DENIED", DELETE, Call::about(&hook)).await;
    let list = scene.expect(Who::Alice, 200, "GET /channels", Call::default()).await;
    assert_eq!(list["total"], 1, "{list}");
}

pub(super) async fn subscriptions(scene: &mut Scene) {
    let (hook, news) = (scene.rows.hook.clone(), make_channel(scene, "news", "in_app", None).await);
    let to = |channel: &str, email: Value| Call::about(channel).with(json!({ "email": email }));
    let set = scene.expect(Who::Alice, 200, SUBSCRIBE, to(&news, json!("alice@example.com"))).await;
    assert_eq!(set["memberId"], scene.alice_member);
    let shown = scene.expect(Who::Alice, 200, SUBSCRIPTION, Call::about(&news)).await;
    assert_eq!(shown["email"], "alice@example.com");
    scene.expect(Who::Alice, 200, SUBSCRIBE, to(&news, Value::Null)).await;
    let word = "SUBSCRIPTION_NOT_SUPPORTED";
    scene.refused(Who::Alice, 422, word, SUBSCRIBE, to(&hook, json!("alice@example.com"))).await;
    scene.refused(Who::Alice, 404, "NOT_FOUND", SUBSCRIBE, to(NOTHING, Value::Null)).await;
    scene.refused(Who::Alice, 422, word, SUBSCRIPTION, Call::about(&hook)).await;
    scene.refused(Who::Alice, 404, "NOT_FOUND", SUBSCRIPTION, Call::about(NOTHING)).await;
}

pub(super) async fn messages(scene: &mut Scene) {
    let sent = scene.rows.message.clone();
    let team = make_channel(scene, "team", "in_app", None).await;
    let told = id(&scene.expect(Who::Admin, 201, PUBLISH, text(&team)).await);
    scene.refused(Who::Admin, 422, "CHANNEL_UNKNOWN", PUBLISH, text(NOTHING)).await;
    scene.refused(Who::Alice, 403, "ENGINE_DENIED", PUBLISH, text(&team)).await;
    for operation in ["GET /messages/{messageId}", READ] {
        scene.expect(Who::Alice, 200, operation, Call::about(&told)).await;
        scene.refused(Who::Alice, 403, "NOT_SUBSCRIBED", operation, Call::about(&sent)).await;
        scene.refused(Who::Alice, 404, "NOT_FOUND", operation, Call::about(NOTHING)).await;
    }
    let unread = scene.expect(Who::Alice, 200, COUNT, Call::default()).await;
    assert_eq!(unread["count"], 0, "a member counts what a member sees: {unread}");
    assert_eq!(scene.expect(Who::Admin, 200, COUNT, Call::default()).await["count"], 2);
    let all = Call::of(json!({ "before": "2999-01-01T00:00:00Z" }));
    let marked = scene.expect(Who::Admin, 200, "POST /messages/read-all", all).await;
    assert_eq!(marked["marked"], 2, "{marked}");
    let list = scene.expect(Who::Alice, 200, "GET /messages", Call::default()).await;
    assert_eq!(list["total"], 1, "{list}");
}

/// Idempotency keys: the stored response, another body, and a first request that is still running.
pub(super) async fn keys(scene: &mut Scene) {
    let (first, other) = (make_channel(scene, "first", "in_app", None).await, NOTHING);
    let with_key = |call: Call, key| Call { header: Some(("idempotency-key", key)), ..call };
    let made = scene.expect(Who::Admin, 201, PUBLISH, with_key(text(&first), "first")).await;
    assert_eq!(scene.expect(Who::Admin, 201, PUBLISH, with_key(text(&first), "first")).await, made);
    scene.refused(Who::Admin, 422, "IDEMPOTENCY_KEY_REUSED", PUBLISH, with_key(text(other), "first")).await;
    let owner = scene.platform.owner();
    let mut unfinished = owner.begin().await.expect("a transaction");
    let sql = "INSERT INTO notification.idempotency_keys SELECT company_id, operation, actor, 'unfinished', fingerprint,
        status, response, resource_id, created_at, expires_at FROM notification.idempotency_keys WHERE idem_key = 'first'";
    sqlx::query(sql).execute(&mut *unfinished).await.expect("the key is written");
    let call = with_key(text(&first), "unfinished");
    scene.refused(Who::Admin, 409, "IDEMPOTENCY_IN_PROGRESS", PUBLISH, call).await;
    unfinished.rollback().await.expect("nothing stays");
    owner.close().await;
}

pub(super) async fn signing_secrets(scene: &mut Scene) {
    let (hook, mail) = (scene.rows.hook.clone(), make_channel(scene, "mail", "email", None).await);
    for operation in [SECRET, ROTATE] {
        scene.expect(Who::Admin, 200, operation, Call::about(&hook)).await;
        scene.refused(Who::Admin, 404, "NOT_FOUND", operation, Call::about(NOTHING)).await;
        scene.refused(Who::Admin, 422, "NOT_A_WEBHOOK", operation, Call::about(&mail)).await;
        scene.refused(Who::Alice, 403, "ENGINE_DENIED", operation, Call::about(&hook)).await;
    }
    scene.refused(Who::Admin, 409, "ROTATION_IN_PROGRESS", ROTATE, Call::about(&hook)).await;
}
