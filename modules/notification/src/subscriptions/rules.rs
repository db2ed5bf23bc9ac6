//! What a subscription is and what its body may hold.

use contract::Timestamp;
use contract::fields::{Fields, FromBody, Patch, Text};
use contract::id::{CompanyId, MemberId};
use serde::Serialize;

use crate::channels::rules::ChannelId;

/// A member's own subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Subscription {
    /// In which company.
    pub company_id: CompanyId,
    /// To which channel.
    pub channel_id: ChannelId,
    /// Whose.
    pub member_id: MemberId,
    /// Where messages go; `None`: nowhere.
    pub email: Option<String>,
    /// When it was set last.
    pub updated_at: Timestamp,
}

/// The body: `email` must be there; null ends the subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionBody {
    /// Where messages go.
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
