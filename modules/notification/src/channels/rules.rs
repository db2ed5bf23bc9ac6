//! What a channel is, what its body may hold, and what of it is secret.

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

/// Longest key.
pub const MAX_KEY: usize = 64;
/// Longest label.
const MAX_LABEL: usize = 100;
/// What a webhook's target must be. One text for every refusal, so that none of them says what an address leads to.
const TARGET_RULE: &str = "a webhook's target is an https:// URL (http:// where the operator allows it) without user \
                           name, password and fragment, at a public address";

contract::words! {
    /// How messages of a channel reach people.
    pub enum Kind {
        /// They are read here; members may have them sent by e-mail, too.
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
    /// Minted here.
    pub id: ChannelId,
    /// Whose it is.
    pub company_id: CompanyId,
    /// Unique in the company, whatever the case.
    pub key: String,
    /// For people.
    pub label: String,
    /// How messages reach people.
    pub kind: Kind,
    /// Where it leads. As often as not a secret (a webhook's address holds its token).
    pub target: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
}

impl Channel {
    /// The subject of its audit rows.
    #[must_use]
    pub fn subject(&self) -> String {
        subject(self.id)
    }

    /// As somebody sees it who may not know where channels lead.
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

/// The page as somebody sees it who may not know where channels lead.
#[must_use]
pub fn without_targets(mut page: Page<Channel>) -> Page<Channel> {
    for channel in &mut page.items {
        channel.target = None;
    }
    page
}

/// The body of create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelBody {
    /// Unique in the company.
    pub key: String,
    /// For people.
    pub label: String,
    /// How messages reach people.
    pub kind: Kind,
    /// Where it leads.
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

/// `^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`.
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
    /// Whether the kind may have this target. What a webhook's name resolves to is not asked here: it is checked at each
    /// attempt, since it may be another address by then.
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
                        "a target was refused"
                    );
                    Err(invalid(TARGET_RULE))
                }
            },
        }
    }
}
