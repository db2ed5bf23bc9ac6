//! Assignments of approvers: their fields and request body.

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
    /// The company that it belongs to.
    pub company_id: CompanyId,
    /// The member whose weeks are decided.
    pub member_id: MemberId,
    /// The member who decides them.
    pub approver_member_id: MemberId,
    /// When this approver was assigned.
    pub assigned_at: Timestamp,
}

/// The body of a request to assign an approver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The member whose weeks are decided.
    pub member: MemberId,
    /// The member who is to decide them.
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
    /// Checks that the approver is another member.
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

    /// The look-up in org that [`Self::check`] needs.
    #[must_use]
    pub fn wanted(self) -> Wanted {
        Wanted { member_ids: vec![self.member, self.approver], ..Wanted::default() }
    }

    /// Checks that both are active members of the company.
    ///
    /// # Errors
    /// 422 `MEMBER_UNKNOWN`, which names those who are not.
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
