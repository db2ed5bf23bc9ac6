//! org's answers about the people of a [`World`](super::world::World) (`foundation.md` §2.2, §2.4).

use serde_json::{Value, json};
use uuid::Uuid;

use super::world::{Group, Member, Position, State};
use crate::Recorded;

/// The answer to `GET` or `POST /internal/org/companies/…`.
pub(super) fn answer(state: &State, request: &Recorded) -> (u16, Value) {
    let path = request.path.trim_start_matches("/internal/org/companies/");
    let (company, tail) = path.split_once('/').unwrap_or((path, ""));
    let Ok(company) = company.parse::<Uuid>() else { return (400, Value::Null) };
    let data = match (request.method.as_str(), tail.split('/').collect::<Vec<_>>().as_slice()) {
        ("GET", ["members"]) => directory(state, company, &request.query),
        ("GET", ["members", "by-kcsub", subject]) => membership(find(state, company, subject)),
        ("GET", ["members", "by-kcsub", subject, "context"]) => context(state, find(state, company, subject)),
        ("GET", ["assignables", "positions"]) => positions(state, company),
        ("GET", ["assignables", "groups"]) => groups(state, company),
        ("POST", ["lookup"]) => lookup(state, company, &request.body),
        _ => return (404, Value::Null),
    };
    (200, json!({ "data": data }))
}

fn find<'a>(state: &'a State, company: Uuid, subject: &str) -> Option<&'a Member> {
    state.members.iter().find(|member| member.company == company && member.subject == subject)
}

fn membership(member: Option<&Member>) -> Value {
    let is_active = member.is_some_and(|member| member.is_active);
    json!({ "isMember": member.is_some(), "isActive": is_active, "memberId": member.map(|member| member.id) })
}

fn context(state: &State, member: Option<&Member>) -> Value {
    let mut context = membership(member);
    let id = member.map(|member| member.id);
    let held = state.positions.iter().filter(|position| position.holder.is_some() && position.holder == id);
    let held: Vec<Uuid> = held.map(|position| position.id).collect();
    let joined = state.groups.iter().filter(|group| id.is_some_and(|id| group.members.contains(&id)));
    let joined: Vec<Uuid> = joined.map(|group| group.id).collect();
    let name = member.map(|member| member.name.as_str());
    let more = json!({ "displayName": name, "email": null, "positionIds": held, "groupIds": joined });
    if let (Value::Object(context), Value::Object(more)) = (&mut context, more) {
        context.extend(more);
    }
    context
}

/// One page of the active members, by name and id.
fn directory(state: &State, company: Uuid, query: &str) -> Value {
    let number = |name: &str, default: usize| {
        let found = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        found.and_then(|text| text.parse::<usize>().ok()).unwrap_or(default).max(1)
    };
    let (page, size) = (number("page", 1), number("pageSize", 25));
    let mut found: Vec<&Member> =
        state.members.iter().filter(|member| member.company == company && member.is_active).collect();
    found.sort_by_key(|member| (&member.name, member.id));
    let entry = |member: &&Member| json!({ "id": member.id, "displayName": member.name, "email": null, "hasLinkedUser": true });
    let items: Vec<Value> = found.iter().skip((page - 1) * size).take(size).map(entry).collect();
    json!({ "items": items, "total": found.len(), "page": page, "pageSize": size,
        "totalPages": found.len().div_ceil(size) })
}

fn lookup(state: &State, company: Uuid, asked: &Value) -> Value {
    let is_wanted = |kind: &str, id: Uuid| {
        let wanted = asked.get(kind).and_then(Value::as_array);
        wanted.is_some_and(|wanted| wanted.contains(&json!(id)))
    };
    let members = state.members.iter().filter(|row| row.company == company && is_wanted("memberIds", row.id));
    let member = |row: &Member| {
        json!({ "id": row.id, "displayName": row.name, "email": null, "isActive": row.is_active,
            "kcSub": row.subject })
    };
    let positions =
        state.positions.iter().filter(|row| row.company == company && is_wanted("positionIds", row.id));
    let groups = state.groups.iter().filter(|row| row.company == company && is_wanted("groupIds", row.id));
    json!({
        "members": members.map(member).collect::<Vec<_>>(),
        "positions": positions.map(|row| position(state, row, "id")).collect::<Vec<_>>(),
        "groups": groups.map(|row| {
            let mut group = group(state, row, "id");
            if let Some(members) = group.as_object_mut() {
                members.insert("isActive".to_owned(), json!(true));
            }
            group
        }).collect::<Vec<_>>(),
    })
}

fn positions(state: &State, company: Uuid) -> Value {
    let mut rows: Vec<&Position> = state.positions.iter().filter(|row| row.company == company).collect();
    rows.sort_by_key(|row| (&row.title, row.id));
    rows.into_iter().map(|row| position(state, row, "positionId")).collect()
}

fn groups(state: &State, company: Uuid) -> Value {
    let mut rows: Vec<&Group> = state.groups.iter().filter(|row| row.company == company).collect();
    rows.sort_by_key(|row| (&row.title, row.id));
    rows.into_iter().map(|row| group(state, row, "groupId")).collect()
}

/// A position with its active holder.
fn position(state: &State, row: &Position, id: &str) -> Value {
    let holder = state.members.iter().find(|member| row.holder == Some(member.id) && member.is_active);
    let (holder, name) = (holder.map(|member| member.id), holder.map(|member| member.name.as_str()));
    json!({ id: row.id, "title": row.title, "holderMemberId": holder, "holderDisplayName": name })
}

/// A group with the number of its active members.
fn group(state: &State, row: &Group, id: &str) -> Value {
    let count = row.members.iter().filter(|member| state.is_active(**member)).count();
    json!({ id: row.id, "title": row.title, "memberCount": count })
}
