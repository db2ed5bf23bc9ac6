//! Submissions: their fields, who may make which move, and the result.

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
    /// The id of this version.
    pub id: SubmissionId,
    /// The company that it belongs to.
    pub company_id: CompanyId,
    /// The member whose week it is.
    pub member_id: MemberId,
    /// The week.
    pub week_start: Week,
    /// The version number, from 1 without gaps.
    pub version_number: i32,
    /// The id of version 1.
    pub root_id: SubmissionId,
    /// The id of the previous version.
    pub supersedes_id: Option<SubmissionId>,
    /// Whether there is no later version.
    pub is_current: bool,
    /// Its status.
    pub status: Status,
    /// The member who was assigned to decide it.
    pub assigned_approver_member_id: Option<MemberId>,
    /// The reason of a rejection.
    pub reject_reason: Option<String>,
    /// The subject that submitted it; never shown.
    #[serde(skip)]
    pub submitted_by: String,
}

/// The caller's relation to submissions.
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
    /// The caller's permissions.
    pub permissions: Permissions,
}

impl Submission {
    /// Builds the version of a week that follows `before`.
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

    /// The payload of a new version's audit row.
    #[must_use]
    pub fn told(&self) -> Value {
        json!({
            "memberId": self.member_id, "weekStart": self.week_start, "versionNumber": self.version_number,
            "supersedesId": self.supersedes_id, "assignedApproverMemberId": self.assigned_approver_member_id,
        })
    }

    /// Renders the submission for `who`.
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

    /// Whether the submission is the caller's own or assigned to the caller to decide.
    #[must_use]
    pub(crate) fn concerns(&self, who: &Who) -> bool {
        self.is_of(who) || self.is_assigned_to(who)
    }

    /// Whether the caller would decide their own week: as the member, or as the subject that submitted it before the
    /// member was linked to another subject.
    fn is_own(&self, who: &Who) -> bool {
        self.is_of(who) || self.submitted_by == who.subject.as_str()
    }

    /// Whether the caller is the assigned approver.
    pub(super) fn is_assigned_to(&self, who: &Who) -> bool {
        who.member.is_some() && self.assigned_approver_member_id == who.member
    }

    /// Whether the caller may decide the submission; never one's own, whatever other rights the caller has.
    fn is_decided_by(&self, who: &Who) -> bool {
        !self.is_own(who) && (self.is_assigned_to(who) || who.approver)
    }
}

/// A move of a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// Approve the week.
    Approve,
    /// Reject the week, for this reason.
    Reject(String),
    /// Revert a waiting submission or an approval.
    Revert,
}

impl Submission {
    /// Whether only the second decision can give the caller the right to decide.
    pub(super) fn needs_authority(&self, who: &Who) -> bool {
        !self.is_own(who) && !self.is_assigned_to(who)
    }

    /// Checks that the caller may make the move now: first that the caller may decide or owns the submission, then its
    /// state, then that the caller may make this move.
    ///
    /// # Errors
    /// 403 `NOT_APPROVER`, `SELF_APPROVAL` or `NOT_SUBMITTER`; 409 when the state does not allow the move.
    pub fn judge(&self, step: &Move, who: &Who) -> Result<(), ApiError> {
        if !self.is_own(who) && !self.is_decided_by(who) {
            return Err(not_yours("NOT_APPROVER", "the submission is not the caller's to decide"));
        }
        let own = || not_yours("SELF_APPROVAL", "members cannot decide their own weeks");
        let details = || json!({ "status": self.status, "isCurrent": self.is_current });
        if !self.is_current {
            return Err(conflict("SUBMISSION_SUPERSEDED", "a later version has replaced it", details()));
        }
        match (step, self.status) {
            (Move::Revert, Status::Submitted) if self.is_of(who) => Ok(()),
            (Move::Revert, Status::Submitted) => {
                let message = "only the member can take back a waiting submission; reject it instead";
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
    /// Which submissions to list.
    pub enum View {
        /// The caller's own submissions.
        Mine = "mine",
        /// Submissions that the caller is to decide.
        Approvals = "approvals",
        /// All submissions of the company.
        All = "all",
    }
}

/// The body of a request to submit a week.
#[derive(Clone, Copy, Debug)]
pub struct SubmitBody {
    /// The week.
    pub week: Week,
}

impl FromBody for SubmitBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        week(fields, "weekStart").map(|week| Self { week })
    }
}
