//! Notification rows for the calls.

use serde_json::{Value, json};

use crate::harness::{Api, eventually};
use crate::module_scene::{Call, Module, Who, id};

pub(super) type Scene = crate::module_scene::Scene<Notification>;

/// An address of this machine, forbidden for webhooks: deliveries die at their first attempt.
pub(super) const BLOCKED: &str = "https://localhost/";
const CHANNEL_ID: &str = "{channelId}";
const MESSAGE_ID: &str = "{messageId}";
/// How long a delivery may take from its message until it is dead, on a busy machine.
const SETTLED_WITHIN: std::time::Duration = std::time::Duration::from_mins(1);

/// Ids of the rows that every test has.
#[derive(Default)]
pub(super) struct Notification {
    /// A webhook whose only delivery is dead.
    pub(super) hook: String,
    pub(super) message: String,
    pub(super) delivery: String,
}

impl Module for Notification {
    const KEY: &'static str = "notification";
    const DOCUMENT: &'static str = include_str!("../../../modules/notification/openapi.json");
    const READ: &'static str = "GET /channels";

    async fn prepare(scene: &mut Scene) {
        scene.rows.hook = make_channel(scene, "hook", "webhook", Some(BLOCKED)).await;
        let hook = scene.rows.hook.clone();
        scene.rows.message = id(&scene.expect(Who::Admin, 201, "POST /messages", text(&hook)).await);
        let admin = scene.admin.clone();
        scene.rows.delivery = dead_delivery(&admin, &scene.company, &hook).await;
    }

    fn sample(scene: &Scene, operation: &str) -> Call {
        let (hook, since) = (&scene.rows.hook, "2026-01-01T00:00:00Z");
        match operation {
            "GET /channels"
            | "GET /messages"
            | "GET /messages/unread-count"
            | "GET /deliveries"
            | "POST /dispatch" => Call::default(),
            "POST /channels" => Call::of(json!({ "key": "sample", "label": "A channel", "kind": "in_app" })),
            "PUT /channels/{channelId}/subscription" => {
                Call::about(hook).with(json!({ "email": "alice@example.com" }))
            }
            "POST /messages" => text(hook),
            "POST /messages/read-all" => Call::of(json!({ "before": since })),
            "POST /deliveries/replay" => Call::of(json!({ "channelId": hook, "since": since })),
            "GET /deliveries/{deliveryId}" | "POST /deliveries/{deliveryId}/replay" => {
                Call::about(&scene.rows.delivery)
            }
            _ if operation.contains(CHANNEL_ID) => Call::about(hook),
            _ if operation.contains(MESSAGE_ID) => Call::about(&scene.rows.message),
            _ => panic!("{operation} is not known to this test"),
        }
    }

    fn wrong_values() -> Vec<(&'static str, Call)> {
        let empty = || Call::of(json!({}));
        vec![
            ("GET /channels", Call::asking("?page=0")),
            ("POST /channels", empty()),
            (
                "PUT /channels/{channelId}/subscription",
                Call::about(crate::module_scene::NOTHING).with(json!({})),
            ),
            ("GET /messages", Call::asking("?pageSize=101")),
            ("POST /messages", empty()),
            ("POST /messages/read-all", empty()),
            ("GET /deliveries", Call::asking("?state=lost")),
            ("POST /deliveries/replay", empty()),
        ]
    }
}

/// Sends a message through a channel.
pub(super) fn text(channel: &str) -> Call {
    Call::of(json!({ "channelId": channel, "subjectLine": "Release 1.4", "body": "It is out." }))
}

pub(super) async fn make_channel(scene: &mut Scene, key: &str, kind: &str, target: Option<&str>) -> String {
    let body = json!({ "key": key, "label": "A channel", "kind": kind, "target": target });
    id(&scene.expect(Who::Admin, 201, "POST /channels", Call::of(body)).await)
}

/// The only delivery of a channel that leads to [`BLOCKED`], once it is dead.
pub(super) async fn dead_delivery(admin: &Api, company: &str, channel: &str) -> String {
    let path = format!("/api/notification/v1/companies/{company}/deliveries?channelId={channel}");
    let first = async || admin.get(&path).await.data(200)["items"][0].clone();
    eventually("the delivery is dead", SETTLED_WITHIN, || async {
        let delivery: Value = first().await;
        if delivery["state"] == "dead" { Ok(()) } else { Err(delivery.to_string()) }
    })
    .await;
    let delivery = first().await;
    assert_eq!(delivery["errorClass"], "blocked_address", "{delivery}");
    id(&delivery)
}
