//! Comments: their fields and limits.

use contract::Timestamp;
use contract::fields::{Fields, FromBody, Text};
use serde::Serialize;

use crate::documents::rules::DocumentId;

contract::typed_id!(
    /// A comment of one company.
    CommentId
);

/// Longest comment: four pages.
pub const MAX_COMMENT: usize = 10_000;

contract::words! {
    /// Which comments to list.
    pub enum Which {
        /// Unresolved comments.
        Open = "open",
        /// Resolved comments.
        Resolved = "resolved",
        /// Both kinds.
        All = "all",
    }
}

/// A comment as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comment {
    /// Minted at creation.
    pub id: CommentId,
    /// The document that it is about.
    pub document_id: DocumentId,
    /// The document's version when the comment was written.
    pub version: i32,
    /// 1 to [`MAX_COMMENT`] characters.
    pub body: String,
    /// The subject that wrote it.
    pub author: String,
    /// When it was written.
    pub created_at: Timestamp,
    /// When it was resolved.
    pub resolved_at: Option<Timestamp>,
    /// The subject that resolved it.
    pub resolved_by: Option<String>,
}

/// The body of a new comment.
pub(crate) struct CommentBody(pub(crate) String);

impl FromBody for CommentBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self(fields.text("body", Text::prose(1, MAX_COMMENT))?))
    }
}
