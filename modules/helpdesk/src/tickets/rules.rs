//! Tickets: their fields, what a caller is to one, and who may make which move.

use contract::fields::{Fields, FromBody, Text};
use contract::id::{CompanyId, GroupId, MemberId, PositionId};
use contract::principal::PrincipalKind;
use contract::{Principal, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};
use service::ApiError;
use service::clients::org::MemberContext;
use service::refusal::{conflict, not_yours};
use time::OffsetDateTime;

use super::names::Names;
use crate::tiers::rules::Tier;

contract::typed_id!(
    /// A ticket of one company.
    TicketId
);

/// Most tickets in one list or search; the module contract has no pages for the list.
pub const MAX_ROWS: usize = 1_000;
/// Most text in one list, in bytes of UTF-8: titles and descriptions of tickets, or bodies of comments. It is two
/// thousand bytes for each of a thousand tickets; a list with more text is cut to fewer rows, never to parts of one.
pub const MAX_TEXT: usize = 2 * 1_024 * 1_024;
/// Longest title in characters: one line of a list.
const MAX_TITLE: usize = 200;
/// Longest description in characters: ten pages.
const MAX_DESCRIPTION: usize = 20_000;

contract::words! {
    /// Which tickets to list.
    pub enum View {
        /// Tickets reported by the caller, or assigned to the caller or to a position or group of the caller.
        Mine = "mine",
        /// Every ticket of the company.
        All = "all",
    }
}

contract::words! {
    /// The status of a ticket.
    pub enum Status {
        /// Work on it has not begun.
        Open = "open",
        /// Work on it is in progress.
        InProgress = "in_progress",
        /// The assignee considers it done.
        Resolved = "resolved",
        /// It is done.
        Closed = "closed",
    }
}

contract::words! {
    /// How urgent a ticket is.
    pub enum Priority {
        /// When there is time.
        Low = "low",
        /// As usual.
        Normal = "normal",
        /// Before the usual.
        High = "high",
        /// Before everything else.
        Urgent = "urgent",
    }
}

/// A ticket as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTicket {
    /// Minted at creation.
    pub id: TicketId,
    /// The company that it belongs to.
    pub company: CompanyId,
    /// The ticket's number: from 1, without gaps in a company.
    pub number: i64,
    /// 1 to 200 characters.
    pub title: String,
    /// What it is about.
    pub description: String,
    /// Its status.
    pub status: Status,
    /// Its priority.
    pub priority: Priority,
    /// The member who opened it.
    pub reporter: MemberId,
    /// The assignee, who works on it.
    pub assignee: Option<Principal>,
    /// The assignee's name or title at assignment.
    pub assignee_label: Option<String>,
    /// When it was resolved, while it is.
    pub resolved_at: Option<OffsetDateTime>,
    /// When it was opened.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// A ticket as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ticket {
    id: TicketId,
    company_id: CompanyId,
    number: i64,
    title: String,
    description: String,
    status: Status,
    priority: Priority,
    reporter_member_id: MemberId,
    assignee_member_id: Option<MemberId>,
    assignee_kind: Option<PrincipalKind>,
    assignee_position_id: Option<PositionId>,
    assignee_position_title: Option<String>,
    assignee_group_id: Option<GroupId>,
    assignee_group_title: Option<String>,
    assignee_display_name: Option<String>,
    my_tier: Tier,
    is_reporter: bool,
    is_assignee: bool,
    created_at: Timestamp,
    updated_at: Timestamp,
}

/// The subject of a ticket's audit rows.
#[must_use]
pub fn subject(id: TicketId) -> String {
    format!("ticket:{id}")
}

impl StoredTicket {
    /// Whether the caller opened the ticket; false for an operator without a member row.
    #[must_use]
    pub fn is_reported_by(&self, caller: Option<&MemberContext>) -> bool {
        caller.is_some_and(|caller| caller.member == self.reporter)
    }

    /// Whether the caller is the assigned member, holds the position or is in the group now.
    #[must_use]
    pub fn is_assigned_to(&self, caller: Option<&MemberContext>) -> bool {
        caller.zip(self.assignee).is_some_and(|(caller, assignee)| caller.is(assignee))
    }

    /// Renders the ticket for a caller of tier `tier`; `caller` is `None` for an operator without a member row.
    #[must_use]
    pub fn seen_by(self, caller: Option<&MemberContext>, tier: Tier, names: &Names) -> Ticket {
        let (is_reporter, is_assignee) = (self.is_reported_by(caller), self.is_assigned_to(caller));
        let label = self.assignee.and_then(|assignee| names.of(assignee)).or(self.assignee_label);
        let position = self.assignee.and_then(Principal::position);
        let group = self.assignee.and_then(Principal::group);
        Ticket {
            id: self.id,
            company_id: self.company,
            number: self.number,
            title: self.title,
            description: self.description,
            status: self.status,
            priority: self.priority,
            reporter_member_id: self.reporter,
            assignee_member_id: self.assignee.and_then(Principal::member),
            assignee_kind: self.assignee.map(Principal::kind),
            assignee_position_id: position,
            assignee_position_title: position.and_then(|_| label.clone()),
            assignee_group_id: group,
            assignee_group_title: group.and_then(|_| label.clone()),
            assignee_display_name: label,
            my_tier: tier,
            is_reporter,
            is_assignee,
            created_at: self.created_at,
            updated_at: self.updated_at,
        }
    }

    /// Refuses comments and assignments on a closed ticket.
    ///
    /// # Errors
    /// 409 `TICKET_CLOSED`.
    pub fn check_open(&self) -> Result<(), ApiError> {
        if self.status == Status::Closed { Err(closed()) } else { Ok(()) }
    }
}

/// 409: the ticket is closed.
#[must_use]
pub fn closed() -> ApiError {
    conflict("TICKET_CLOSED", "the ticket is closed; reopen it first", Value::Null)
}

/// 404 for an unknown ticket.
#[must_use]
pub fn unknown() -> ApiError {
    ApiError::NotFound("ticket".into())
}

/// 403 `NOT_TICKET_PARTY`: the caller is neither a party to the ticket nor an agent.
#[must_use]
pub fn not_party() -> ApiError {
    not_yours("NOT_TICKET_PARTY", "the caller is neither the reporter nor the assignee of the ticket")
}

/// A role that a caller has in a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Agent,
    Assignee,
    Reporter,
}

/// Who may make a move; empty when there is no such move.
const fn movers(from: Status, to: Status) -> &'static [Part] {
    use Part::{Agent, Assignee, Reporter};
    use Status::{Closed, InProgress, Open, Resolved};
    match (from, to) {
        (Open, InProgress | Resolved) | (InProgress, Open | Resolved) | (Resolved, InProgress) => {
            &[Agent, Assignee]
        }
        (Open | Resolved, Closed) => &[Agent, Reporter],
        (Resolved, Open) => &[Agent, Assignee, Reporter],
        (InProgress, Closed) | (Closed, Open) => &[Agent],
        (Open, Open)
        | (InProgress, InProgress)
        | (Resolved, Resolved)
        | (Closed, InProgress | Resolved | Closed) => &[],
    }
}

/// What a caller is to one ticket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a caller may be each of these and all of them")]
pub struct Standing {
    /// The caller works on tickets.
    pub agent: bool,
    /// The caller is the assignee now.
    pub assignee: bool,
    /// The caller opened the ticket.
    pub reporter: bool,
    /// The time for the reporter to reopen is over.
    pub late: bool,
}

impl Standing {
    /// Whether the caller is a party to the ticket.
    #[must_use]
    pub const fn is_party(self) -> bool {
        self.assignee || self.reporter
    }

    /// Whether the caller may make this move.
    #[must_use]
    pub fn may(self, from: Status, to: Status) -> bool {
        movers(from, to).iter().any(|part| match part {
            Part::Agent => self.agent,
            Part::Assignee => self.assignee,
            Part::Reporter => self.reporter && !(self.late && to == Status::Open),
        })
    }

    /// Whether the check of a move depends on whether the caller is an agent, which is not known yet.
    #[must_use]
    pub fn leaves_open(self, from: Status, to: Status) -> bool {
        !self.agent && from != to && !self.may(from, to)
    }

    /// The statuses that the caller may move the ticket to.
    fn allowed(self, from: Status) -> Vec<Status> {
        Status::WORDS.iter().map(|(_, to)| *to).filter(|to| self.may(from, *to)).collect()
    }

    /// Checks that there is such a move and that the caller may make it.
    ///
    /// # Errors
    /// 409 `TICKET_INVALID_TRANSITION`; 403 `TRANSITION_NOT_ALLOWED_FOR_ROLE` or `REOPEN_PERIOD_OVER`.
    pub fn judge(self, from: Status, to: Status) -> Result<(), ApiError> {
        if movers(from, to).is_empty() {
            let details = json!({ "from": from, "to": to, "allowed": self.allowed(from) });
            return Err(conflict("TICKET_INVALID_TRANSITION", "a ticket cannot make this move", details));
        }
        if self.may(from, to) {
            return Ok(());
        }
        if self.reporter && self.late && to == Status::Open {
            let message = "the time for the reporter to reopen the ticket is over";
            return Err(not_yours("REOPEN_PERIOD_OVER", message));
        }
        let message = "the caller's role in the ticket does not allow this move";
        Err(not_yours("TRANSITION_NOT_ALLOWED_FOR_ROLE", message))
    }
}

/// The body of a request to open a ticket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TicketBody {
    /// 1 to 200 characters.
    pub title: String,
    /// The description; may be empty.
    pub description: String,
    /// Normal by default.
    pub priority: Priority,
}

impl FromBody for TicketBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let title = fields.text("title", Text::title(MAX_TITLE));
        let description = fields.text("description", Text::prose(0, MAX_DESCRIPTION));
        let priority = fields.optional_word("priority", Priority::WORDS);
        Some(Self {
            title: title?,
            description: description?,
            priority: priority?.unwrap_or(Priority::Normal),
        })
    }
}

/// The body of a request to move a ticket.
pub struct StatusBody(pub Status);

impl FromBody for StatusBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        fields.word("status", Status::WORDS).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The design's table, cell by cell: `g` agent, `a` assignee, `r` reporter, `.` no move, `=` nothing to do.
    const TABLE: [(Status, [&str; 4]); 4] = [
        (Status::Open, ["=", "ga", "ga", "gr"]),
        (Status::InProgress, ["ga", "=", "ga", "g"]),
        (Status::Resolved, ["gar", "ga", "=", "gr"]),
        (Status::Closed, ["g", ".", ".", "="]),
    ];
    const ORDER: [Status; 4] = [Status::Open, Status::InProgress, Status::Resolved, Status::Closed];

    #[test]
    fn every_cell_of_the_table_lets_exactly_its_parts_move() {
        for (from, cells) in TABLE {
            for (to, cell) in ORDER.into_iter().zip(cells) {
                for (part, letter) in [(1, 'g'), (2, 'a'), (4, 'r')] {
                    let standing =
                        Standing { agent: part == 1, assignee: part == 2, reporter: part == 4, late: false };
                    assert_eq!(standing.may(from, to), cell.contains(letter), "{from:?} {to:?} {letter}");
                }
                assert_eq!(movers(from, to).is_empty(), matches!(cell, "=" | "."), "{from:?} {to:?}");
            }
        }
    }

    #[test]
    fn a_late_reporter_may_accept_and_no_longer_reopen() {
        let late = Standing { reporter: true, late: true, ..Standing::default() };
        assert!(late.may(Status::Resolved, Status::Closed) && !late.may(Status::Resolved, Status::Open));
        assert!(Standing { assignee: true, ..late }.may(Status::Resolved, Status::Open));
    }
}
