//! Messages: their fields, limits and request bodies, and the payloads of deliveries.

use contract::Timestamp;
use contract::fields::{Fields, FromBody, Text};
use contract::id::{CompanyId, MemberId};
use serde::{Deserialize, Serialize};
use service::ApiError;
use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, UtcOffset};

use crate::channels::rules::ChannelId;

contract::typed_id!(
    /// A message of one company.
    MessageId
);

/// Longest subject line, in characters (module contract, "Limits").
const MAX_SUBJECT_LINE: usize = 200;
/// Longest body in characters: a screen or two of text.
const MAX_BODY: usize = 10_000;
/// Longest timestamp in characters: RFC 3339 with nanoseconds and an offset fits.
const MAX_MOMENT: usize = 40;
/// The type in webhook payloads, unless a module posted its own event.
pub const MESSAGE_CREATED: &str = "notification.message.created";

/// A message as one caller sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Minted at creation.
    pub id: MessageId,
    /// The company that it belongs to.
    pub company_id: CompanyId,
    /// The channel that it went through.
    pub channel_id: ChannelId,
    /// The subject line.
    pub subject_line: String,
    /// The text.
    pub body: String,
    /// The identity provider's subject that sent it, or the system's worker.
    pub created_by: String,
    /// When it was created.
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
    /// All messages of the company.
    All,
    /// Messages of in-app channels, and of channels that the member subscribes to.
    Own(Option<MemberId>),
}

impl Sees {
    /// Whether the caller sees all messages.
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

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The subject line.
    pub subject_line: String,
    /// The text.
    pub body: String,
}

/// Reads `subjectLine` and `body`.
pub fn content(fields: &mut Fields<'_>) -> Option<Content> {
    let subject_line = subject_line(fields);
    let body = fields.text("body", Text::prose(1, MAX_BODY));
    Some(Content { subject_line: subject_line?, body: body? })
}

/// Reads a line without control characters. Line and paragraph separators count as control characters, as in the
/// database, because nothing may break a mail's header.
fn subject_line(fields: &mut Fields<'_>) -> Option<String> {
    let line = fields.text("subjectLine", Text::line(MAX_SUBJECT_LINE))?;
    if line.contains(['\u{2028}', '\u{2029}']) {
        return fields.refuse("subjectLine", "control", "no control characters");
    }
    Some(line)
}

/// The body of a request to publish a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageBody {
    /// The channel to publish through.
    pub channel: ChannelId,
    /// The content.
    pub content: Content,
}

impl FromBody for MessageBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let channel = fields.uuid("channelId");
        let content = content(fields);
        Some(Self { channel: channel?, content: content? })
    }
}

/// The body of a request to mark all messages as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAllBody {
    /// The latest creation time of the messages to mark.
    pub before: OffsetDateTime,
}

impl FromBody for ReadAllBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self { before: moment(fields, "before")? })
    }
}

/// Reads a timestamp in RFC 3339, which must lie before the year 10000 in UTC as well.
pub(crate) fn moment(fields: &mut Fields<'_>, name: &str) -> Option<OffsetDateTime> {
    let text = fields.text(name, Text::line(MAX_MOMENT))?;
    let read = OffsetDateTime::parse(&text, &Rfc3339).ok();
    let read = read.and_then(|at| at.checked_to_offset(UtcOffset::UTC));
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

/// The body of a webhook request; every attempt sends the same bytes.
///
/// # Errors
/// 500 when it cannot be serialized as JSON.
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

/// The stored content of a mail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MailPayload {
    /// The subject line.
    pub subject_line: String,
    /// The text.
    pub body: String,
    /// When the message was created.
    #[serde(with = "time::serde::timestamp")]
    pub created_at: OffsetDateTime,
}
