//! `platform org admin add|remove COMPANY SUBJECT` and `platform org deactivate|activate ID`.

use contract::{Settings, ports};
use serde_json::{Value, json};
use service::client::encode_segment;

use super::{account_name, put};
use crate::cli::{AdminCommand, OrgCommand};
use crate::console;
use crate::stop::Stop;

/// Runs the command and prints the result.
pub(crate) async fn run(command: &OrgCommand, settings: &Settings) -> Result<(), Stop> {
    match command {
        OrgCommand::Admin(AdminCommand::Add(who)) => admin(settings, &who.company, &who.subject, true).await,
        OrgCommand::Admin(AdminCommand::Remove(who)) => {
            admin(settings, &who.company, &who.subject, false).await
        }
        OrgCommand::Deactivate { id } => activity(settings, id, false).await,
        OrgCommand::Activate { id } => activity(settings, id, true).await,
    }
}

async fn admin(settings: &Settings, company: &str, subject: &str, is_admin: bool) -> Result<(), Stop> {
    let path =
        format!("/internal/org/companies/{}/admins/{}", encode_segment(company), encode_segment(subject));
    let body = json!({ "isAdmin": is_admin, "operator": account_name(settings)? });
    let answer = put(settings, "org", ports::ORG, &path, &body).await?;
    let changed = answer.get("changed").and_then(Value::as_bool).unwrap_or_default();
    let is = if is_admin { "is an administrator" } else { "is no administrator" };
    let already = if changed { "" } else { ", as before" };
    console::result(&format!("{subject} {is} of company {company}{already}"));
    Ok(())
}

async fn activity(settings: &Settings, id: &str, is_active: bool) -> Result<(), Stop> {
    let path = format!("/internal/org/units/{}/activity", encode_segment(id));
    let body = json!({ "isActive": is_active, "operator": account_name(settings)? });
    let unit = put(settings, "org", ports::ORG, &path, &body).await?;
    let text = |name: &str| unit.get(name).and_then(Value::as_str).unwrap_or_default();
    let is = if is_active { "active" } else { "inactive" };
    console::result(&format!("{} {} ({}) is {is}", text("typeKey"), text("code"), text("name")));
    Ok(())
}
