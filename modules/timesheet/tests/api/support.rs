//! Helpers for the tests of several resources.

use contract::Clock;
use serde_json::{Value, json};
use testkit::{ModuleApi, Reply};
use time::Duration;
use uuid::Uuid;

use crate::start;

/// Starts the module with three active members in its company; the caller is the first.
pub(crate) async fn start_with_members() -> (ModuleApi, [Uuid; 3]) {
    let module = start().await;
    let members = [Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7()];
    module.member(members[0], &[], &[]);
    know_members(&module, members.to_vec(), vec![]);
    (module, members)
}

/// Makes org know these members of the company and no others.
pub(crate) fn know_members(module: &ModuleApi, active: Vec<Uuid>, inactive: Vec<Uuid>) {
    let path = format!("/internal/org/companies/{}/lookup", module.company);
    module.org.answer_with("POST", &path, move |request| {
        let wanted = |id: &Uuid| {
            request.body["memberIds"].as_array().is_some_and(|wanted| wanted.contains(&json!(id)))
        };
        let shown = |id: &Uuid, active: bool| json!({ "id": id, "displayName": "x", "email": null, "isActive": active, "kcSub": null });
        let known = active.iter().map(|id| (id, true)).chain(inactive.iter().map(|id| (id, false)));
        let members: Vec<Value> =
            known.filter(|(id, _)| wanted(id)).map(|(id, active)| shown(id, active)).collect();
        (200, json!({ "data": { "members": members, "positions": [], "groups": [] } }))
    });
}

/// Makes the company's directory contain these active members, named `Member 1` and so on, in pages.
pub(crate) fn know_directory(module: &ModuleApi, members: &[Uuid]) {
    let path = format!("/internal/org/companies/{}/members", module.company);
    let entries: Vec<Value> = (1..)
        .zip(members)
        .map(|(number, id)| {
            json!({ "id": id, "displayName": format!("Member {number}"), "email": null, "hasLinkedUser": true })
        })
        .collect();
    module.org.answer_with("GET", &path, move |request| {
        let number = |name: &str| {
            let found = request.query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
            found.and_then(|text| text.parse::<usize>().ok()).expect("org is asked for a page")
        };
        let (page, size) = (number("page"), number("pageSize"));
        let items: Vec<&Value> = entries.iter().skip((page - 1) * size).take(size).collect();
        let data = json!({ "items": items, "total": entries.len(), "page": page, "pageSize": size,
            "totalPages": entries.len().div_ceil(size) });
        (200, json!({ "data": data }))
    });
}

/// The `details.reason` of a refusal.
pub(crate) fn reason(reply: &Reply) -> &str {
    reply.body["error"]["details"]["reason"].as_str().unwrap_or_default()
}

/// Creates a project and returns its id.
pub(crate) async fn project(module: &ModuleApi, code: &str) -> String {
    let reply = module.ask("POST", "/projects", Some(json!({ "code": code, "name": "n" }))).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    reply.data()["id"].as_str().expect("an id").to_owned()
}

/// The Monday this many weeks from the current one, in UTC. A test that needs an open week stays away from the window's
/// edges, because the week may change while it runs.
pub(crate) fn monday(weeks: i64) -> String {
    day_of(weeks, 0)
}

/// A day of the week this many weeks from the current one; 0 is Monday.
pub(crate) fn day_of(weeks: i64, day: u8) -> String {
    let today = Clock::system().now().date();
    let past = i64::from(today.weekday().number_days_from_monday());
    let found = today + Duration::days(weeks * 7 - past + i64::from(day));
    found.to_string()
}

/// Puts hours, of which as many as possible are billable.
pub(crate) async fn put(module: &ModuleApi, project: &str, day: &str, hours: f64) -> Reply {
    let body = json!({ "projectId": project, "entryDate": day, "realHours": hours });
    module.ask("PUT", "/time-entries", Some(body)).await
}

/// Submits the caller's week.
pub(crate) async fn submit(module: &ModuleApi, week: &str) -> Reply {
    module.ask("POST", "/submissions", Some(json!({ "weekStart": week }))).await
}

/// Submits a week as another subject, who is this member.
pub(crate) async fn submit_as(module: &ModuleApi, subject: &str, member: Uuid, week: &str) -> Reply {
    let context = format!("/internal/org/companies/{}/members/by-kcsub/{subject}/context", module.company);
    let place = json!({ "data": { "isMember": true, "isActive": true, "memberId": member,
        "displayName": subject, "email": null, "positionIds": [], "groupIds": [] } });
    module.org.answer("GET", &context, 200, place);
    let call = module.api.post(module.path(module.company, "/submissions"));
    let call = call.bearer(&module.issuer.issue(subject)).json(json!({ "weekStart": week }));
    let reply = module.send("POST", "/submissions", call).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    reply
}

/// Sets the status of a submission in its table.
pub(crate) async fn settle(module: &ModuleApi, made: &Reply, status: &str) {
    let id = made.data()["id"].as_str().expect("an id");
    let reason = if status == "rejected" { "'x'" } else { "NULL" };
    let sql = format!(
        "UPDATE timesheet.submissions SET status = '{status}', decided_at = now(), reject_reason = {reason}
         WHERE id = '{id}'"
    );
    module.execute(sql).await;
}
