//! What a message is, what bodies may hold, and the bytes that are sent.

use contract::Timestamp;
use contract::fields::{Fields, FromBody, Text};
use contract::id::{CompanyId, MemberId};
use serde::{Deserialize, Serialize};
use service::ApiError;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::channels::rules::ChannelId;

contract::typed_id!(
    /// A message of one company.
    MessageId
);

/// Longest subject line (module contract, "Limits").
const MAX_SUBJECT_LINE: usize = 200;
/// Longest body: a screen or two of text.
const MAX_BODY: usize = 10_000;
/// Longest text of a moment: RFC 3339 with nanoseconds and an offset fits.
const MAX_MOMENT: usize = 40;
/// The type of what webhooks are sent, unless a module posted an event of its own.
pub const MESSAGE_CREATED: &str = "notification.message.created";

/// A message as one caller sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Minted here.
    pub id: MessageId,
    /// Whose it is.
    pub company_id: CompanyId,
    /// Through which channel it went.
    pub channel_id: ChannelId,
    /// One line.
    pub subject_line: String,
    /// Text.
    pub body: String,
    /// The subject of the identity provider that sent it, or the system's worker.
    pub created_by: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When the caller read it.
    pub read_at: Option<Timestamp>,
}

/// The subject of a message's audit rows.
#[must_use]
pub fn subject(id: MessageId) -> String {
    format!("message:{id}")
}

/// Which messages a caller sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sees {
    /// All of the company.
    All,
    /// Those of in-app channels, and of channels that the member subscribes to.
    Own(Option<MemberId>),
}

impl Sees {
    /// Whether that is all.
    pub(crate) const fn is_all(self) -> bool {
        matches!(self, Self::All)
    }

    /// The member whose subscriptions count.
    pub(crate) fn member(self) -> Option<uuid::Uuid> {
        match self {
            Self::All => None,
            Self::Own(member) => member.map(MemberId::as_uuid),
        }
    }
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// One line.
    pub subject_line: String,
    /// Text.
    pub body: String,
}

/// Reads `subjectLine` and `body`.
pub fn content(fields: &mut Fields<'_>) -> Option<Content> {
    let subject_line = subject_line(fields);
    let body = fields.text("body", Text::prose(1, MAX_BODY));
    Some(Content { subject_line: subject_line?, body: body? })
}

/// One line without control characters. The separators of lines and paragraphs are counted among them, as the database
/// does: a mail's header may not be broken by anything.
fn subject_line(fields: &mut Fields<'_>) -> Option<String> {
    let line = fields.text("subjectLine", Text::line(MAX_SUBJECT_LINE))?;
    if line.contains(['\u{2028}', '\u{2029}']) {
        return fields.refuse("subjectLine", "control", "no control characters");
    }
    Some(line)
}

/// The body of create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageBody {
    /// Through which channel.
    pub channel: ChannelId,
    /// What it says.
    pub content: Content,
}

impl FromBody for MessageBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let channel = fields.uuid("channelId");
        let content = content(fields);
        Some(Self { channel: channel?, content: content? })
    }
}

/// The body of read-all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAllBody {
    /// Messages that are not younger than this.
    pub before: OffsetDateTime,
}

impl FromBody for ReadAllBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self { before: moment(fields, "before")? })
    }
}

/// A moment in RFC 3339.
pub(crate) fn moment(fields: &mut Fields<'_>, name: &str) -> Option<OffsetDateTime> {
    let text = fields.text(name, Text::line(MAX_MOMENT))?;
    let read = OffsetDateTime::parse(&text, &Rfc3339).ok();
    read.or_else(|| fields.refuse(name, "date-time", "a moment such as 2026-11-22T09:30:00.000Z"))
}

#[derive(Serialize)]
struct Webhook<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    timestamp: Timestamp,
    data: WebhookData<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WebhookData<'a> {
    id: MessageId,
    company_id: CompanyId,
    channel_id: ChannelId,
    channel_key: &'a str,
    subject_line: &'a str,
    body: &'a str,
    created_by: &'a str,
    created_at: Timestamp,
}

/// The bytes of a webhook's body; every attempt sends the same.
///
/// # Errors
/// 500: it cannot be written as JSON.
pub fn webhook_payload(message: &Message, channel_key: &str, kind: &str) -> Result<String, ApiError> {
    let data = WebhookData {
        id: message.id,
        company_id: message.company_id,
        channel_id: message.channel_id,
        channel_key,
        subject_line: &message.subject_line,
        body: &message.body,
        created_by: &message.created_by,
        created_at: message.created_at,
    };
    let webhook = Webhook { kind, timestamp: message.created_at, data };
    serde_json::to_string(&webhook).map_err(ApiError::internal)
}

/// What a mail is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MailPayload {
    /// One line.
    pub subject_line: String,
    /// Text.
    pub body: String,
    /// When the message was made.
    #[serde(with = "time::serde::timestamp")]
    pub created_at: OffsetDateTime,
}
