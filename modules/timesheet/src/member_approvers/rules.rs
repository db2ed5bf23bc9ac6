//! What an assignment is and what its body may hold.

use contract::fields::{Fields, FromBody};
use contract::id::{CompanyId, MemberId};
use contract::timestamp::Timestamp;
use serde::Serialize;
use serde_json::json;
use service::ApiError;
use service::clients::org::{Found, Wanted};

use service::refusal::broken;

/// An assignment as clients see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Assignment {
    /// Whose it is.
    pub company_id: CompanyId,
    /// Whose weeks.
    pub member_id: MemberId,
    /// Who decides them.
    pub approver_member_id: MemberId,
    /// Since when the approver is this one.
    pub assigned_at: Timestamp,
}

/// The body of an assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Whose weeks.
    pub member: MemberId,
    /// Who is to decide them.
    pub approver: MemberId,
}

impl FromBody for Wish {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let member = fields.uuid("memberId");
        let approver = fields.uuid("approverMemberId");
        Some(Self { member: member?, approver: approver? })
    }
}

impl Wish {
    /// Nobody approves their own weeks.
    ///
    /// # Errors
    /// 422 `APPROVER_IS_SELF`.
    pub fn of_two(self) -> Result<Self, ApiError> {
        if self.member == self.approver {
            let message = "a member cannot be their own approver";
            return Err(broken("APPROVER_IS_SELF", message, json!({ "memberId": self.member })));
        }
        Ok(self)
    }

    /// What org is asked.
    #[must_use]
    pub fn wanted(self) -> Wanted {
        Wanted { member_ids: vec![self.member, self.approver], ..Wanted::default() }
    }

    /// Both are active members of the company.
    ///
    /// # Errors
    /// 422 `MEMBER_UNKNOWN` naming those who are not.
    pub fn check(self, found: &Found) -> Result<(), ApiError> {
        let unknown: Vec<MemberId> =
            [self.member, self.approver].into_iter().filter(|id| !found.is_active_member(*id)).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let message = "not an active member of the company";
        Err(broken("MEMBER_UNKNOWN", message, json!({ "memberIds": unknown })))
    }
}
