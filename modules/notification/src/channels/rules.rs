//! What a channel is, and what of it is secret.

use contract::Timestamp;
use contract::id::CompanyId;
use contract::page::Page;
use serde::Serialize;

contract::typed_id!(
    /// A channel of one company.
    ChannelId
);

/// A channel as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Channel {
    /// Minted here.
    pub id: ChannelId,
    /// Whose it is.
    pub company_id: CompanyId,
    /// Unique in the company, whatever the case.
    pub key: String,
    /// For people.
    pub label: String,
    /// `in_app`, `email` or `webhook`.
    pub kind: String,
    /// Where it leads. As often as not a secret (a webhook's address holds its token).
    pub target: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// The page as somebody sees it who may not know where channels lead.
#[must_use]
pub fn without_targets(mut page: Page<Channel>) -> Page<Channel> {
    for channel in &mut page.items {
        channel.target = None;
    }
    page
}
