//! Projects: their fields and request body.

use contract::fields::{Fields, FromBody, Text};
use contract::id::CompanyId;
use serde::Serialize;

contract::typed_id!(
    /// A project of one company.
    ProjectId
);

/// Longest code, in characters.
const MAX_CODE: usize = 20;
/// Longest name, in characters.
const MAX_NAME: usize = 100;

contract::words! {
    /// Whether time may be recorded for a project.
    pub enum Status {
        /// Time may be recorded.
        Active = "active",
        /// Recorded time stays; nothing new may be recorded.
        Inactive = "inactive",
    }
}

/// A project as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Project {
    /// Minted at creation.
    pub id: ProjectId,
    /// The company that it belongs to.
    pub company_id: CompanyId,
    /// The part that clients write.
    #[serde(flatten)]
    pub content: ProjectContent,
}

impl Project {
    /// The subject of the project's audit rows.
    #[must_use]
    pub fn subject(&self) -> String {
        format!("project:{}", self.id)
    }
}

/// The part of a project that clients write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProjectContent {
    /// Unique in the company.
    pub code: String,
    /// A name for display.
    pub name: String,
    /// Whether time may be recorded for it.
    pub status: Status,
}

/// The body of requests to create and update a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectBody {
    code: String,
    name: String,
    status: Option<Status>,
}

impl ProjectBody {
    /// The content of a new project, active by default.
    #[must_use]
    pub fn created(self) -> ProjectContent {
        let status = self.status.unwrap_or(Status::Active);
        ProjectContent { code: self.code, name: self.name, status }
    }

    /// The content that replaces `before`; an absent status is unchanged.
    #[must_use]
    pub fn replacing(self, before: &ProjectContent) -> ProjectContent {
        let status = self.status.unwrap_or(before.status);
        ProjectContent { code: self.code, name: self.name, status }
    }
}

impl FromBody for ProjectBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let code = code(fields);
        let name = fields.text("name", Text::title(MAX_NAME));
        let status = fields.optional_word("status", Status::WORDS);
        Some(Self { code: code?, name: name?, status: status? })
    }
}

/// Reads a code: `^[A-Z0-9_-]{1,20}$`. A lower-case code is refused, not converted, so that clients read what they
/// sent.
fn code(fields: &mut Fields<'_>) -> Option<String> {
    let code = fields.text("code", Text::line(MAX_CODE))?;
    let fits = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    if code.bytes().all(fits) {
        return Some(code);
    }
    fields.refuse("code", "pattern", "only A to Z, 0 to 9, _ and -")
}
