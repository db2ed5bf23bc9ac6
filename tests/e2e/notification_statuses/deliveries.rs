//! Responses of dispatch, the delivery log, replays and channel health under their own rules.

use serde_json::{Value, json};

use super::scene::{BLOCKED, Scene, dead_delivery, make_channel, text};
use crate::module_scene::{Call, NOTHING, Who, id};

const LIST: &str = "GET /deliveries";
const SHOW: &str = "GET /deliveries/{deliveryId}";
const REPLAY: &str = "POST /deliveries/{deliveryId}/replay";
const REPLAY_MANY: &str = "POST /deliveries/replay";
const HEALTH: &str = "GET /channels/{channelId}/health";
const ENABLE: &str = "POST /channels/{channelId}/enable";

pub(super) async fn dispatch_and_log(scene: &mut Scene) {
    let (hook, delivery) = (scene.rows.hook.clone(), scene.rows.delivery.clone());
    let sent = scene.expect(Who::Admin, 200, "POST /dispatch", Call::default()).await;
    assert_eq!(sent, json!({ "sent": 0, "skipped": 0 }), "dead deliveries are untouched");
    let query = format!("?state=dead&channelId={hook}");
    let list = scene.expect(Who::Admin, 200, LIST, Call::asking(&query)).await;
    assert_eq!(list["items"][0]["id"], json!(delivery), "{list}");
    let shown = scene.expect(Who::Admin, 200, SHOW, Call::about(&delivery)).await;
    assert_eq!(shown["attempts"][0]["errorClass"], "blocked_address", "{shown}");
    scene.refused(Who::Admin, 404, "NOT_FOUND", SHOW, Call::about(NOTHING)).await;
    scene.refused(Who::Alice, 403, "ENGINE_DENIED", SHOW, Call::about(&delivery)).await;
}

fn many(channel: &str) -> Call {
    Call::of(json!({ "channelId": channel, "since": "2026-01-01T00:00:00Z" }))
}

/// Without a mail server, mail waits: a delivery that is not dead. Deleting a channel deletes its deliveries.
pub(super) async fn replays(scene: &mut Scene) {
    let (hook, first) = (scene.rows.hook.clone(), scene.rows.delivery.clone());
    let post = make_channel(scene, "post", "email", Some("team@example.com")).await;
    scene.expect(Who::Admin, 201, "POST /messages", text(&post)).await;
    let query = format!("?channelId={post}");
    let waiting = scene.expect(Who::Admin, 200, LIST, Call::asking(&query)).await;
    let waiting = id(&waiting["items"][0]);
    scene.refused(Who::Admin, 409, "DELIVERY_NOT_DEAD", REPLAY, Call::about(&waiting)).await;
    let replay = scene.expect(Who::Admin, 201, REPLAY, Call::about(&first)).await;
    assert_eq!(replay["replayOf"], json!(first), "{replay}");
    scene.refused(Who::Admin, 409, "DELIVERY_REPLAYED", REPLAY, Call::about(&first)).await;
    scene.refused(Who::Admin, 404, "NOT_FOUND", REPLAY, Call::about(NOTHING)).await;
    scene.refused(Who::Admin, 404, "NOT_FOUND", REPLAY_MANY, many(NOTHING)).await;

    let admin = scene.admin.clone();
    let second = dead_delivery(&admin, &scene.company, &hook).await;
    let done = scene.expect(Who::Admin, 200, REPLAY_MANY, many(&hook)).await;
    assert_eq!(done, json!({ "replayed": 1, "hasMore": false }), "the replay of {first}, which is {second}");

    let gone = make_channel(scene, "gone-hook", "webhook", Some(BLOCKED)).await;
    scene.expect(Who::Admin, 201, "POST /messages", text(&gone)).await;
    let dead = dead_delivery(&admin, &scene.company, &gone).await;
    for (change, word) in [
        (
            format!("UPDATE notification.channels SET disabled_reason = 'failing' WHERE id = '{gone}'"),
            "CHANNEL_DISABLED",
        ),
        (
            format!("UPDATE notification.channels SET deleted_at = now() WHERE id = '{gone}'"),
            "CHANNEL_DELETED",
        ),
    ] {
        scene.execute(change).await;
        scene.refused(Who::Admin, 409, word, REPLAY, Call::about(&dead)).await;
        scene.refused(Who::Admin, 409, word, REPLAY_MANY, many(&gone)).await;
    }
}

pub(super) async fn health(scene: &mut Scene) {
    let hook = scene.rows.hook.clone();
    let found = scene.expect(Who::Admin, 200, HEALTH, Call::about(&hook)).await;
    assert!(found["consecutiveDead"].as_i64() >= Some(2), "{found}");
    scene
        .execute(format!("UPDATE notification.channels SET disabled_reason = 'failing' WHERE id = '{hook}'"))
        .await;
    let found = scene.expect(Who::Admin, 200, ENABLE, Call::about(&hook)).await;
    assert_eq!((&found["disabledReason"], &found["consecutiveDead"]), (&Value::Null, &json!(0)), "{found}");
    for operation in [HEALTH, ENABLE] {
        scene.refused(Who::Admin, 404, "NOT_FOUND", operation, Call::about(NOTHING)).await;
        scene.refused(Who::Alice, 403, "ENGINE_DENIED", operation, Call::about(&hook)).await;
    }
}
