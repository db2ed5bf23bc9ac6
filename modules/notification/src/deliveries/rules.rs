//! Deliveries as administrators see them. Of a mail's recipient, only the domain is shown.

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
    /// The state of a delivery.
    pub enum State {
        /// It is due now or later.
        Pending = "pending",
        /// It arrived.
        Done = "done",
        /// It was given up.
        Dead = "dead",
    }
}

/// A delivery as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// The id, which receivers see too.
    pub id: DeliveryId,
    /// The company that it belongs to.
    pub company_id: CompanyId,
    /// The message that it delivers.
    pub message_id: MessageId,
    /// The channel that it goes through.
    pub channel_id: ChannelId,
    /// `email` or `webhook`.
    pub kind: String,
    /// The domain of the address, or the host of the webhook.
    pub recipient: String,
    /// Its state.
    pub state: State,
    /// The number of attempts so far.
    pub attempt_count: i32,
    /// When it is tried next; `None` once it is settled.
    pub next_attempt_at: Option<Timestamp>,
    /// The status code of the last attempt.
    pub last_status: Option<i32>,
    /// What went wrong last.
    pub error_class: Option<String>,
    /// The dead delivery that this one repeats.
    pub replay_of: Option<DeliveryId>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was done or given up.
    pub settled_at: Option<Timestamp>,
}

/// One attempt as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptShown {
    /// The number of the attempt, from 1.
    pub attempt_no: i32,
    /// `success`, `retry` or `dead`.
    pub outcome: String,
    /// The status code of the response.
    pub status_code: Option<i32>,
    /// What went wrong.
    pub error_class: Option<String>,
    /// When it started.
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

/// The result of a replay of many deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Replayed {
    /// The number of new deliveries, at most [`MAX_REPLAYED`].
    pub replayed: u64,
    /// Whether there may be more: repeat the call.
    pub has_more: bool,
}

/// The body of a request to replay many deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayBody {
    /// The channel whose deliveries are replayed.
    pub channel: ChannelId,
    /// The earliest creation time of the deliveries to replay.
    pub since: OffsetDateTime,
}

impl FromBody for ReplayBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let channel = fields.uuid("channelId");
        let since = moment(fields, "since");
        Some(Self { channel: channel?, since: since? })
    }
}

/// The part of a target that is shown: the domain of an address, the host of a webhook.
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
