//! Channels: their fields, limits and request body, and which of it is secret.

use contract::Timestamp;
use contract::fields::{Fields, FromBody, Text};
use contract::id::CompanyId;
use contract::page::Page;
use serde::Serialize;
use serde_json::json;
use service::ApiError;
use service::outbound::{MAX_URL, OutboundClient};
use service::refusal::broken;

contract::typed_id!(
    /// A channel of one company.
    ChannelId
);

/// Longest key, in characters.
pub const MAX_KEY: usize = 64;
/// Longest label, in characters.
const MAX_LABEL: usize = 100;
/// The rule for webhook targets. Every refusal has the same text, so that none reveals what an address leads to.
const TARGET_RULE: &str = "a webhook's target is an https:// URL (http:// where the operator allows it) without user \
                           name, password and fragment, at a public address and a port that is not the platform's";

contract::words! {
    /// How messages of a channel reach people.
    pub enum Kind {
        /// In the app; members may have them sent by e-mail as well.
        InApp = "in_app",
        /// By e-mail.
        Email = "email",
        /// By an HTTP request.
        Webhook = "webhook",
    }
}

/// A channel as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Channel {
    /// Minted at creation.
    pub id: ChannelId,
    /// The company that it belongs to.
    pub company_id: CompanyId,
    /// Unique in the company, ignoring case.
    pub key: String,
    /// A name for display.
    pub label: String,
    /// How messages reach people.
    pub kind: Kind,
    /// The address or URL. It is often secret: a webhook's URL may contain a token.
    pub target: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
}

impl Channel {
    /// The subject of the channel's audit rows.
    #[must_use]
    pub fn subject(&self) -> String {
        subject(self.id)
    }

    /// Hides the target, for callers who may not see it.
    #[must_use]
    pub fn without_target(self) -> Self {
        Self { target: None, ..self }
    }
}

/// The subject of a channel's audit rows.
#[must_use]
pub fn subject(id: ChannelId) -> String {
    format!("channel:{id}")
}

/// Hides all targets, for callers who may not see them.
#[must_use]
pub fn without_targets(mut page: Page<Channel>) -> Page<Channel> {
    for channel in &mut page.items {
        channel.target = None;
    }
    page
}

/// The body of a request to create a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelBody {
    /// Unique in the company.
    pub key: String,
    /// A name for display.
    pub label: String,
    /// How messages reach people.
    pub kind: Kind,
    /// The address or URL.
    pub target: Option<String>,
}

impl FromBody for ChannelBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let key = key(fields, "key");
        let label = fields.text("label", Text::title(MAX_LABEL));
        let kind = fields.word("kind", Kind::WORDS);
        let longest = if kind == Some(Kind::Email) { mail::MAX_ADDRESS } else { MAX_URL };
        let target = fields.optional_text("target", Text::line(longest));
        Some(Self { key: key?, label: label?, kind: kind?, target: target? })
    }
}

/// Reads a channel key: `^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`.
pub fn key(fields: &mut Fields<'_>, name: &str) -> Option<String> {
    let key = fields.text(name, Text::line(MAX_KEY))?;
    let begins = key.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if begins && key.bytes().all(fits) {
        return Some(key);
    }
    fields.refuse(name, "pattern", "letters, digits, ., _ and -, beginning with a letter or a digit")
}

impl ChannelBody {
    /// Checks that the kind may have this target. What a webhook's host name resolves to is not checked here but at
    /// each attempt, since it may change.
    ///
    /// # Errors
    /// 422 `TARGET_REQUIRED`, `TARGET_NOT_ALLOWED` or `TARGET_INVALID`.
    pub fn check_target(&self, outbound: &OutboundClient) -> Result<(), ApiError> {
        let invalid = |message| broken("TARGET_INVALID", message, json!({}));
        match (self.kind, &self.target) {
            (Kind::InApp | Kind::Email, None) => Ok(()),
            (Kind::InApp, Some(_)) => {
                Err(broken("TARGET_NOT_ALLOWED", "an in-app channel has no target", json!({})))
            }
            (Kind::Webhook, None) => {
                Err(broken("TARGET_REQUIRED", "a webhook needs a target: the URL that it calls", json!({})))
            }
            (Kind::Email, Some(target)) if mail::is_address(target) => Ok(()),
            (Kind::Email, Some(_)) => Err(invalid("the target is not an e-mail address")),
            (Kind::Webhook, Some(target)) => match outbound.target(target) {
                Ok(_) => Ok(()),
                Err(error) => {
                    tracing::debug!(
                        kind = error.kind().word(),
                        detail = error.detail(),
                        "refused a channel's target"
                    );
                    Err(invalid(TARGET_RULE))
                }
            },
        }
    }
}
