//! Requests for access: their fields, limits and refusals.

use contract::Timestamp;
use contract::fields::{Fields, FromBody, Text};
use contract::id::MemberId;
use serde::Serialize;
use serde_json::{Value, json};
use service::refusal::conflict;
use service::{ApiError, Hidden};

use crate::documents::rules::DocumentId;
use crate::shares::rules::ShareRole;

contract::typed_id!(
    /// A request for access, of one company.
    AccessRequestId
);

/// The action of a request's first audit row.
pub const CREATED: &str = "access_request.created";
/// The action of the audit row of a request that is met.
pub const ACCEPTED: &str = "access_request.accepted";
/// The action of the audit row of a request that is refused.
pub const DECLINED: &str = "access_request.declined";
/// The actions of all audit rows of requests.
pub const ACTIONS: [&str; 3] = [CREATED, ACCEPTED, DECLINED];

/// Longest note: half a page.
pub const MAX_NOTE: usize = 1_000;

contract::words! {
    /// The status of a request.
    pub enum Status {
        /// Not decided yet.
        Open = "open",
        /// Met by a share.
        Accepted = "accepted",
        /// Refused.
        Declined = "declined",
    }
}

/// A request as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessRequest {
    /// Minted at creation.
    pub id: AccessRequestId,
    /// The document that it is about.
    pub document_id: DocumentId,
    /// The member who asks.
    pub member_id: MemberId,
    /// The member's current name; `None` while org does not answer.
    pub display_name: Option<String>,
    /// The requested role.
    pub role: ShareRole,
    /// The member's reason; may be empty.
    pub note: String,
    /// Whether it is decided, and how.
    pub status: Status,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was decided.
    pub decided_at: Option<Timestamp>,
    /// The subject that decided it.
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

/// 409 `ACCESS_REQUEST_DECIDED`.
pub(crate) fn decided() -> ApiError {
    conflict("ACCESS_REQUEST_DECIDED", "the request is already decided", Value::Null)
}

/// 409 `MEMBER_RELINKED`: a share gives access to the person who asked, and to no one else.
pub(crate) fn relinked() -> ApiError {
    conflict(
        "MEMBER_RELINKED",
        "the member has another login than the one that made the request",
        Value::Null,
    )
}

/// All audit rows of requests, for a history that leaves them out.
#[must_use]
pub fn entries() -> Vec<Hidden> {
    ACTIONS.iter().map(|action| Hidden { action, payload: json!({}) }).collect()
}
