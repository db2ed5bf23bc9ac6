//! Lists submissions and submits a week.

use axum::extract::State;
use contract::id::MemberId;
use contract::page::Page;
use http::HeaderMap;
use serde_json::json;
use service::company_rules::CompanyRules;
use service::idempotency::{self, Done, Key, Once};
use service::refusal::conflict;
use service::{ApiError, CompanyTx, Data, LimitedRead, Permit, Query, RawBody};

use super::rules::{Shown, Submission, SubmitBody, View, Who};
use super::{list as pages, store};
use crate::entries::rules::check_week;
use crate::settings::rules::TimeRules;
use crate::weeks::rules::{Current, Status, Week, Window};
use crate::{App, entries, member_approvers, operations, weeks};

/// The operation's name in stored responses.
const SUBMIT: &str = "submitWeek";

pub(crate) async fn list(
    State(app): State<App>,
    permit: LimitedRead<Permit>,
    query: Query,
) -> Result<Data<Page<Shown>>, ApiError> {
    let (view, page) = service::query::both(query.word("view", View::WORDS, View::Mine), query.page())?;
    let member = match view {
        View::All => member_if_any(&app, &permit).await?,
        View::Mine | View::Approvals => Some(own_member(&app, &permit).await?),
    };
    // Members cannot decide their own weeks, so a list of them needs no second decision.
    let approver = view != View::Mine && app.permits.probe(&permit, &operations::DECIDE_ANY).await?;
    let who = Who { subject: permit.subject.clone(), member, approver };
    let found = pages::page(&app.core.pool, &permit, view, &who, page).await?;
    let items = found.items.into_iter().map(|submission| submission.shown_to(&who)).collect();
    Ok(Data(Page::new(page, items, found.total)))
}

async fn own_member(app: &App, permit: &Permit) -> Result<MemberId, ApiError> {
    Ok(app.org.member_context(permit).await?.member)
}

pub(crate) async fn member_if_any(app: &App, permit: &Permit) -> Result<Option<MemberId>, ApiError> {
    let found = app.org.member_context_if_any(permit).await?;
    Ok(found.map(|context| context.member))
}

pub(crate) async fn submit(
    State(app): State<App>,
    permit: Permit,
    headers: HeaderMap,
    body: RawBody,
) -> Result<Once<Shown>, ApiError> {
    let key = Key::of(&headers)?;
    let SubmitBody { week } = body.parse()?;
    let member = own_member(&app, &permit).await?;
    let attempt = key.map(|key| key.attempt(permit.company, SUBMIT, &[], &json!({ "weekStart": week })));
    let tx = permit.begin(&app.core).await?;
    idempotency::once(tx, attempt.as_ref(), async |tx| {
        let made = submitted(tx, &app, &permit, member, week).await?;
        let event = tx.event("submission.submitted", format!("submission:{}", made.id), made.told());
        let who = Who { subject: permit.subject.clone(), member: Some(member), approver: false };
        let answer = made.shown_to(&who);
        Ok(Done { resource: Some(answer.submission.id.as_uuid()), answer, event })
    })
    .await
}

/// Adds the next version of the week, if its state and hours allow it.
async fn submitted(
    tx: &mut CompanyTx,
    app: &App,
    permit: &Permit,
    member: MemberId,
    week: Week,
) -> Result<Submission, ApiError> {
    let approver = member_approvers::store::approver_of(tx, member).await?;
    weeks::store::lock(tx, member, week).await?;
    let current = weeks::store::current(tx, member, week).await?;
    let before = current.map(superseded).transpose()?;
    let rules = TimeRules::of(tx).await?;
    Window::at(app.core.clock.now(), &rules).admit(week, current)?;
    check_week(entries::store::of_week(tx, member, week).await?.iter().map(|(_, entry)| entry), &rules)?;
    let made = Submission::next(permit, member, week, before, approver);
    store::add(tx, &made).await?;
    Ok(made)
}

/// Refuses to submit a week that waits for a decision or is approved.
fn superseded(current: Current) -> Result<Current, ApiError> {
    let details = json!({ "submissionId": current.id });
    match current.status {
        Status::Rejected | Status::Reverted => Ok(current),
        Status::Submitted => Err(conflict("SUBMISSION_PENDING", "the week waits for a decision", details)),
        Status::Approved => Err(conflict("SUBMISSION_APPROVED", "the week is approved", details)),
    }
}
