//! The caller of one request with its member row, and whether it is an agent. authz is asked about the latter at most
//! once, and only if something depends on it.

use service::clients::org::MemberContext;
use service::{ApiError, Permit};

use super::names::Names;
use super::rules::{Standing, StoredTicket, Ticket, TicketId, not_party, unknown};
use super::store;
use crate::tiers::http::highest;
use crate::{App, operations};

/// A caller of one request.
pub(crate) struct Viewer<'a> {
    app: &'a App,
    permit: &'a Permit,
    /// `None` for an operator without an active member row, who is not a party to any ticket.
    pub(crate) place: Option<MemberContext>,
    agent: Option<bool>,
}

impl<'a> Viewer<'a> {
    /// Looks up a caller who may be an operator without a member row.
    pub(crate) async fn of(app: &'a App, permit: &'a Permit) -> Result<Self, ApiError> {
        let place = app.org.member_context_if_any(permit).await?;
        Ok(Self { app, permit, place, agent: None })
    }

    /// As [`Self::of`], and asks at the same time whether the caller is an agent, if a no only narrows the response.
    pub(crate) async fn and_agent(app: &'a App, permit: &'a Permit) -> Result<(Self, bool), ApiError> {
        let (place, agent) = tokio::try_join!(
            app.org.member_context_if_any(permit),
            app.permits.probe(permit, &operations::TICKETS_WORK)
        )?;
        Ok((Self { app, permit, place, agent: Some(agent) }, agent))
    }

    /// Looks up a caller who must be a member.
    pub(crate) async fn member(app: &'a App, permit: &'a Permit) -> Result<Self, ApiError> {
        let place = app.org.member_context(permit).await?;
        Ok(Self { app, permit, place: Some(place), agent: None })
    }

    /// Marks the caller as an agent, which the operation's permit implies.
    pub(crate) fn into_agent(self) -> Self {
        Self { agent: Some(true), ..self }
    }

    /// Whether the caller is an agent, if a no only narrows the response.
    pub(crate) async fn is_agent(&mut self) -> Result<bool, ApiError> {
        let known = match self.agent {
            Some(known) => known,
            None => self.app.permits.probe(self.permit, &operations::TICKETS_WORK).await?,
        };
        self.agent = Some(known);
        Ok(known)
    }

    /// Whether the caller is an agent, if a no refuses the call.
    pub(crate) async fn must_be_agent(&mut self) -> Result<bool, ApiError> {
        let known = match self.agent {
            Some(known) => known,
            None => self.app.permits.allows(self.permit, &operations::TICKETS_WORK).await?,
        };
        self.agent = Some(known);
        Ok(known)
    }

    /// What the caller is to the ticket, as far as it is known.
    pub(crate) fn standing(&self, ticket: &StoredTicket) -> Standing {
        Standing {
            agent: self.agent == Some(true),
            assignee: ticket.is_assigned_to(self.place.as_ref()),
            reporter: ticket.is_reported_by(self.place.as_ref()),
            late: false,
        }
    }

    /// Admits parties and agents (row rule V).
    ///
    /// # Errors
    /// 403 `NOT_TICKET_PARTY`.
    pub(crate) async fn admit(&mut self, ticket: &StoredTicket) -> Result<(), ApiError> {
        let may = self.standing(ticket).is_party() || self.must_be_agent().await?;
        if may { Ok(()) } else { Err(not_party()) }
    }

    /// Completes the standing for a check that depends on whether the caller is an agent; `refuses` says whether a no
    /// refuses the call.
    pub(crate) async fn judged(&mut self, known: Standing, refuses: bool) -> Result<Standing, ApiError> {
        let agent = if refuses { self.must_be_agent().await? } else { self.is_agent().await? };
        Ok(Standing { agent, ..known })
    }

    /// Finds a ticket of the company that the caller may view.
    pub(crate) async fn ticket(&mut self, id: TicketId) -> Result<StoredTicket, ApiError> {
        let found = store::find(&self.app.core.pool, self.permit, id).await?;
        let ticket = found.ok_or_else(unknown)?;
        self.admit(&ticket).await?;
        Ok(ticket)
    }

    /// Renders the ticket for the caller.
    pub(crate) async fn shown(&self, ticket: StoredTicket) -> Result<Ticket, ApiError> {
        let names = Names::of_all(self.app, self.permit, ticket.assignee);
        let (names, tier) = tokio::join!(names, highest(self.app, self.permit, self.agent));
        Ok(ticket.seen_by(self.place.as_ref(), tier?, &names))
    }

    /// Renders the tickets for the caller. An empty list shows no tier, so authz is not asked for it.
    pub(crate) async fn all_shown(&self, tickets: Vec<StoredTicket>) -> Result<Vec<Ticket>, ApiError> {
        if tickets.is_empty() {
            return Ok(Vec::new());
        }
        let names = Names::of_all(self.app, self.permit, tickets.iter().filter_map(|ticket| ticket.assignee));
        let (names, tier) = tokio::join!(names, highest(self.app, self.permit, self.agent));
        let tier = tier?;
        let seen = tickets.into_iter().map(|ticket| ticket.seen_by(self.place.as_ref(), tier, &names));
        Ok(seen.collect())
    }
}
