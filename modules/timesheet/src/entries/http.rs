//! Lists the caller's own hours of a week, and puts one entry.

use axum::extract::State;
use contract::id::MemberId;
use serde::Serialize;
use serde_json::{Value, json};
use service::company_rules::CompanyRules;
use service::refusal::conflict;
use service::{ApiError, Body, CompanyTx, Data, Permit, Query, changes};

use super::rules::{Content, Entry, EntryBody, EntryId, EntryStatus};
use super::store;
use crate::settings::rules::TimeRules;
use crate::weeks::rules::{Current, Week, Window};
use crate::{App, weeks};

/// The entries of one week.
#[derive(Serialize)]
pub(crate) struct WeekEntries {
    pub(crate) items: Vec<Entry>,
}

pub(crate) async fn list(
    State(app): State<App>,
    permit: Permit,
    query: Query,
) -> Result<Data<WeekEntries>, ApiError> {
    let week = Week::named("weekStart", query.day("weekStart")?)?;
    let caller = app.org.member_context(&permit).await?;
    Ok(Data(WeekEntries { items: store::list(&app.core.reads, &permit, caller.member, week).await? }))
}

pub(crate) async fn upsert(
    State(app): State<App>,
    permit: Permit,
    Body(body): Body<EntryBody>,
) -> Result<Data<Entry>, ApiError> {
    let member = app.org.member_context(&permit).await?.member;
    let mut tx = permit.begin(&app.core).await?;
    let week = Week::of(body.day);
    let current = open_week(&mut tx, member, week).await?;
    let rules = TimeRules::of(&mut tx).await?;
    Window::at(app.core.clock.now(), &rules).admit(week, current)?;
    let (id, before) = store::find(&mut tx, member, &body).await?.unzip();
    let content = checked(&mut tx, member, &body, before.as_ref(), &rules).await?;
    let mut changed = changes(before.as_ref(), &content)?;
    let id = id.unwrap_or_else(EntryId::mint);
    if changed.is_empty() {
        tx.unchanged().await?;
    } else {
        store::save(&mut tx, member, id, &content).await?;
        // The payload also names the project and day, which do not change.
        changed.insert("projectId".to_owned(), json!(content.project_id));
        changed.insert("entryDate".to_owned(), json!(content.entry_date));
        tx.commit("entry.upserted", format!("entry:{id}"), Value::Object(changed)).await?;
    }
    let status = EntryStatus::of(current.map(|current| current.status));
    Ok(Data(Entry { id, company_id: permit.company, member_id: member, content, status }))
}

/// Locks the week, which must be open, and returns its current submission.
pub(crate) async fn open_week(
    tx: &mut CompanyTx,
    member: MemberId,
    week: Week,
) -> Result<Option<Current>, ApiError> {
    weeks::store::lock(tx, member, week).await?;
    let current = weeks::store::current(tx, member, week).await?;
    match current {
        Some(current) if current.status.locks() => {
            let details = json!({ "submissionId": current.id, "status": current.status });
            Err(conflict("WEEK_LOCKED", "the week is submitted or approved", details))
        }
        open => Ok(open),
    }
}

/// Builds the new entry and checks it against the rules for the project and the day.
async fn checked(
    tx: &mut CompanyTx,
    member: MemberId,
    body: &EntryBody,
    before: Option<&Content>,
    rules: &TimeRules,
) -> Result<Content, ApiError> {
    let project = store::project(tx, body.project).await?;
    let others = store::others(tx, member, body).await?;
    let content = body.content(before, others, rules);
    content.check_project(project, before)?;
    content.check_hours(others, rules)?;
    Ok(content)
}
