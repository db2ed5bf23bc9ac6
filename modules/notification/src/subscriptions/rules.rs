//! Subscriptions: their fields and request body.

use contract::Timestamp;
use contract::fields::{Fields, FromBody, Patch, Text};
use contract::id::{CompanyId, MemberId};
use serde::Serialize;

use crate::channels::rules::ChannelId;

/// A member's own subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Subscription {
    /// The company that it belongs to.
    pub company_id: CompanyId,
    /// The channel.
    pub channel_id: ChannelId,
    /// The member.
    pub member_id: MemberId,
    /// The address that messages are sent to; `None` when the subscription has ended.
    pub email: Option<String>,
    /// When it was last set.
    pub updated_at: Timestamp,
}

/// The caller's subscription to a channel, whether there is one or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnSubscription {
    /// The company that it belongs to.
    pub company_id: CompanyId,
    /// The channel.
    pub channel_id: ChannelId,
    /// The member.
    pub member_id: MemberId,
    /// The address that messages are sent to; `None` when there is no subscription.
    pub email: Option<String>,
    /// When it was last set; `None` if it never was.
    pub updated_at: Option<Timestamp>,
}

/// The request body; `email` is required, and null ends the subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionBody {
    /// The address that messages are sent to.
    pub email: Option<String>,
}

impl FromBody for SubscriptionBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let email = match fields.patch_text("email", Text::line(mail::MAX_ADDRESS))? {
            Patch::Absent => return fields.refuse("email", "required", "an e-mail address or null"),
            Patch::Null => None,
            Patch::Value(address) if mail::is_address(&address) => Some(address),
            Patch::Value(_) => return fields.refuse("email", "email", "an e-mail address"),
        };
        Some(Self { email })
    }
}
