//! The demo company and its people: each is looked up by its code and created if missing.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::api::{Api, having, text};
use super::bar::Bar;
use super::cast::{ADMINISTRATOR, COMPANY, GROUPS, Group, MEMBERS, Member, POSITIONS, UNITS};
use super::people::People;
use crate::stop::Stop;

/// The ids that later steps need.
pub(super) struct Company {
    pub(super) id: String,
    /// Member ids by code.
    pub(super) members: HashMap<&'static str, String>,
    /// Group ids by code.
    pub(super) groups: HashMap<&'static str, String>,
}

/// Steps of [`fill`].
pub(super) fn steps() -> usize {
    let links =
        MEMBERS.iter().filter(|member| member.login.is_some() || member.code == ADMINISTRATOR).count();
    let holders = POSITIONS.iter().filter(|position| position.holder.is_some()).count();
    let joined: usize = GROUPS.iter().map(|group| group.members.len()).sum();
    1 + UNITS.len() + MEMBERS.len() + links + POSITIONS.len() + holders + GROUPS.len() + joined
}

/// Creates what is missing of the company, its units, members, positions and groups.
pub(super) async fn fill(people: &People, bar: &mut Bar) -> Result<Company, Stop> {
    let admin = &people.administrator.api;
    bar.stage("the company");
    let id = company(people, bar).await?;
    bar.stage("members");
    let members = members(people, &id, bar).await?;
    bar.stage("units");
    let units = units(admin, &id, bar).await?;
    bar.stage("positions");
    positions(admin, &id, &units, &members, bar).await?;
    bar.stage("groups");
    let mut groups = HashMap::new();
    let known = admin.list(&format!("/api/org/admin/companies/{id}/groups")).await?;
    for wanted in &GROUPS {
        groups.insert(wanted.code, group(admin, &id, wanted, &known, &members, bar).await?);
    }
    Ok(Company { id, members, groups })
}

/// Finds or creates the company. No route lists companies, so it looks among those of the people who logged in.
async fn company(people: &People, bar: &mut Bar) -> Result<String, Stop> {
    let (code, name) = COMPANY;
    for person in people.all() {
        let theirs = person.api.list("/api/org/me/companies").await?;
        if let Some(found) = having(&theirs, "code", code) {
            bar.step(false);
            return Ok(text(found, "id"));
        }
    }
    let body = json!({"typeKey": "company", "code": code, "name": name});
    let made = people.administrator.api.post("/api/org/admin/units", &body).await?;
    bar.step(true);
    Ok(text(&made, "id"))
}

/// Creates and links the members. The administrator's comes first, so that a later run can find the company.
async fn members(
    people: &People,
    company: &str,
    bar: &mut Bar,
) -> Result<HashMap<&'static str, String>, Stop> {
    let admin = &people.administrator.api;
    let known = admin.list(&format!("/api/org/admin/members?companyId={company}")).await?;
    let mut ids = HashMap::new();
    for member in &MEMBERS {
        let found = having(&known, "code", member.code).cloned();
        let made = found.is_none();
        let row = match found {
            Some(row) => row,
            None => admin.post("/api/org/admin/members", &body_of(member, company)).await?,
        };
        bar.step(made);
        if let Some(subject) = people.subject_of(member) {
            link(admin, &row, subject, bar).await?;
        }
        ids.insert(member.code, text(&row, "id"));
    }
    Ok(ids)
}

fn body_of(member: &Member, company: &str) -> Value {
    let mailbox = member.name.to_ascii_lowercase().replace(' ', ".");
    let email = format!("{mailbox}@northwind.example");
    json!({"companyId": company, "code": member.code, "displayName": member.name, "email": email})
}

async fn link(admin: &Api, member: &Value, subject: &str, bar: &mut Bar) -> Result<(), Stop> {
    let missing = member.get("userId").is_none_or(Value::is_null);
    if missing {
        let path = format!("/api/org/admin/members/{}/link-user", text(member, "id"));
        admin.post(&path, &json!({ "kcSub": subject })).await?;
    }
    bar.step(missing);
    Ok(())
}

async fn units(admin: &Api, company: &str, bar: &mut Bar) -> Result<HashMap<&'static str, String>, Stop> {
    let known = admin.list(&format!("/api/org/admin/units/{company}/subtree")).await?;
    let mut ids = HashMap::from([(COMPANY.0, company.to_owned())]);
    for unit in &UNITS {
        let found = having(&known, "code", unit.code).map(|row| text(row, "id"));
        let made = found.is_none();
        let id = if let Some(id) = found {
            id
        } else {
            let parent = ids.get(unit.parent);
            let body =
                json!({"typeKey": unit.kind, "parentId": parent, "code": unit.code, "name": unit.name});
            text(&admin.post("/api/org/admin/units", &body).await?, "id")
        };
        bar.step(made);
        ids.insert(unit.code, id);
    }
    Ok(ids)
}

async fn positions(
    admin: &Api,
    company: &str,
    units: &HashMap<&'static str, String>,
    members: &HashMap<&'static str, String>,
    bar: &mut Bar,
) -> Result<(), Stop> {
    let path = format!("/api/org/admin/companies/{company}/positions");
    let known = admin.list(&path).await?;
    for position in &POSITIONS {
        let found = having(&known, "code", position.code).cloned();
        let made = found.is_none();
        let body =
            json!({"code": position.code, "title": position.title, "orgUnitId": units.get(position.unit)});
        let row = match found {
            Some(row) => row,
            None => admin.post(&path, &body).await?,
        };
        bar.step(made);
        if let Some(holder) = position.holder {
            let vacant = row.get("memberId").is_none_or(Value::is_null);
            if vacant {
                let assignments = format!("/api/org/admin/positions/{}/assignments", text(&row, "id"));
                admin.post(&assignments, &json!({ "memberId": members.get(holder) })).await?;
            }
            bar.step(vacant);
        }
    }
    Ok(())
}

async fn group(
    admin: &Api,
    company: &str,
    wanted: &Group,
    known: &[Value],
    members: &HashMap<&'static str, String>,
    bar: &mut Bar,
) -> Result<String, Stop> {
    let found = having(known, "code", wanted.code).map(|row| text(row, "id"));
    let made = found.is_none();
    let id = if let Some(id) = found {
        id
    } else {
        let body = json!({"code": wanted.code, "name": wanted.name});
        text(&admin.post(&format!("/api/org/admin/companies/{company}/groups"), &body).await?, "id")
    };
    bar.step(made);
    let path = format!("/api/org/admin/groups/{id}/members");
    let present = admin.list(&path).await?;
    for member in wanted.members.iter().filter_map(|code| members.get(code)) {
        let missing = having(&present, "memberId", member).is_none();
        if missing {
            admin.post(&path, &json!({ "memberId": member })).await?;
        }
        bar.step(missing);
    }
    Ok(id)
}
