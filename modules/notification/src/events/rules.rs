//! What the body of an event may hold.

use contract::Subject;
use contract::fields::{Fields, FromBody, Text};
use contract::id::CompanyId;
use serde::Serialize;

use crate::channels::rules::key;
use crate::messages::rules::{Content, MessageId, content};

/// Longest `dedupeKey`.
const MAX_DEDUPE_KEY: usize = 200;
/// Longest `sourceModule`: of a module's key.
const MAX_MODULE: usize = 32;
/// Longest `eventType`.
const MAX_EVENT_TYPE: usize = 64;

/// The body of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventBody {
    /// In which company.
    pub company: CompanyId,
    /// The module that posts it.
    pub source_module: String,
    /// What happened.
    pub event_type: String,
    /// The channel's key.
    pub channel_key: String,
    /// What the message says.
    pub content: Content,
    /// Of one module and company, each is published once.
    pub dedupe_key: String,
    /// In whose name a module's worker posts it; with a user's bearer it is the bearer's.
    pub subject: Option<Subject>,
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Posted {
    /// Its message; `None`: the company has no such channel.
    pub message_id: Option<MessageId>,
    /// It was published before.
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

/// Lower-case letters, digits and `others`, beginning with a letter.
fn word(fields: &mut Fields<'_>, name: &str, max: usize, others: &[u8]) -> Option<String> {
    let word = fields.text(name, Text::line(max))?;
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || others.contains(&byte);
    if word.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase()) && word.bytes().all(fits) {
        return Some(word);
    }
    fields.refuse(name, "pattern", "lower-case letters, digits and separators, beginning with a letter")
}
