//! The task type and the rules for its body.

use contract::fields::{Fields, FromBody, Text};
use contract::id::CompanyId;
use contract::{Subject, Timestamp};
use serde::Serialize;

contract::typed_id!(
    /// A task of one company.
    TaskId
);

/// Longest title, in characters: one line of a list.
const MAX_TITLE: usize = 200;
/// Longest notes, in characters: two pages.
const MAX_NOTES: usize = 4_000;

contract::words! {
    /// Whether the task is done.
    pub enum Status {
        /// There is work left.
        Open = "open",
        /// The task is done.
        Done = "done",
    }
}

/// A task as clients see it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Generated here.
    pub id: TaskId,
    /// The task's company.
    pub company_id: CompanyId,
    /// The subject that created the task.
    pub owner: Subject,
    /// Creation time.
    pub created_at: Timestamp,
    /// The part that clients may change.
    #[serde(flatten)]
    pub content: Content,
}

impl Task {
    /// The subject of the task's audit rows.
    #[must_use]
    pub fn subject(&self) -> String {
        format!("task:{}", self.id)
    }
}

/// The body of create and replace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Content {
    /// Text for people.
    pub title: String,
    /// May be empty.
    pub notes: String,
    /// `Open` by default.
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
