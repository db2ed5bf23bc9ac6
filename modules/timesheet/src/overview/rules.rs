//! A member's week as the overview shows it.

use std::collections::BTreeMap;

use contract::id::MemberId;
use serde::Serialize;
use service::clients::directory::DirectoryEntry;

use crate::submission_entries::rules::Totals;
use crate::weeks::rules::{Status, SubmissionId};

contract::words! {
    /// The state of a member's week.
    pub enum State {
        /// Never submitted.
        None = "none",
        /// It waits for a decision.
        Submitted = "submitted",
        /// It was accepted.
        Approved = "approved",
        /// It was sent back.
        Rejected = "rejected",
        /// The submission or its approval was reverted.
        Reverted = "reverted",
    }
}

impl State {
    /// Derives it from the week's current submission.
    #[must_use]
    pub const fn of(current: Option<Status>) -> Self {
        match current {
            None => Self::None,
            Some(Status::Submitted) => Self::Submitted,
            Some(Status::Approved) => Self::Approved,
            Some(Status::Rejected) => Self::Rejected,
            Some(Status::Reverted) => Self::Reverted,
        }
    }
}

/// The current submission of a week, and the week's present hours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberWeek {
    /// The current submission.
    pub current: Option<(SubmissionId, Status)>,
    /// The sums of the entries.
    pub totals: Totals,
}

/// One active member's week.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OverviewRow {
    /// The member.
    pub member_id: MemberId,
    /// The member's name, for display.
    pub member_name: String,
    /// The state of the week.
    pub state: State,
    /// The current submission.
    pub submission_id: Option<SubmissionId>,
    /// Hours recorded.
    pub totals: Totals,
}

/// Builds the rows of these members, in their order.
#[must_use]
pub fn rows(members: Vec<DirectoryEntry>, weeks: &BTreeMap<MemberId, MemberWeek>) -> Vec<OverviewRow> {
    let row = |member: DirectoryEntry| {
        let week = weeks.get(&member.id).copied().unwrap_or_default();
        OverviewRow {
            member_id: member.id,
            member_name: member.display_name,
            state: State::of(week.current.map(|(_, status)| status)),
            submission_id: week.current.map(|(id, _)| id),
            totals: week.totals,
        }
    };
    members.into_iter().map(row).collect()
}
