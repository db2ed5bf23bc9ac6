//! Comments: their fields, limits and request body. Comments are added, never changed.

use contract::Timestamp;
use contract::fields::{Fields, FromBody, Text};
use serde::Serialize;
use serde_json::{Value, json};
use service::Hidden;
use service::refusal::not_yours;

use crate::tickets::rules::TicketId;

contract::typed_id!(
    /// A comment on a ticket.
    CommentId
);

/// Most comments in one list, which shows the latest.
pub const MAX_COMMENTS: usize = 1_000;
/// Longest comment, in characters.
const MAX_BODY: usize = 10_000;
/// The action of a comment's audit row.
pub(crate) const ADDED: &str = "comment.added";

contract::words! {
    /// Who sees a comment.
    pub enum Visibility {
        /// Everyone who may view the ticket.
        Public = "public",
        /// Those who work on tickets.
        Internal = "internal",
    }
}

/// A comment as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comment {
    /// Minted at creation.
    pub id: CommentId,
    /// The ticket that it is on.
    pub ticket_id: TicketId,
    /// The subject that wrote it.
    pub author_kc_sub: String,
    /// 1 to 10000 characters.
    pub body: String,
    /// Who sees it.
    pub visibility: Visibility,
    /// When it was written.
    pub created_at: Timestamp,
}

/// The body of a request to add a comment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommentBody {
    /// The text.
    pub body: String,
    /// Public by default.
    pub visibility: Visibility,
}

impl FromBody for CommentBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let body = fields.text("body", Text::prose(1, MAX_BODY));
        let visibility = fields.optional_word("visibility", Visibility::WORDS);
        Some(Self { body: body?, visibility: visibility?.unwrap_or(Visibility::Public) })
    }
}

/// 403 `NOT_AGENT`.
pub(crate) fn not_agent() -> service::ApiError {
    not_yours("NOT_AGENT", "only those who work on tickets may write internal comments")
}

/// The payload of a comment's audit row, without its text.
pub(crate) fn told(comment: &Comment) -> Value {
    json!({ "commentId": comment.id, "visibility": comment.visibility })
}

/// The entries of a ticket's history that are about internal comments.
#[must_use]
pub fn internal_notes() -> Hidden {
    Hidden { action: ADDED, payload: json!({ "visibility": Visibility::Internal }) }
}
