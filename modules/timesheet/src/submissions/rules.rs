//! What a submission is, who may move it, and whither.

use contract::Subject;
use contract::fields::{Fields, FromBody};
use contract::id::{CompanyId, MemberId};
use serde::Serialize;
use serde_json::{Value, json};
use service::{ApiError, Permit};

use crate::weeks::rules::{Current, Status, SubmissionId, Week, week};
use service::refusal::{conflict, not_yours};

/// One version of a week's submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Submission {
    /// This version.
    pub id: SubmissionId,
    /// Whose it is.
    pub company_id: CompanyId,
    /// Whose week.
    pub member_id: MemberId,
    /// Which week.
    pub week_start: Week,
    /// From 1, without gaps.
    pub version_number: i32,
    /// Version 1.
    pub root_id: SubmissionId,
    /// The version before.
    pub supersedes_id: Option<SubmissionId>,
    /// Whether no later version is there.
    pub is_current: bool,
    /// What it has come to.
    pub status: Status,
    /// Who was asked to decide.
    pub assigned_approver_member_id: Option<MemberId>,
    /// Of a rejection.
    pub reject_reason: Option<String>,
    /// Whose token made it; never shown.
    #[serde(skip)]
    pub submitted_by: String,
}

/// A caller before a submission.
#[derive(Clone, Debug)]
pub struct Who {
    /// The bearer's subject.
    pub subject: Subject,
    /// The caller's member row; an operator may have none.
    pub member: Option<MemberId>,
    /// Whether the caller may decide any member's week.
    pub approver: bool,
}

/// What the caller may do with a submission now: true exactly when the call would succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Permissions {
    can_approve: bool,
    can_reject: bool,
    can_revert: bool,
}

/// A submission as one caller sees it.
#[derive(Clone, Debug, Serialize)]
pub struct Shown {
    /// The submission.
    #[serde(flatten)]
    pub submission: Submission,
    /// Of the caller.
    pub permissions: Permissions,
}

impl Submission {
    /// The version of a week that follows `before`.
    #[must_use]
    pub fn next(
        permit: &Permit,
        member: MemberId,
        week: Week,
        before: Option<Current>,
        approver: Option<MemberId>,
    ) -> Self {
        let id = SubmissionId::mint();
        Self {
            id,
            company_id: permit.company,
            member_id: member,
            week_start: week,
            version_number: before.map_or(1, |before| before.version.saturating_add(1)),
            root_id: before.map_or(id, |before| before.root),
            supersedes_id: before.map(|before| before.id),
            is_current: true,
            status: Status::Submitted,
            assigned_approver_member_id: approver,
            reject_reason: None,
            submitted_by: permit.subject.as_str().to_owned(),
        }
    }

    /// What the audit row tells of a new version.
    #[must_use]
    pub fn told(&self) -> Value {
        json!({
            "memberId": self.member_id, "weekStart": self.week_start, "versionNumber": self.version_number,
            "supersedesId": self.supersedes_id, "assignedApproverMemberId": self.assigned_approver_member_id,
        })
    }

    /// The submission as `who` sees it.
    #[must_use]
    pub fn shown_to(self, who: &Who) -> Shown {
        let permissions = self.permissions(who);
        Shown { submission: self, permissions }
    }

    fn permissions(&self, who: &Who) -> Permissions {
        let waits = self.is_current && self.status == Status::Submitted;
        let approved = self.is_current && self.status == Status::Approved;
        let decides = self.is_decided_by(who);
        Permissions {
            can_approve: waits && decides,
            can_reject: waits && decides,
            can_revert: (waits && self.is_of(who)) || (approved && decides),
        }
    }

    /// Whether it is the caller's own week.
    fn is_of(&self, who: &Who) -> bool {
        who.member == Some(self.member_id)
    }

    /// Whether the submission is the caller's own or his to decide, whatever else he holds.
    #[must_use]
    pub(crate) fn concerns(&self, who: &Who) -> bool {
        self.is_of(who) || self.is_assigned_to(who)
    }

    /// Whether the caller would decide about himself: as the member, or as the subject that submitted the week before
    /// the member was linked to another.
    fn is_own(&self, who: &Who) -> bool {
        self.is_of(who) || self.submitted_by == who.subject.as_str()
    }

    /// Whether the caller is the one who was asked.
    pub(super) fn is_assigned_to(&self, who: &Who) -> bool {
        who.member.is_some() && self.assigned_approver_member_id == who.member
    }

    /// Nobody decides his own week, whatever he holds.
    fn is_decided_by(&self, who: &Who) -> bool {
        !self.is_own(who) && (self.is_assigned_to(who) || who.approver)
    }
}

/// What a caller wants to do with a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// Accept the week.
    Approve,
    /// Send the week back, for this reason.
    Reject(String),
    /// Take back a waiting submission, or an approval.
    Revert,
}

impl Submission {
    /// Whether only the second decision can make the caller one who decides.
    pub(super) fn needs_authority(&self, who: &Who) -> bool {
        !self.is_own(who) && !self.is_assigned_to(who)
    }

    /// Whether the caller may make the move now: first that the submission is the caller's concern at all, then its
    /// state, then that the move is the caller's.
    ///
    /// # Errors
    /// 403 `NOT_APPROVER`, `SELF_APPROVAL`, `NOT_SUBMITTER`; 409 of the state.
    pub fn judge(&self, step: &Move, who: &Who) -> Result<(), ApiError> {
        if !self.is_own(who) && !self.is_decided_by(who) {
            return Err(not_yours("NOT_APPROVER", "the submission is not the caller's to decide"));
        }
        let own = || not_yours("SELF_APPROVAL", "members cannot decide their own weeks");
        let details = || json!({ "status": self.status, "isCurrent": self.is_current });
        if !self.is_current {
            return Err(conflict("SUBMISSION_SUPERSEDED", "a later version took its place", details()));
        }
        match (step, self.status) {
            (Move::Revert, Status::Submitted) if self.is_of(who) => Ok(()),
            (Move::Revert, Status::Submitted) => {
                let message = "only the member takes back a waiting submission; reject it instead";
                Err(not_yours("NOT_SUBMITTER", message))
            }
            (Move::Revert, Status::Approved) | (Move::Approve | Move::Reject(_), Status::Submitted) => {
                if self.is_own(who) { Err(own()) } else { Ok(()) }
            }
            (Move::Revert, Status::Rejected | Status::Reverted) => {
                let message = "only a waiting or approved submission can be reverted";
                Err(conflict("SUBMISSION_NOT_REVERTIBLE", message, details()))
            }
            (Move::Approve | Move::Reject(_), Status::Approved | Status::Rejected | Status::Reverted) => {
                let message = "the submission does not wait for a decision";
                Err(conflict("SUBMISSION_NOT_PENDING", message, details()))
            }
        }
    }
}

contract::words! {
    /// Which submissions a caller wants to see.
    pub enum View {
        /// The caller's.
        Mine = "mine",
        /// Those that the caller is to decide.
        Approvals = "approvals",
        /// The company's.
        All = "all",
    }
}

/// The body of a submission.
#[derive(Clone, Copy, Debug)]
pub struct SubmitBody {
    /// Which week.
    pub week: Week,
}

impl FromBody for SubmitBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        week(fields, "weekStart").map(|week| Self { week })
    }
}
