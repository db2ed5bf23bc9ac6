//! The rules of the module, implemented independently from its design: a company as plain values, and the effect of
//! each step.

use std::collections::BTreeSet;

/// A person: an index into the world's list of people.
pub(super) type Who = usize;

/// The assignee of a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Assignee {
    Member(Who),
    Position(usize),
    Group(usize),
}

/// The response to a step: its status, and the code of a refusal.
pub(super) type Answer = (u16, &'static str);

/// A step of a history.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Open(Who),
    Assign(Who, usize, Option<Assignee>),
    Move(Who, usize, &'static str),
    Comment(Who, usize, bool),
    /// Changes the holder of a position.
    Hold(usize, Option<Who>),
    /// Adds a person to a group or removes one.
    Join(usize, Who, bool),
}

#[derive(Clone, Debug)]
pub(super) struct Ticket {
    pub(super) reporter: Who,
    pub(super) assignee: Option<Assignee>,
    pub(super) status: &'static str,
    /// The history, oldest entry first, and whether only agents see the entry.
    pub(super) told: Vec<(Who, &'static str, bool)>,
}

/// A company.
#[derive(Clone, Debug)]
pub(super) struct Model {
    agents: BTreeSet<Who>,
    pub(super) tickets: Vec<Ticket>,
    holders: Vec<Option<Who>>,
    groups: Vec<BTreeSet<Who>>,
}

pub(super) const STATUSES: [&str; 4] = ["open", "in_progress", "resolved", "closed"];

/// Who may move a ticket from one status to another: `g` agent, `a` assignee, `r` reporter.
fn movers(from: &str, to: &str) -> &'static str {
    match (from, to) {
        ("open", "in_progress" | "resolved")
        | ("in_progress", "open" | "resolved")
        | ("resolved", "in_progress") => "ga",
        ("open" | "resolved", "closed") => "gr",
        ("resolved", "open") => "gar",
        ("in_progress", "closed") | ("closed", "open") => "g",
        _ => "",
    }
}

impl Model {
    pub(super) fn new(agents: &[Who], positions: usize, groups: usize) -> Self {
        Self {
            agents: agents.iter().copied().collect(),
            tickets: Vec::new(),
            holders: vec![None; positions],
            groups: vec![BTreeSet::new(); groups],
        }
    }

    pub(super) fn is_agent(&self, who: Who) -> bool {
        self.agents.contains(&who)
    }

    pub(super) fn is_assignee(&self, who: Who, ticket: usize) -> bool {
        match self.tickets[ticket].assignee {
            None => false,
            Some(Assignee::Member(member)) => member == who,
            Some(Assignee::Position(position)) => self.holders[position] == Some(who),
            Some(Assignee::Group(group)) => self.groups[group].contains(&who),
        }
    }

    pub(super) fn is_party(&self, who: Who, ticket: usize) -> bool {
        self.tickets[ticket].reporter == who || self.is_assignee(who, ticket)
    }

    pub(super) fn sees(&self, who: Who, ticket: usize) -> bool {
        self.is_agent(who) || self.is_party(who, ticket)
    }

    /// Applies a step and returns its response.
    pub(super) fn take(&mut self, step: &Step) -> Answer {
        match step {
            Step::Open(who) => {
                let told = vec![(*who, "ticket.created", false)];
                self.tickets.push(Ticket { reporter: *who, assignee: None, status: "open", told });
                (201, "")
            }
            Step::Assign(who, ticket, to) => self.assign(*who, *ticket, *to),
            Step::Move(who, ticket, to) => self.go(*who, *ticket, to),
            Step::Comment(who, ticket, internal) => self.comment(*who, *ticket, *internal),
            Step::Hold(position, holder) => {
                self.holders[*position] = *holder;
                (200, "")
            }
            Step::Join(group, who, joins) => {
                let group = &mut self.groups[*group];
                if *joins {
                    group.insert(*who)
                } else {
                    group.remove(who)
                };
                (200, "")
            }
        }
    }

    fn assign(&mut self, who: Who, ticket: usize, to: Option<Assignee>) -> Answer {
        if !self.is_agent(who) {
            return (403, "ENGINE_DENIED");
        }
        let found = &mut self.tickets[ticket];
        if found.status == "closed" {
            return (409, "TICKET_CLOSED");
        }
        if found.assignee != to {
            found.assignee = to;
            let action = if to.is_some() { "ticket.assigned" } else { "ticket.unassigned" };
            found.told.push((who, action, false));
        }
        (200, "")
    }

    fn go(&mut self, who: Who, ticket: usize, to: &'static str) -> Answer {
        if !self.sees(who, ticket) {
            return (403, "NOT_TICKET_PARTY");
        }
        let from = self.tickets[ticket].status;
        if from == to {
            return (200, "");
        }
        let movers = movers(from, to);
        if movers.is_empty() {
            return (409, "TICKET_INVALID_TRANSITION");
        }
        let may = (movers.contains('g') && self.is_agent(who))
            || (movers.contains('a') && self.is_assignee(who, ticket))
            || (movers.contains('r') && self.tickets[ticket].reporter == who);
        if !may {
            return (403, "TRANSITION_NOT_ALLOWED_FOR_ROLE");
        }
        self.tickets[ticket].status = to;
        self.tickets[ticket].told.push((who, "ticket.status_changed", false));
        (200, "")
    }

    fn comment(&mut self, who: Who, ticket: usize, internal: bool) -> Answer {
        if !self.sees(who, ticket) {
            return (403, "NOT_TICKET_PARTY");
        }
        if internal && !self.is_agent(who) {
            return (403, "NOT_AGENT");
        }
        if self.tickets[ticket].status == "closed" {
            return (409, "TICKET_CLOSED");
        }
        self.tickets[ticket].told.push((who, "comment.added", internal));
        (201, "")
    }
}
