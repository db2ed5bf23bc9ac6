//! Saves the caller's week.

use axum::extract::State;
use contract::id::MemberId;
use serde_json::{Value, json};
use service::{ApiError, AuditEvent, CompanyCall, Data, Permit, RawBody};

use super::rules::{Difference, WeekBody, difference, keyed, planned};
use super::store;
use crate::entries::http::{WeekEntries, open_week};
use crate::refusal::all_broken;
use crate::settings::rules::TimeRules;
use crate::weeks::rules::{Week, Window};
use crate::{App, entries, features, settings};

pub(crate) async fn save(
    State(app): State<App>,
    call: CompanyCall,
    body: RawBody,
) -> Result<Data<WeekEntries>, ApiError> {
    let permit = call.permit(&app.permits, &features::ENTRIES_WRITE).await?;
    let body: WeekBody = body.parse()?;
    let caller = app.org.member_context(permit.company, &permit.subject, &permit.correlation).await?;
    let (member, week) = (caller.member, body.week);
    let mut tx = app.core.begin(&permit.subject, &permit.correlation).await?;
    let current = open_week(&mut tx, &permit, member, week).await?;
    let rules = settings::store::find(tx.conn(), &permit).await?.unwrap_or(TimeRules::DEFAULT);
    Window::at(app.core.clock.now(), &rules).admit(week, current)?;
    let projects = store::projects(&mut tx, &permit, &body.projects()).await?;
    let before = keyed(entries::store::of_week(&mut tx, &permit, member, week).await?);
    let after = planned(&body, &before, &projects, &rules).map_err(|problems| all_broken(&problems))?;
    let change = difference(&before, &after)?;
    if change.told.is_empty() {
        tx.unchanged().await?;
    } else {
        store::drop_entries(&mut tx, &permit, &change.dropped).await?;
        for (id, entry) in &change.written {
            entries::store::save(&mut tx, &permit, member, *id, entry).await?;
        }
        tx.commit(&saved(&permit, member, week, change)).await?;
    }
    Ok(Data(WeekEntries { items: entries::store::list(&app.core.pool, &permit, member, week).await? }))
}

fn saved(permit: &Permit, member: MemberId, week: Week, change: Difference) -> AuditEvent {
    AuditEvent {
        company: Some(permit.company),
        action: "week.saved",
        subject: format!("member:{member}"),
        payload: json!({ "weekStart": week, "entries": Value::Array(change.told) }),
    }
}
