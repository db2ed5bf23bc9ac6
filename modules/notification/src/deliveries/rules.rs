//! What a delivery is to those who look after channels. Whom a mail was for is not told beyond the domain.

use contract::Timestamp;
use contract::fields::{Fields, FromBody};
use contract::id::CompanyId;
use serde::Serialize;
use time::OffsetDateTime;
use url::Url;

use crate::channels::rules::ChannelId;
use crate::delivery::DeliveryId;
use crate::messages::rules::{MessageId, moment};

/// Most deliveries that one call replays.
pub const MAX_REPLAYED: i64 = 1_000;

contract::words! {
    /// What becomes of a delivery.
    pub enum State {
        /// It is due, or will be.
        Pending = "pending",
        /// It arrived.
        Done = "done",
        /// It was given up.
        Dead = "dead",
    }
}

/// A delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// What receivers see as its id.
    pub id: DeliveryId,
    /// Whose it is.
    pub company_id: CompanyId,
    /// Of which message.
    pub message_id: MessageId,
    /// Through which channel.
    pub channel_id: ChannelId,
    /// `email` or `webhook`.
    pub kind: String,
    /// Domain of the address, or host of the webhook.
    pub recipient: String,
    /// What becomes of it.
    pub state: State,
    /// Attempts so far.
    pub attempt_count: i32,
    /// When it is tried next; `None` once it is settled.
    pub next_attempt_at: Option<Timestamp>,
    /// Status of the last attempt.
    pub last_status: Option<i32>,
    /// What went wrong last.
    pub error_class: Option<String>,
    /// The dead delivery that this one repeats.
    pub replay_of: Option<DeliveryId>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was done or given up.
    pub settled_at: Option<Timestamp>,
}

/// One attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptShown {
    /// Counted from 1.
    pub attempt_no: i32,
    /// `success`, `retry` or `dead`.
    pub outcome: String,
    /// Status of the answer.
    pub status_code: Option<i32>,
    /// What went wrong.
    pub error_class: Option<String>,
    /// When it began.
    pub started_at: Timestamp,
    /// How long it took.
    pub duration_ms: i32,
}

/// A delivery with its attempts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeliveryShown {
    /// The delivery.
    #[serde(flatten)]
    pub delivery: Delivery,
    /// Oldest first.
    pub attempts: Vec<AttemptShown>,
}

/// What was replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Replayed {
    /// New deliveries, up to [`MAX_REPLAYED`].
    pub replayed: u64,
    /// There may be more: ask again.
    pub has_more: bool,
}

/// The body of a replay of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayBody {
    /// Of which channel.
    pub channel: ChannelId,
    /// Deliveries that were made since then.
    pub since: OffsetDateTime,
}

impl FromBody for ReplayBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let channel = fields.uuid("channelId");
        let since = moment(fields, "since");
        Some(Self { channel: channel?, since: since? })
    }
}

/// What of a target is told: the domain of an address, the host of a webhook.
#[must_use]
pub fn recipient(kind: &str, target: &str) -> String {
    let host = || Url::parse(target).ok().and_then(|url| url.host_str().map(ToOwned::to_owned));
    match kind {
        "email" => target.rsplit_once('@').map_or_else(String::new, |(_, domain)| domain.to_owned()),
        _ => host().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recipient_is_told_by_its_domain_or_host_alone() {
        assert_eq!(recipient("email", "alice@mail.example"), "mail.example");
        assert_eq!(recipient("webhook", "https://hooks.example:8443/secret?t=1"), "hooks.example");
        assert_eq!(recipient("webhook", "no URL"), "");
    }
}
