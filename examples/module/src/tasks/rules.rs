//! What a task is and what its body may hold.

use contract::fields::{Fields, FromBody, Text};
use contract::id::CompanyId;
use contract::{Subject, Timestamp};
use serde::Serialize;

contract::typed_id!(
    /// A task of one company.
    TaskId
);

/// Longest title: one line of a list.
const MAX_TITLE: usize = 200;
/// Longest notes: two pages.
const MAX_NOTES: usize = 4_000;

contract::words! {
    /// Whether there is something left to do.
    pub enum Status {
        /// There is.
        Open = "open",
        /// There is not.
        Done = "done",
    }
}

/// A task as clients see it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Minted here.
    pub id: TaskId,
    /// Whose it is.
    pub company_id: CompanyId,
    /// The subject that made it.
    pub owner: Subject,
    /// When.
    pub created_at: Timestamp,
    /// What a client may change.
    #[serde(flatten)]
    pub content: Content,
}

impl Task {
    /// The subject of its audit rows.
    #[must_use]
    pub fn subject(&self) -> String {
        format!("task:{}", self.id)
    }
}

/// The body of create and replace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Content {
    /// For people.
    pub title: String,
    /// Empty when there is nothing to say.
    pub notes: String,
    /// Open when the body does not say.
    pub status: Status,
}

impl FromBody for Content {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let title = fields.text("title", Text::title(MAX_TITLE));
        let notes = fields.optional_text("notes", Text::prose(0, MAX_NOTES));
        let status = fields.optional_word("status", Status::WORDS);
        Some(Self {
            title: title?,
            notes: notes?.unwrap_or_default(),
            status: status?.unwrap_or(Status::Open),
        })
    }
}
