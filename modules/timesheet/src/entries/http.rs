//! The caller's own hours: a week of them, and one entry put.

use axum::extract::State;
use contract::id::MemberId;
use serde::Serialize;
use serde_json::{Map, Value, json};
use service::{ApiError, AuditEvent, AuditedTx, CompanyCall, Data, Permit, Query, RawBody, changes};

use super::rules::{Content, Entry, EntryBody, EntryId, EntryStatus};
use super::store;
use crate::refusal::conflict;
use crate::settings::rules::TimeRules;
use crate::weeks::rules::{Current, Day, Week, Window};
use crate::{App, features, settings, weeks};

/// The entries of one week.
#[derive(Serialize)]
pub(crate) struct WeekEntries {
    pub(crate) items: Vec<Entry>,
}

pub(crate) async fn list(
    State(app): State<App>,
    call: CompanyCall,
    query: Query,
) -> Result<Data<WeekEntries>, ApiError> {
    let permit = call.permit(&app.permits, &features::ENTRIES_READ).await?;
    let week = week_of(&query)?;
    let caller = app.org.member_context(permit.company, &permit.subject, &permit.correlation).await?;
    Ok(Data(WeekEntries { items: store::list(&app.core.pool, &permit, caller.member, week).await? }))
}

fn week_of(query: &Query) -> Result<Week, ApiError> {
    let wrong = |rule, message: &str| ApiError::validation_field("weekStart", rule, message);
    let text = query.get("weekStart").ok_or_else(|| wrong("required", "required"))?;
    let day = Day::parse(text).ok_or_else(|| wrong("date", "a date, YYYY-MM-DD"))?;
    Week::starting(day).ok_or_else(|| wrong("monday", "a Monday"))
}

pub(crate) async fn upsert(
    State(app): State<App>,
    call: CompanyCall,
    body: RawBody,
) -> Result<Data<Entry>, ApiError> {
    let permit = call.permit(&app.permits, &features::ENTRIES_WRITE).await?;
    let body: EntryBody = body.parse()?;
    let caller = app.org.member_context(permit.company, &permit.subject, &permit.correlation).await?;
    let member = caller.member;
    let mut tx = app.core.begin(&permit.subject, &permit.correlation).await?;
    let current = open_week(&mut tx, &permit, member, body.day.week()).await?;
    let rules = settings::store::find(tx.conn(), &permit).await?.unwrap_or(TimeRules::DEFAULT);
    Window::at(app.core.clock.now(), &rules).admit(body.day.week(), current)?;
    let before = store::find(&mut tx, &permit, member, &body).await?;
    let (id, before) = before.unzip();
    let content = checked(&mut tx, &permit, member, &body, before.as_ref(), &rules).await?;
    let changed = changes(before.as_ref(), &content)?;
    let id = id.unwrap_or_else(EntryId::mint);
    if changed.is_empty() {
        tx.unchanged().await?;
    } else {
        store::save(&mut tx, &permit, member, id, &content).await?;
        tx.commit(&upserted(&permit, id, &content, changed)).await?;
    }
    let status = EntryStatus::of(current.map(|current| current.status));
    Ok(Data(Entry { id, company_id: permit.company, member_id: member, content, status }))
}

/// Locks the week, which must be open, and tells its current submission.
pub(crate) async fn open_week(
    tx: &mut AuditedTx,
    permit: &Permit,
    member: MemberId,
    week: Week,
) -> Result<Option<Current>, ApiError> {
    weeks::store::lock(tx, permit, member, week).await?;
    let current = weeks::store::current(tx, permit, member, week).await?;
    match current {
        Some(current) if current.status.locks() => {
            let details = json!({ "submissionId": current.id, "status": current.status });
            Err(conflict("WEEK_LOCKED", "the week is submitted or approved", details))
        }
        open => Ok(open),
    }
}

/// The entry that is to be, once every rule of the project and the day allows it.
async fn checked(
    tx: &mut AuditedTx,
    permit: &Permit,
    member: MemberId,
    body: &EntryBody,
    before: Option<&Content>,
    rules: &TimeRules,
) -> Result<Content, ApiError> {
    let project = store::project(tx, permit, body.project).await?;
    let others = store::others(tx, permit, member, body).await?;
    let content = body.content(before, others, rules);
    content.check_project(project, before)?;
    content.check_hours(others, rules)?;
    Ok(content)
}

/// Tells which project and day beside the hours that changed.
fn upserted(permit: &Permit, id: EntryId, content: &Content, mut changed: Map<String, Value>) -> AuditEvent {
    changed.insert("projectId".to_owned(), json!(content.project_id));
    changed.insert("entryDate".to_owned(), json!(content.entry_date));
    AuditEvent {
        company: Some(permit.company),
        action: "entry.upserted",
        subject: format!("entry:{id}"),
        payload: Value::Object(changed),
    }
}
