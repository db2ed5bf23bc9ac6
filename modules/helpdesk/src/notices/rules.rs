//! The content of notices.

use crate::tickets::rules::{Status, TicketId};

/// The key of the channel that notices go to; a company without this channel gets none.
pub const CHANNEL: &str = "helpdesk";

/// What happened to a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// It was opened.
    Opened,
    /// It has another assignee.
    Assigned,
    /// It has no assignee any more.
    Unassigned,
    /// Its status changed.
    Moved {
        /// Before.
        from: Status,
        /// After.
        to: Status,
    },
    /// A public comment was added.
    Commented,
}

/// One notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The ticket that it is about.
    pub ticket: TicketId,
    /// The ticket's number, by which people know it.
    pub number: i64,
    /// What happened.
    pub happened: Happened,
}

impl Notice {
    /// The type that notification receives; webhooks get `helpdesk.<type>`.
    #[must_use]
    pub const fn event_type(&self) -> &'static str {
        match self.happened {
            Happened::Opened => "ticket.created",
            Happened::Assigned => "ticket.assigned",
            Happened::Unassigned => "ticket.unassigned",
            Happened::Moved { .. } => "ticket.status_changed",
            Happened::Commented => "comment.added",
        }
    }

    /// The subject, one line.
    #[must_use]
    pub fn subject_line(&self) -> String {
        let number = self.number;
        match self.happened {
            Happened::Opened => format!("Ticket #{number} was opened"),
            Happened::Assigned => format!("Ticket #{number} was assigned"),
            Happened::Unassigned => format!("Ticket #{number} has no assignee"),
            Happened::Moved { to, .. } => format!("Ticket #{number} is {}", shown(to)),
            Happened::Commented => format!("Ticket #{number} has a new comment"),
        }
    }

    /// The text. It names the ticket, whose content the reader can see only if allowed to.
    #[must_use]
    pub fn body(&self) -> String {
        let more = match self.happened {
            Happened::Moved { from, to } => format!("It was {} and is {}. ", shown(from), shown(to)),
            Happened::Opened | Happened::Assigned | Happened::Unassigned | Happened::Commented => {
                String::new()
            }
        };
        format!("{}. {more}Its id is {}.", self.subject_line(), self.ticket)
    }
}

const fn shown(status: Status) -> &'static str {
    match status {
        Status::Open => "open",
        Status::InProgress => "in progress",
        Status::Resolved => "resolved",
        Status::Closed => "closed",
    }
}
