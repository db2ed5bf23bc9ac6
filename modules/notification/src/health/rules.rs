//! The health of channels: its fields and limits.

use contract::Timestamp;
use serde::Serialize;

use crate::channels::rules::ChannelId;

/// Consecutive dead deliveries after which a channel is disabled; a success resets the count.
pub const MAX_CONSECUTIVE_DEAD: i32 = 20;
/// The least time that these span, in hours, so that a receiver that is down for an hour is not given up.
pub const FAILING_HOURS: i32 = 24;
/// The key of the in-app channel that gets alerts about disabled channels, if the company has one.
pub const ALERTS: &str = "platform-alerts";

contract::words! {
    /// Why nothing is delivered to a channel any more.
    pub enum Disabled {
        /// Its receiver is gone for good (410).
        Gone = "gone",
        /// Too many deliveries died in a row.
        Failing = "failing",
    }
}

/// The health of a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// The channel.
    pub channel_id: ChannelId,
    /// Why nothing is delivered any more; `None` while deliveries are made.
    pub disabled_reason: Option<Disabled>,
    /// Dead deliveries since the last success.
    pub consecutive_dead: i32,
    /// When the first of them died.
    pub dead_since: Option<Timestamp>,
    /// When a delivery last arrived, to the second.
    pub last_success_at: Option<Timestamp>,
}
