//! What a ticket is to the one who looks at it.

use contract::Timestamp;
use contract::id::{CompanyId, GroupId, MemberId, PositionId};
use serde::Serialize;
use service::clients::org::MemberContext;

contract::typed_id!(
    /// A ticket of one company.
    TicketId
);

/// Most tickets of one list; the module contract gives this list no pages.
pub const MAX_ROWS: usize = 1_000;

/// Which tickets are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Reported by the caller, or assigned to the caller, a position or a group of the caller.
    Mine,
    /// Every ticket of the company.
    All,
}

/// The words of `view`.
pub const VIEWS: &[(&str, View)] = &[("mine", View::Mine), ("all", View::All)];

/// The words of `status`, as they are stored.
pub const STATUSES: &[(&str, Option<&'static str>)] = &[
    ("open", Some("open")),
    ("in_progress", Some("in_progress")),
    ("resolved", Some("resolved")),
    ("closed", Some("closed")),
];

/// What the caller may do in the module, in this company.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// Administers it.
    Admin,
    /// Works on tickets.
    Editor,
    /// Opens tickets.
    Member,
}

/// Who works on a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assignee {
    /// One member.
    Member(MemberId),
    /// Whoever holds the position at the moment.
    Position(PositionId),
    /// Whoever is in the group at the moment.
    Group(GroupId),
}

impl Assignee {
    /// Whether the caller is the assignee now.
    #[must_use]
    pub fn is(self, caller: &MemberContext) -> bool {
        match self {
            Self::Member(member) => caller.member == member,
            Self::Position(position) => caller.positions.contains(&position),
            Self::Group(group) => caller.groups.contains(&group),
        }
    }
}

/// A ticket as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTicket {
    /// Minted when it was opened.
    pub id: TicketId,
    /// Whose it is.
    pub company: CompanyId,
    /// 1 to 200 characters.
    pub title: String,
    /// What it is about.
    pub description: String,
    /// One of [`STATUSES`].
    pub status: String,
    /// Who opened it.
    pub reporter: MemberId,
    /// Who works on it.
    pub assignee: Option<Assignee>,
    /// Name or title of the assignee when it was assigned.
    pub assignee_label: Option<String>,
    /// When it was opened.
    pub created_at: Timestamp,
    /// When it changed last.
    pub updated_at: Timestamp,
}

/// A ticket as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ticket {
    id: TicketId,
    company_id: CompanyId,
    title: String,
    description: String,
    status: String,
    reporter_member_id: MemberId,
    assignee_member_id: Option<MemberId>,
    assignee_kind: Option<&'static str>,
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

impl StoredTicket {
    /// The ticket for a caller of tier `tier`; `None` is an operator without a member row. Names and titles are those
    /// of the moment of assignment.
    #[must_use]
    pub fn seen_by(self, caller: Option<&MemberContext>, tier: Tier) -> Ticket {
        let label = self.assignee_label;
        let (kind, member, position, group) = match self.assignee {
            None => (None, None, None, None),
            Some(Assignee::Member(id)) => (Some("member"), Some(id), None, None),
            Some(Assignee::Position(id)) => (Some("position"), None, Some(id), None),
            Some(Assignee::Group(id)) => (Some("group"), None, None, Some(id)),
        };
        Ticket {
            id: self.id,
            company_id: self.company,
            title: self.title,
            description: self.description,
            status: self.status,
            reporter_member_id: self.reporter,
            assignee_member_id: member,
            assignee_kind: kind,
            assignee_position_id: position,
            assignee_position_title: position.and_then(|_| label.clone()),
            assignee_group_id: group,
            assignee_group_title: group.and_then(|_| label.clone()),
            assignee_display_name: label,
            my_tier: tier,
            is_reporter: caller.is_some_and(|caller| caller.member == self.reporter),
            is_assignee: caller.zip(self.assignee).is_some_and(|(caller, assignee)| assignee.is(caller)),
            created_at: self.created_at,
            updated_at: self.updated_at,
        }
    }
}
