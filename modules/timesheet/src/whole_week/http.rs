//! Saves the caller's whole week.

use axum::extract::State;
use serde_json::json;
use service::company_rules::CompanyRules;
use service::refusal::all_broken;
use service::{ApiError, Body, Data, Permit};

use super::rules::{WeekBody, difference, keyed, planned};
use super::store;
use crate::entries::http::{WeekEntries, open_week};
use crate::settings::rules::TimeRules;
use crate::weeks::rules::Window;
use crate::{App, entries};

pub(crate) async fn save(
    State(app): State<App>,
    permit: Permit,
    Body(body): Body<WeekBody>,
) -> Result<Data<WeekEntries>, ApiError> {
    let (member, week) = (app.org.member_context(&permit).await?.member, body.week);
    let mut tx = permit.begin(&app.core).await?;
    let current = open_week(&mut tx, member, week).await?;
    let rules = TimeRules::of(&mut tx).await?;
    Window::at(app.core.clock.now(), &rules).admit(week, current)?;
    let projects = store::projects(&mut tx, &body.projects()).await?;
    let before = keyed(entries::store::of_week(&mut tx, member, week).await?);
    let after = planned(&body, &before, &projects, &rules)
        .map_err(|problems| all_broken("rows of the week break rules", &problems))?;
    let change = difference(&before, &after)?;
    if change.told.is_empty() {
        tx.unchanged().await?;
    } else {
        store::drop_entries(&mut tx, &change.dropped).await?;
        for (id, entry) in &change.written {
            entries::store::save(&mut tx, member, *id, entry).await?;
        }
        let payload = json!({ "weekStart": week, "entries": change.told });
        tx.commit("week.saved", format!("member:{member}"), payload).await?;
    }
    Ok(Data(WeekEntries { items: entries::store::list(&app.core.reads, &permit, member, week).await? }))
}
