//! Every operation of the module with the decision that it asks.

use service::{Feature, Operation as Op, Operations};

use crate::{App, KEY, channels};

const CHANNELS_READ: Feature = Feature::of_module("notification.channels.read", "member").or_operator();
/// Manage channels; whoever may is also shown where they lead.
pub const CHANNELS_MANAGE: Feature =
    Feature::of_module("notification.channels.manage", "admin").or_operator();

/// The table.
pub fn operations() -> Operations<App> {
    Operations::of(KEY).bind(Op::get("/channels", "listChannels", CHANNELS_READ), channels::http::list)
}
