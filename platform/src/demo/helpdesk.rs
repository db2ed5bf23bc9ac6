//! The helpdesk of the demo: its administrator, its agents and a few tickets.

use serde_json::json;

use super::api::{Api, having, text};
use super::bar::Bar;
use super::cast::{ADMINISTRATOR, AGENTS, TICKETS, Ticket};
use super::org::Company;
use super::people::People;
use crate::stop::Stop;

/// Steps of [`fill`].
pub(super) const STEPS: usize = 2 + TICKETS.len();

/// Creates what is missing.
pub(super) async fn fill(people: &People, company: &Company, bar: &mut Bar) -> Result<(), Stop> {
    let admin = &people.administrator.api;
    let base = format!("/api/helpdesk/v1/companies/{}", company.id);
    bar.stage("helpdesk");
    let bound = admin.list(&format!("{base}/bindings")).await?;
    for (name, id, tier) in [
        ("memberId", company.members.get(ADMINISTRATOR), "admin"),
        ("groupId", company.groups.get(AGENTS), "editor"),
    ] {
        let id = id.map(String::as_str).unwrap_or_default();
        let is_new = having(&bound, name, id).is_none();
        if is_new {
            admin.post(&format!("{base}/bindings"), &json!({name: id, "tier": tier})).await?;
        }
        bar.step(is_new);
    }
    for ticket in &TICKETS {
        let made = open(people, company, &base, ticket).await?;
        bar.step(made);
    }
    Ok(())
}

/// Creates or completes the ticket; returns whether anything changed.
async fn open(people: &People, company: &Company, base: &str, ticket: &Ticket) -> Result<bool, Stop> {
    let (admin, reporter) = (&people.administrator.api, &people.named(ticket.login)?.api);
    let mine = reporter.list(&format!("{base}/tickets")).await?;
    let (found, mut changed) = if let Some(found) = having(&mine, "title", ticket.title) {
        (found.clone(), false)
    } else {
        let body =
            json!({"title": ticket.title, "description": ticket.description, "priority": ticket.priority});
        (reporter.post(&format!("{base}/tickets"), &body).await?, true)
    };
    let one = format!("{base}/tickets/{}", text(&found, "id"));
    let group = company.groups.get(AGENTS).map(String::as_str).unwrap_or_default();
    if ticket.is_assigned && text(&found, "assigneeGroupId") != group {
        admin.put(&format!("{one}/assignee"), &json!({"assigneeGroupId": group})).await?;
        changed = true;
    }
    changed |= say(people, &one, ticket).await?;
    if text(&found, "status") != ticket.status {
        admin.put(&format!("{one}/status"), &json!({"status": ticket.status})).await?;
        changed = true;
    }
    Ok(changed)
}

async fn say(people: &People, one: &str, ticket: &Ticket) -> Result<bool, Stop> {
    let Some((login, words)) = ticket.comment else { return Ok(false) };
    let api: &Api = &people.named(login)?.api;
    let path = format!("{one}/comments");
    let is_missing = having(&api.list(&path).await?, "body", words).is_none();
    if is_missing {
        api.post(&path, &json!({"body": words})).await?;
    }
    Ok(is_missing)
}
