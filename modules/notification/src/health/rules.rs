//! What the health of a channel is.

use contract::Timestamp;
use serde::Serialize;

use crate::channels::rules::ChannelId;

/// Deliveries that died in a row before a channel is disabled; a success begins anew.
pub const MAX_CONSECUTIVE_DEAD: i32 = 20;
/// Time that these span at least: a receiver that is broken for an hour is not given up.
pub const FAILING_HOURS: i32 = 24;
/// Key of the in-app channel that is told of channels that are disabled, where a company has one.
pub const ALERTS: &str = "platform-alerts";

contract::words! {
    /// Why nothing is delivered to a channel any more.
    pub enum Disabled {
        /// Its receiver says that it is gone for good (410).
        Gone = "gone",
        /// Too many deliveries died in a row.
        Failing = "failing",
    }
}

/// The health of a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// Which channel.
    pub channel_id: ChannelId,
    /// Why nothing is delivered any more; `None`: deliveries are made.
    pub disabled_reason: Option<Disabled>,
    /// Deliveries that died since one arrived.
    pub consecutive_dead: i32,
    /// When the first of these died.
    pub dead_since: Option<Timestamp>,
    /// When a delivery arrived last; to the second.
    pub last_success_at: Option<Timestamp>,
}
