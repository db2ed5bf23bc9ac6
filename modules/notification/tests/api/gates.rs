//! Checks that precede every operation, and the probes.

use serde_json::json;
use testkit::ModuleApi;
use testkit::module::gates::Sample;
use uuid::Uuid;

use crate::support::be_member;

fn samples() -> Vec<Sample> {
    let channel = |tail: &str| format!("/channels/{}{tail}", Uuid::now_v7());
    let message = |tail: &str| format!("/messages/{}{tail}", Uuid::now_v7());
    let delivery = |tail: &str| format!("/deliveries/{}{tail}", Uuid::now_v7());
    vec![
        Sample::of("listChannels", "/channels"),
        Sample::of("createChannel", "/channels").with(json!({ "key": "a", "label": "A", "kind": "in_app" })),
        Sample::of("getChannel", channel("")),
        Sample::of("setChannelSubscription", channel("/subscription")).with(json!({ "email": null })),
        Sample::of("listMessages", "/messages"),
        Sample::of("createMessage", "/messages")
            .with(json!({ "channelId": Uuid::now_v7(), "subjectLine": "s", "body": "b" })),
        Sample::of("markMessageRead", message("/read")),
        Sample::of("dispatchPending", "/dispatch"),
        Sample::of("deleteChannel", channel("")),
        Sample::of("getMessage", message("")),
        Sample::of("getSigningSecret", channel("/signing-secret")),
        Sample::of("rotateSigningSecret", channel("/signing-secret/rotate")),
        Sample::of("listDeliveries", "/deliveries"),
        Sample::of("getDelivery", delivery("")),
        Sample::of("replayDelivery", delivery("/replay")),
        Sample::of("replayDeliveries", "/deliveries/replay")
            .with(json!({ "channelId": Uuid::now_v7(), "since": "2026-11-22T09:30:00Z" })),
        Sample::of("getChannelHealth", channel("/health")),
        Sample::of("enableChannel", channel("/enable")),
        Sample::of("getChannelSubscription", channel("/subscription")),
        Sample::of("countUnreadMessages", "/messages/unread-count"),
        Sample::of("markAllMessagesRead", "/messages/read-all")
            .with(json!({ "before": "2026-11-22T09:30:00Z" })),
    ]
}

fn prepare(module: &ModuleApi) {
    be_member(module);
}

testkit::module_gates! { notification, samples: samples(), prepare: prepare, list: "/messages" }
