//! The timesheet of the demo: projects, approvers and last week's hours.

use std::collections::HashMap;

use serde_json::{Value, json};
use time::{Date, Duration, OffsetDateTime};

use super::api::{Api, having, text};
use super::bar::Bar;
use super::cast::{APPROVERS, DECIDER, Ending, LEADS, PROJECTS, REJECTION, WEEKS, Week};
use super::org::Company;
use super::people::People;
use crate::stop::Stop;

/// Steps of [`fill`].
pub(super) const STEPS: usize = PROJECTS.len() + APPROVERS.len() + 1 + WEEKS.len();

/// Creates what is missing. One submission stays undecided, for the user to try.
pub(super) async fn fill(
    people: &People,
    company: &Company,
    now: OffsetDateTime,
    bar: &mut Bar,
) -> Result<(), Stop> {
    let admin = &people.administrator.api;
    let base = format!("/api/timesheet/v1/companies/{}", company.id);
    bar.stage("projects");
    let projects = projects(admin, &base, bar).await?;
    bar.stage("approvers");
    approvers(admin, &base, company, bar).await?;
    bar.stage("grants");
    grant(people, company, bar).await?;
    bar.stage("last week");
    for week in &WEEKS {
        let made = submit(people, &base, week, &projects, monday_of_last_week(now)).await?;
        bar.step(made);
    }
    Ok(())
}

async fn projects(admin: &Api, base: &str, bar: &mut Bar) -> Result<HashMap<&'static str, String>, Stop> {
    let known = admin.list(&format!("{base}/projects")).await?;
    let mut ids = HashMap::new();
    for (code, name, active) in PROJECTS {
        let found = having(&known, "code", code).map(|row| text(row, "id"));
        let made = found.is_none();
        let id = if let Some(id) = found {
            id
        } else {
            let status = if active { "active" } else { "inactive" };
            let body = json!({"code": code, "name": name, "status": status});
            text(&admin.post(&format!("{base}/projects"), &body).await?, "id")
        };
        bar.step(made);
        ids.insert(code, id);
    }
    Ok(ids)
}

async fn approvers(admin: &Api, base: &str, company: &Company, bar: &mut Bar) -> Result<(), Stop> {
    let path = format!("{base}/member-approvers");
    let known = admin.list(&path).await?;
    for (member, approver) in APPROVERS {
        let member = company.members.get(member).map(String::as_str).unwrap_or_default();
        let missing = having(&known, "memberId", member).is_none();
        if missing {
            let body = json!({"memberId": member, "approverMemberId": company.members.get(approver)});
            admin.put(&path, &body).await?;
        }
        bar.step(missing);
    }
    Ok(())
}

/// Lets the leads read everyone's weeks: grants a tier to their group.
async fn grant(people: &People, company: &Company, bar: &mut Bar) -> Result<(), Stop> {
    let object = format!("{}/timesheet", company.id);
    let question = json!({
        "featureKey": "timesheet.submissions.read_all", "scope": "company", "moduleKey": "timesheet",
        "companyId": company.id, "relation": "viewer",
        "object": {"type": "company_module", "id": object},
    });
    let decision = people.named(DECIDER)?.api.post("/api/auth/effective-access/can", &question).await?;
    let missing = decision.get("allowed") != Some(&Value::Bool(true));
    if missing {
        let tuple = json!({
            "objectType": "company_module", "objectId": object, "relation": "viewer",
            "subjectType": "group", "subjectId": company.groups.get(LEADS), "subjectRelation": "member",
        });
        let body = json!({"op": "grant", "companyId": company.id, "tuples": [tuple]});
        people.administrator.api.post("/api/auth/grants", &body).await?;
    }
    bar.step(missing);
    Ok(())
}

/// Submits a user's week and decides it. A user who has submitted any week before gets no other.
async fn submit(
    people: &People,
    base: &str,
    week: &Week,
    projects: &HashMap<&'static str, String>,
    monday: Date,
) -> Result<bool, Stop> {
    let api = &people.named(week.login)?.api;
    let mine = api.list(&format!("{base}/submissions?view=mine")).await?;
    let (submission, made) = match mine.into_iter().next() {
        Some(submission) => (submission, false),
        None => (record(api, base, week, projects, monday).await?, true),
    };
    let waits = text(&submission, "status") == "submitted";
    if week.ending == Ending::Waits || !waits {
        return Ok(made);
    }
    let (verb, body) = match week.ending {
        Ending::Rejected => ("reject", json!({ "reason": REJECTION })),
        Ending::Approved | Ending::Waits => ("approve", json!({})),
    };
    let path = format!("{base}/submissions/{}/{verb}", text(&submission, "id"));
    people.named(DECIDER)?.api.post(&path, &body).await?;
    Ok(true)
}

async fn record(
    api: &Api,
    base: &str,
    week: &Week,
    projects: &HashMap<&'static str, String>,
    monday: Date,
) -> Result<Value, Stop> {
    for (project, hours) in week.hours {
        for (day, hours) in (0..).zip(hours).filter(|(_, hours)| **hours > 0.0) {
            let date = monday + Duration::days(day);
            let body =
                json!({"projectId": projects.get(project), "entryDate": iso(date), "realHours": hours});
            api.put(&format!("{base}/time-entries"), &body).await?;
        }
    }
    api.post(&format!("{base}/submissions"), &json!({ "weekStart": iso(monday) })).await
}

fn monday_of_last_week(now: OffsetDateTime) -> Date {
    let today = now.date();
    today - Duration::days(i64::from(today.weekday().number_days_from_monday())) - Duration::weeks(1)
}

fn iso(date: Date) -> String {
    format!("{:04}-{:02}-{:02}", date.year(), u8::from(date.month()), date.day())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_week_begins_on_a_monday() {
        for (now, expected) in [
            (1_795_305_600, "2026-11-09"), // Sunday 2026-11-22
            (1_795_392_000, "2026-11-16"), // Monday 2026-11-23
        ] {
            let now = OffsetDateTime::from_unix_timestamp(now).expect("a moment");
            assert_eq!(iso(monday_of_last_week(now)), expected);
        }
    }
}
