//! Every operation of the module with the decision that it asks, in the order of the module contract, then those beyond it.
//! A platform operator may administer a company's channels without being its member.

use service::{Feature, Operation as Op, Operations};

use crate::{App, KEY, channels, deliveries, delivery, events, health, messages, secrets, subscriptions};

const CHANNELS_READ: Feature = Feature::of_module("notification.channels.read", "member").or_operator();
/// Manage channels; whoever may is also shown where they lead.
pub const CHANNELS_MANAGE: Feature =
    Feature::of_module("notification.channels.manage", "admin").or_operator();
const SUBSCRIPTIONS_WRITE: Feature = Feature::of_module("notification.subscriptions.write", "member");
const MESSAGES_READ: Feature = Feature::of_module("notification.messages.read", "member").or_operator();
/// The second decision: read messages of channels that the caller does not subscribe to.
pub const MESSAGES_READ_ALL: Feature =
    Feature::of_module("notification.messages.read_all", "editor").or_operator();
const MESSAGES_CREATE: Feature = Feature::of_module("notification.messages.create", "editor").or_operator();
const DISPATCH: Feature = Feature::of_module("notification.dispatch.run", "admin").or_operator();
const SECRETS: Feature = Feature::of_module("notification.secrets.manage", "admin").or_operator();
const DELIVERIES_READ: Feature = Feature::of_module("notification.deliveries.read", "admin").or_operator();
const DELIVERIES_REPLAY: Feature =
    Feature::of_module("notification.deliveries.replay", "admin").or_operator();
/// Post an event; the event is the module's, so a member's bearer suffices.
pub const EVENTS_POST: Feature = Feature::of_module("notification.events.post", "member");

/// The decisions that are asked beside the operations' own.
pub const SECOND: &[Feature] = &[CHANNELS_MANAGE, MESSAGES_READ_ALL, EVENTS_POST];

/// The table.
pub fn operations() -> Operations<App> {
    let table = Operations::of(KEY)
        .bind(Op::get("/channels", "listChannels", CHANNELS_READ), channels::http::list)
        .bind(Op::post("/channels", "createChannel", CHANNELS_MANAGE), channels::http::create)
        .bind(Op::get("/channels/{channelId}", "getChannel", CHANNELS_READ), channels::http::show)
        .bind(
            Op::put("/channels/{channelId}/subscription", "setChannelSubscription", SUBSCRIPTIONS_WRITE),
            subscriptions::http::set,
        )
        .bind(Op::get("/messages", "listMessages", MESSAGES_READ), messages::http::list)
        .bind(Op::post("/messages", "createMessage", MESSAGES_CREATE).idempotent(), messages::http::create)
        .bind(Op::post("/messages/{messageId}/read", "markMessageRead", MESSAGES_READ), messages::read::one)
        .bind(Op::post("/dispatch", "dispatchPending", DISPATCH), delivery::dispatch::run)
        .bind(Op::delete("/channels/{channelId}", "deleteChannel", CHANNELS_MANAGE), channels::http::delete)
        .bind(Op::get("/messages/{messageId}", "getMessage", MESSAGES_READ), messages::http::show)
        .bind(
            Op::get("/channels/{channelId}/signing-secret", "getSigningSecret", SECRETS),
            secrets::http::show,
        )
        .bind(
            Op::post("/channels/{channelId}/signing-secret/rotate", "rotateSigningSecret", SECRETS),
            secrets::http::rotate,
        );
    beyond(table).bind_internal(Op::post("/events", "postEvent", EVENTS_POST), events::http::post)
}

/// What the module contract does not ask for: the log of deliveries, replays, the health of channels, the caller's own
/// subscription, and what is unread.
fn beyond(table: Operations<App>) -> Operations<App> {
    table
        .bind(Op::get("/deliveries", "listDeliveries", DELIVERIES_READ), deliveries::http::list)
        .bind(Op::get("/deliveries/{deliveryId}", "getDelivery", DELIVERIES_READ), deliveries::http::show)
        .bind(
            Op::post("/deliveries/{deliveryId}/replay", "replayDelivery", DELIVERIES_REPLAY),
            deliveries::replay::one,
        )
        .bind(Op::post("/deliveries/replay", "replayDeliveries", DELIVERIES_REPLAY), deliveries::replay::many)
        .bind(
            Op::get("/channels/{channelId}/health", "getChannelHealth", CHANNELS_MANAGE),
            health::http::show,
        )
        .bind(
            Op::post("/channels/{channelId}/enable", "enableChannel", CHANNELS_MANAGE),
            health::http::enable,
        )
        .bind(
            Op::get("/channels/{channelId}/subscription", "getChannelSubscription", CHANNELS_READ),
            subscriptions::http::show,
        )
        .bind(Op::get("/messages/unread-count", "countUnreadMessages", MESSAGES_READ), messages::read::count)
        .bind(Op::post("/messages/read-all", "markAllMessagesRead", MESSAGES_READ), messages::read::all)
}
