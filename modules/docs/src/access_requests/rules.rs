//! What a request for access is.

use contract::Timestamp;
use contract::fields::{Fields, FromBody, Text};
use contract::id::MemberId;
use serde::Serialize;
use serde_json::Value;
use service::ApiError;
use service::refusal::conflict;

use crate::documents::rules::DocumentId;
use crate::shares::rules::ShareRole;

contract::typed_id!(
    /// A request for access, of one company.
    AccessRequestId
);

/// Longest note: half a page.
pub const MAX_NOTE: usize = 1_000;

contract::words! {
    /// Where a request stands.
    pub enum Status {
        /// It waits.
        Open = "open",
        /// A share meets it.
        Accepted = "accepted",
        /// It was refused.
        Declined = "declined",
    }
}

/// A request as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessRequest {
    /// Minted when it was made.
    pub id: AccessRequestId,
    /// For which document.
    pub document_id: DocumentId,
    /// Who asks.
    pub member_id: MemberId,
    /// The member's name of now, where org says it.
    pub display_name: Option<String>,
    /// For what.
    pub role: ShareRole,
    /// Why; may be empty.
    pub note: String,
    /// Where it stands.
    pub status: Status,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was decided.
    pub decided_at: Option<Timestamp>,
    /// By which subject.
    pub decided_by: Option<String>,
}

/// The body of a request.
pub(crate) struct RequestBody {
    pub(crate) role: ShareRole,
    pub(crate) note: String,
}

impl FromBody for RequestBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let role = fields.word("role", ShareRole::WORDS);
        let note = fields.optional_text("note", Text::prose(0, MAX_NOTE));
        Some(Self { role: role?, note: note?.unwrap_or_default() })
    }
}

/// 409.
pub(crate) fn decided() -> ApiError {
    conflict("ACCESS_REQUEST_DECIDED", "the request is decided", Value::Null)
}
