//! Reads and checks the body of an event.

use contract::Subject;
use contract::fields::{Fields, FromBody, Text};
use contract::id::CompanyId;
use serde::Serialize;

use crate::channels::rules::key;
use crate::messages::rules::{Content, MessageId, content};

/// Longest `dedupeKey`, in characters.
const MAX_DEDUPE_KEY: usize = 200;
/// Longest `sourceModule` in characters, as of a module's key.
const MAX_MODULE: usize = 32;
/// Longest `eventType`, in characters.
const MAX_EVENT_TYPE: usize = 64;

/// The body of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventBody {
    /// The company that it belongs to.
    pub company: CompanyId,
    /// The module that posts it.
    pub source_module: String,
    /// What happened.
    pub event_type: String,
    /// The channel's key.
    pub channel_key: String,
    /// The content of the message.
    pub content: Content,
    /// The key under which an event of this module and company is published once.
    pub dedupe_key: String,
    /// The subject that a module's worker acts for; with a user's bearer it is not used.
    pub subject: Option<Subject>,
}

/// The result of posting an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Posted {
    /// Its message; `None` when the company has no such channel.
    pub message_id: Option<MessageId>,
    /// Whether it had already been published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deduplicated: Option<bool>,
}

impl FromBody for EventBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let company = fields.uuid("companyId");
        let source_module = word(fields, "sourceModule", MAX_MODULE, b"_");
        let event_type = word(fields, "eventType", MAX_EVENT_TYPE, b"_.");
        let channel_key = key(fields, "channelKey");
        let content = content(fields);
        let dedupe_key = fields.text("dedupeKey", Text::line(MAX_DEDUPE_KEY));
        let subject = fields.raw("subject").map(|_| fields.subject("subject"));
        Some(Self {
            company: company?,
            source_module: source_module?,
            event_type: event_type?,
            channel_key: channel_key?,
            content: content?,
            dedupe_key: dedupe_key?,
            subject: match subject {
                None => None,
                Some(read) => Some(read?),
            },
        })
    }
}

/// Reads lower-case letters, digits and `others`, beginning with a letter.
fn word(fields: &mut Fields<'_>, name: &str, max: usize, others: &[u8]) -> Option<String> {
    let word = fields.text(name, Text::line(max))?;
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || others.contains(&byte);
    if word.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase()) && word.bytes().all(fits) {
        return Some(word);
    }
    fields.refuse(name, "pattern", "lower-case letters, digits and separators, beginning with a letter")
}
