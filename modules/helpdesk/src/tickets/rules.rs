//! What a ticket is to the one who looks at it.

use contract::id::{CompanyId, GroupId, MemberId, PositionId};
use contract::principal::PrincipalKind;
use contract::{Principal, Timestamp};
use serde::Serialize;
use service::clients::org::MemberContext;

contract::typed_id!(
    /// A ticket of one company.
    TicketId
);

/// Most tickets of one list; the module contract gives this list no pages.
pub const MAX_ROWS: usize = 1_000;

contract::words! {
    /// Which tickets are listed.
    pub enum View {
        /// Reported by the caller, or assigned to the caller, a position or a group of the caller.
        Mine = "mine",
        /// Every ticket of the company.
        All = "all",
    }
}

contract::words! {
    /// How far a ticket is.
    pub enum Status {
        /// Nobody works on it yet.
        Open = "open",
        /// Somebody does.
        InProgress = "in_progress",
        /// The assignee calls it done.
        Resolved = "resolved",
        /// It is done.
        Closed = "closed",
    }
}

contract::words! {
    /// What the caller may do in the module, in this company.
    pub enum Tier {
        /// Administers it.
        Admin = "admin",
        /// Works on tickets.
        Editor = "editor",
        /// Opens tickets.
        Member = "member",
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
    /// How far it is.
    pub status: Status,
    /// Who opened it.
    pub reporter: MemberId,
    /// Who works on it.
    pub assignee: Option<Principal>,
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
    status: Status,
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

impl StoredTicket {
    /// The ticket for a caller of tier `tier`; `None` is an operator without a member row. Names and titles are those
    /// of the moment of assignment.
    #[must_use]
    pub fn seen_by(self, caller: Option<&MemberContext>, tier: Tier) -> Ticket {
        let label = self.assignee_label;
        let position = self.assignee.and_then(Principal::position);
        let group = self.assignee.and_then(Principal::group);
        Ticket {
            id: self.id,
            company_id: self.company,
            title: self.title,
            description: self.description,
            status: self.status,
            reporter_member_id: self.reporter,
            assignee_member_id: self.assignee.and_then(Principal::member),
            assignee_kind: self.assignee.map(Principal::kind),
            assignee_position_id: position,
            assignee_position_title: position.and_then(|_| label.clone()),
            assignee_group_id: group,
            assignee_group_title: group.and_then(|_| label.clone()),
            assignee_display_name: label,
            my_tier: tier,
            is_reporter: caller.is_some_and(|caller| caller.member == self.reporter),
            is_assignee: caller.zip(self.assignee).is_some_and(|(caller, assignee)| caller.is(assignee)),
            created_at: self.created_at,
            updated_at: self.updated_at,
        }
    }
}
